"""Notices out-of-memory errors without a change to the user's code.

PyTorch calls an observer on the allocating thread before the exception is raised, so the
bundle is complete before the process can end. Errors of JAX are reported when they are raised, if
this version of Python can show raised exceptions (``_memory_errors``). The hooks for uncaught
exceptions report all others.
"""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from types import TracebackType
from typing import Any, Protocol

from ._torch import loaded_torch

logger = logging.getLogger("stormlog.oom_flight_recorder")


class Watcher(Protocol):
    """A tracker that wants to know when memory runs out."""

    # The runtime whose device is tracked.
    backend: str

    def handle_exception(self, error: BaseException, /, *, context: str) -> object: ...
    def _on_allocator_oom(self, device: int, requested: int, limit: int, free: int) -> object: ...


_watching: weakref.WeakSet[Watcher] = weakref.WeakSet()
_lock = threading.Lock()
_observes_torch = False
_hooks_exceptions = False
# The id and the text of the last error that was reported when it was raised.
_raised: tuple[int, str] | None = None


def watch(tracker: Watcher) -> None:
    """Report every out-of-memory error from now on to a tracker."""
    with _lock:
        _watching.add(tracker)
        _observe_torch()
        _hook_exceptions()


def unwatch(tracker: Watcher) -> None:
    """Stop reporting errors to a tracker."""
    with _lock:
        _watching.discard(tracker)


def _observe_torch() -> None:
    global _observes_torch
    torch = loaded_torch()
    attach = getattr(getattr(torch, "_C", None), "_cuda_attach_out_of_memory_observer", None)
    if _observes_torch or attach is None:
        return
    try:
        attach(_on_torch_oom)
    except Exception as error:
        logger.debug("PyTorch's out-of-memory observer cannot be used: %s", error)
        return
    _observes_torch = True


def _hook_exceptions() -> None:
    global _hooks_exceptions
    if _hooks_exceptions:
        return
    _hooks_exceptions = True
    previous, previous_in_thread = sys.excepthook, threading.excepthook

    def on_exception(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        _on_uncaught(error)
        previous(kind, error, trace)

    def on_exception_in_thread(arguments: Any) -> None:
        _on_uncaught(arguments.exc_value)
        previous_in_thread(arguments)

    sys.excepthook = on_exception
    threading.excepthook = on_exception_in_thread


def _on_torch_oom(device: int, requested: int, limit: int, free: int) -> None:
    for tracker in list(_watching):
        # Whatever happens here, the program must get its own exception and no other.
        try:
            tracker._on_allocator_oom(device, requested, limit, free)
        except Exception as error:
            logger.warning("cannot record the out-of-memory error: %s", error)


def on_raised(error: BaseException) -> bool:
    """Report an error of JAX that was just raised and may be caught. Returns whether a JAX device
    is tracked; if not, JAX uses host memory, and the caller reports the error."""
    global _raised
    trackers = [tracker for tracker in list(_watching) if tracker.backend == "jax"]
    if trackers:
        _raised = (id(error), str(error))
        _report(error, "exception", trackers)
    return bool(trackers)


def _on_uncaught(error: BaseException | None) -> None:
    if error is not None and _raised != (id(error), str(error)):
        _report(error, "uncaught exception", list(_watching))


def _report(error: BaseException, context: str, trackers: list[Watcher]) -> None:
    for tracker in trackers:
        try:
            tracker.handle_exception(error, context=context)
        except Exception as failure:
            logger.warning("cannot record the out-of-memory error: %s", failure)
