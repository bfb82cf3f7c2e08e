"""Access to PyTorch for the parts of the package that need it. They import it on first use."""

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
    """The module ``torch``, or an error that names what to install."""
    try:
        import torch
    except ImportError as error:
        raise MissingFrameworkError(_HINT, name="torch") from error
    return torch


def loaded_torch() -> ModuleType | None:
    """The module ``torch`` if the program itself has imported it."""
    return sys.modules.get("torch")
