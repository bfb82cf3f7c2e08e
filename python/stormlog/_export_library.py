"""Checks whether the Python library of a service (W&B or MLflow) is installed."""

from __future__ import annotations

from importlib.util import find_spec


def is_installed(library: str) -> bool:
    """Whether the library can be imported, without importing it.

    A directory of that name is not enough: ``wandb`` stores its runs in one.
    """
    try:
        spec = find_spec(library)
    except ValueError:
        return False
    return spec is not None and spec.origin is not None
