"""Checks whether a package is installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def is_installed(name: str) -> bool:
    """Whether a package can be imported; this does not import it. A module that a program has added
    to ``sys.modules`` itself counts too.

    A directory without ``__init__.py`` does not count, although Python can import it: ``wandb``
    stores its runs in a directory named ``wandb``.
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
