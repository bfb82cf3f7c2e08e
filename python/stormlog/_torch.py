"""Access to PyTorch for the parts of the package that need it. PyTorch is imported on first use,
not when the package is imported."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .errors import MissingFrameworkError

_HINT = (
    "PyTorch is required for this feature. Install with `pip install 'stormlog[torch]'` "
    "or follow https://pytorch.org/get-started/locally/."
)


def require_torch() -> Any:
    """Import and return the module ``torch``. Raises ``MissingFrameworkError``, which names what to
    install, when PyTorch cannot be imported."""
    try:
        import torch
    except ImportError as error:
        raise MissingFrameworkError(_HINT, name="torch") from error
    return torch


def loaded_torch() -> ModuleType | None:
    """The module ``torch`` if it is already imported, else None."""
    return sys.modules.get("torch")
