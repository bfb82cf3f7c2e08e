"""Whether the library of a service is there."""

from __future__ import annotations

from importlib.util import find_spec


def is_installed(library: str) -> bool:
    """Whether it can be imported, without doing so.

    A directory of that name is not enough: ``wandb`` keeps its runs in one.
    """
    try:
        spec = find_spec(library)
    except ValueError:
        return False
    return spec is not None and spec.origin is not None
