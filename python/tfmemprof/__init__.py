"""The old import name of ``stormlog.tensorflow``; modules that it lacks come from ``stormlog``."""

from importlib import import_module
from typing import Any

from stormlog._compat.import_alias import install

install("tfmemprof", ("stormlog.tensorflow", "stormlog"))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("stormlog.tensorflow"), name)
