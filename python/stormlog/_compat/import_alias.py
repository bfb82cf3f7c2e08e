"""Old import names: ``gpumemprof.x`` is the module ``stormlog.x`` itself, not a copy of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


class AliasFinder(MetaPathFinder):
    """Resolves an import of ``alias.x`` to the module ``x`` of the first package that has one."""

    def __init__(self, alias: str, packages: Sequence[str]) -> None:
        self.alias, self.packages = alias, packages

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The import spec of ``alias.x``; None for a module that is not under the alias, and where
        no package has a module ``x``."""
        package, _, rest = fullname.partition(".")
        if package != self.alias or not rest:
            return None
        for package in self.packages:
            if _exists(f"{package}.{rest}"):
                return ModuleSpec(fullname, _AliasLoader(f"{package}.{rest}"))
        return None


class _AliasLoader(Loader):
    def __init__(self, target: str) -> None:
        self.target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has replaced the module's spec by that of the alias. The module gets
        # back its own spec, which contains its own name.
        module.__spec__ = self.spec


def install(alias: str, packages: Sequence[str]) -> None:
    """Make an import of ``alias.x`` return the module ``x`` of the first package that has one."""
    sys.meta_path.insert(0, AliasFinder(alias, packages))


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
