"""Lists the public names of a package and their parameters, to compare two packages.

    python python/tests/parity/names.py > python/tests/names_of_reference.json

records stormlog 0.3.9, run by an interpreter that has it, JAX and matplotlib, with the stand-in
for PyTorch on the path. The test reads its own package with the same code.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
from typing import Any

# Not imported by users: parts of the terminal UI, release tools, generated code, commands.
LEFT_OUT = (
    "stormlog.tui.",
    "stormlog.release_version",
    "stormlog.jax.profile_pb2",
    "stormlog.cli",
    "stormlog.jax.cli",
    "stormlog.tensorflow.cli",
    "stormlog.query_cli",
    "stormlog.entrypoint",
)
# Recorded for a name that cannot be called.
VALUE = "-"
# Imported for the module's own use.
INTERNAL = {"TYPE_CHECKING", "F", "P", "R", "tf", "MappingProxyType"}
_PREFIX = {
    inspect.Parameter.POSITIONAL_ONLY: "/",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.KEYWORD_ONLY: "kw ",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def modules_of(package: str) -> list[str]:
    """The public modules of a package, those left out aside."""
    root = importlib.import_module(package)
    found = pkgutil.walk_packages(root.__path__, f"{package}.", onerror=lambda name: None)
    names = [package, *(module.name for module in found)]
    return [
        name
        for name in names
        if not any(part.startswith("_") for part in name.split("."))
        and not name.startswith(LEFT_OUT)
    ]


def names_of(module_name: str) -> dict[str, Any]:
    """Every public name: parameters of what is called, members of classes, ``-`` for the rest."""
    module = importlib.import_module(module_name)
    offered = set(getattr(module, "__all__", ()))
    names: dict[str, Any] = {}
    for name in sorted(offered | {name for name in dir(module) if not name.startswith("_")}):
        value = getattr(module, name, None)
        if inspect.ismodule(value) or name in INTERNAL or name.endswith("_AVAILABLE"):
            continue
        home = str(getattr(value, "__module__", module_name))
        is_own = home == module_name or name in offered
        if not is_own and not home.startswith("stormlog"):
            continue
        names[name] = fact_of(value) if is_own else VALUE
    return names


def fact_of(value: Any) -> Any:
    """What is recorded about a value."""
    if inspect.isclass(value):
        return {"": parameters_of(value), **members_of(value)}
    return parameters_of(value) if callable(value) else VALUE


def members_of(kind: type) -> dict[str, Any]:
    """The public members of a class that are defined in the package itself."""
    members: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("stormlog"):
            continue
        for name, raw in vars(base).items():
            if not name.startswith("_"):
                is_call = callable(raw) or isinstance(raw, (classmethod, staticmethod))
                members[name] = parameters_of(getattr(kind, name)) if is_call else VALUE
    return dict(sorted(members.items()))


def parameters_of(function: Any) -> str | None:
    """Names, kinds and defaults; None where they are unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    words = []
    for one in parameters:
        if one.name == "self":
            continue
        prefix = _PREFIX.get(one.kind, "")
        default = "" if one.default is one.empty else f"={default_of(one.default)}"
        words.append(f"{prefix}{one.name}{default}")
    return ", ".join(words)


def default_of(value: Any) -> str:
    """A default as text; ``...`` for any object that is not a plain value."""
    plain = value is None or isinstance(value, (bool, int, float, str, tuple))
    return repr(value) if plain else "..."


def main() -> None:
    recorded: dict[str, Any] = {}
    for module in modules_of("stormlog"):
        recorded[module] = names_of(module)
    lines = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(facts)}" for name, facts in recorded.items()
    )
    sys.stdout.write(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
