"""Checks whether a package is installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def is_installed(name: str) -> bool:
    """Whether a package can be imported, without importing it; one that was added to
    ``sys.modules`` counts too.

    A directory of that name is not enough, even if it was imported: ``wandb`` stores its runs in one.
    """
    module = sys.modules.get(name)
    if module is not None:
        # A module that a program made itself has no spec.
        spec = getattr(module, "__spec__", None)
        return spec is None or spec.origin is not None
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None
