"""Switches PyTorch's history of its CUDA allocator on while some part of Stormlog needs it.

A history that the program switched on itself is used and left unchanged.
"""

from __future__ import annotations

import threading
from typing import Any

from ._torch import require_torch
from .errors import InvalidValueError, MissingFrameworkError, NoAcceleratorError, NotSupportedError

_UNAVAILABLE = "Native CUDA memory history is unavailable in this PyTorch runtime"

_lock = threading.Lock()
_users = 0
_switched_on_here = False


def is_supported() -> bool:
    """Whether PyTorch can record its allocator and has a device to record."""
    try:
        memory_functions()
    except (MissingFrameworkError, NoAcceleratorError):
        return False
    return True


def memory_functions() -> Any:
    """The module ``torch.cuda.memory``, or an error that names what is missing."""
    try:
        torch = require_torch()
    except MissingFrameworkError as error:
        raise NoAcceleratorError(f"{_UNAVAILABLE}. {error}") from error
    functions = getattr(torch.cuda, "memory", None)
    wanted = ("_record_memory_history", "_snapshot")
    if not all(hasattr(functions, name) for name in wanted):
        raise NoAcceleratorError(f"{_UNAVAILABLE}: it needs PyTorch 2.1 or later, built with CUDA")
    if not torch.cuda.is_available():
        raise NoAcceleratorError(f"{_UNAVAILABLE}: PyTorch finds no CUDA device")
    return functions


def switch_on(max_entries: int) -> None:
    """Switch the history on for one more caller. The first caller starts the history and decides
    how many entries are kept."""
    global _users, _switched_on_here
    if max_entries < 1:
        raise InvalidValueError("trace_alloc_max_entries must be >= 1")
    functions = memory_functions()
    with _lock:
        if _users == 0 and not is_on():
            try:
                # Looking up C++ stacks takes seconds, and they name no line of the program.
                functions._record_memory_history(
                    enabled="all", context="all", stacks="python", max_entries=max_entries
                )
            except TypeError as error:
                raise NotSupportedError(f"{_UNAVAILABLE}: it needs PyTorch 2.1 or later") from error
            _switched_on_here = True
        _users += 1


def switch_off() -> None:
    """Undo one call of ``switch_on``. A history that ``switch_on`` started ends when the last call
    is undone. Does nothing when no call is left to undo."""
    global _users, _switched_on_here
    with _lock:
        if _users == 0:
            return
        _users -= 1
        if _users == 0 and _switched_on_here:
            _switched_on_here = False
            memory_functions()._record_memory_history(enabled=None)


def is_on() -> bool:
    """Whether PyTorch records its allocator now; the program itself may have started that."""
    ask = getattr(require_torch()._C, "_cuda_isHistoryEnabled", None)
    return _switched_on_here if ask is None else bool(ask())
