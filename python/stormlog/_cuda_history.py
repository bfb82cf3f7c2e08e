"""Switches PyTorch's history of its CUDA allocator on while some part of Stormlog needs it.

PyTorch has one history for the whole process. Two parts of Stormlog use it: callers of
``switch_on`` record all allocations and frees, and a ``Window`` records for a short time the stacks
of new blocks. A history that the program switched on itself is used and left unchanged.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any

from ._torch import require_torch
from .errors import InvalidValueError, MissingFrameworkError, NoAcceleratorError, NotSupportedError

_UNAVAILABLE = "Native CUDA memory history is unavailable in this PyTorch runtime"


class Turn:
    """A lock that is free in a forked child, where the thread that held it does not exist."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock and return True; without ``blocking``, return False if it is taken."""
        return self._lock.acquire(blocking=blocking)

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


_lock = Turn()
# How many calls of `switch_on` are not undone by `switch_off`, and whether one of them started the
# history.
_users = 0
_switched_on_here = False
# The open window, if it is the window that switched the history on.
_window: Window | None = None


def is_supported() -> bool:
    """Whether PyTorch can record the history of its CUDA allocator and finds a CUDA device."""
    try:
        memory_functions()
    except (MissingFrameworkError, NoAcceleratorError):
        return False
    return True


def memory_functions() -> Any:
    """Return the module ``torch.cuda.memory``. Raises ``NoAcceleratorError``, which names what is
    missing, when the history cannot be recorded."""
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
    torch = require_torch()
    # `_records` may be called only after CUDA has started. Recording the history would start CUDA
    # anyway.
    torch.cuda.init()
    with _lock:
        is_programs = _window is None and _records(torch)
        if _users == 0 and not is_programs:
            _start(functions, max_entries)
            _switched_on_here = True
        _users += 1


def _start(functions: Any, max_entries: int) -> None:
    """Start the history in place of the open window, if there is one. The caller has the lock."""
    window = _window
    if window is not None:
        window.give_up()
    try:
        # Looking up C++ stacks takes seconds, and they name no line of the program.
        functions._record_memory_history(
            enabled="all", context="all", stacks="python", max_entries=max_entries
        )
    except Exception as error:
        if window is not None:
            # The window has given up the history above and no longer switches it off.
            with suppress(Exception):
                functions._record_memory_history(enabled=None)
        if isinstance(error, TypeError):
            raise NotSupportedError(f"{_UNAVAILABLE}: it needs PyTorch 2.1 or later") from error
        raise


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


def is_on(torch: Any) -> bool:
    """Whether PyTorch records the history now; the program itself may have switched it on."""
    return _records(torch) if torch.cuda.is_initialized() else _switched_on_here


def _records(torch: Any) -> bool:
    """Whether PyTorch records the history now. To be called only after CUDA has started: before
    that, PyTorch's function would end the process."""
    ask = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return _switched_on_here if ask is None else bool(ask())


class Window:
    """The recording of an evidence window: a short time in which PyTorch records the stack of each
    new block. At most one window may be open at a time."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._replaced: tuple[Any, Any] | None = None
        # Whether the history also has another user, so that closing the window leaves it on.
        self.is_taken = False

    def open(self) -> None:
        """Record the stack of each new block from now on, but no list of past allocations and
        frees. A history that is already on stays as it is."""
        global _window
        with _lock:
            self.is_taken = is_on(self._torch)
            if self.is_taken:
                return
            self._torch.cuda.memory._record_memory_history(
                enabled="state", context="state", stacks="python"
            )
            _window = self
            self._watch()

    def _watch(self) -> None:
        """Arrange that ``give_up`` is called when the program itself switches the history on or off."""
        functions = self._torch._C
        original = getattr(functions, "_cuda_record_memory_history", None)
        if original is None:
            return

        def noticed(*arguments: Any, **options: Any) -> Any:
            # Stormlog calls PyTorch's function only while it is not replaced. So the program has
            # made this call, and this thread does not hold the lock.
            with _lock:
                self.give_up()
            return original(*arguments, **options)

        self._replaced = (original, noticed)
        functions._cuda_record_memory_history = noticed

    def close(self) -> None:
        """Switch the history off, unless it has another user by now."""
        with _lock:
            if not self.is_taken:
                self._end()
                self._torch.cuda.memory._record_memory_history(enabled=None)

    def give_up(self) -> None:
        """Leave the history to another user, who is about to switch it on or off. The caller has
        the lock."""
        self.is_taken = True
        self._end()

    def _end(self) -> None:
        global _window
        # The program may still call the function `noticed` of a window that is already closed. Such
        # a call must not affect the window that is open now.
        if _window is self:
            _window = None
        replaced, self._replaced = self._replaced, None
        functions = self._torch._C
        if replaced is not None and functions._cuda_record_memory_history is replaced[1]:
            functions._cuda_record_memory_history = replaced[0]
