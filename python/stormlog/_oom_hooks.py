"""Notices out-of-memory errors without a change to the user's code.

PyTorch calls a function of this module (an observer) on the allocating thread before the exception
is raised, so the bundle is complete before the process can end. Errors of JAX are reported when
they are raised, if this version of Python allows that (``_memory_errors``). Other errors are
reported only if the program does not catch them, by ``sys.excepthook`` and
``threading.excepthook``.
"""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from collections import deque
from types import TracebackType
from typing import Any, Protocol

from ._torch import loaded_torch

logger = logging.getLogger("stormlog.oom_flight_recorder")


class Watcher(Protocol):
    """A tracker that is notified when memory runs out."""

    # The runtime whose device is tracked, such as "cuda" or "jax".
    backend: str

    def handle_exception(self, error: BaseException, /, *, context: str) -> object: ...
    def _on_allocator_oom(self, device: int, requested: int, limit: int, free: int) -> object: ...
    def _has_announced(self, error: BaseException, /) -> bool: ...
    def _is_on_current_device(self) -> bool: ...


_watching: weakref.WeakSet[Watcher] = weakref.WeakSet()
_lock = threading.Lock()
_observes_torch = False
_hooks_exceptions = False
# The ids and texts of the last errors that a tracker has handled. The errors themselves are not
# kept, because they would keep their frames and all variables alive. The texts are compared by
# identity: as long as they are kept here, no later error has the same ones, even if it gets the id.
_handled: deque[tuple[int, tuple[Any, ...]]] = deque(maxlen=16)


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
        # Even if this fails, the program must get its own exception and no other.
        try:
            tracker._on_allocator_oom(device, requested, limit, free)
        except Exception as error:
            logger.warning("cannot record the out-of-memory error: %s", error)


def on_raised(error: BaseException) -> bool:
    """Report an error of JAX that was just raised and may be caught. Returns whether a JAX device
    is tracked; if not, JAX uses host memory, and the caller reports the error."""
    trackers = [tracker for tracker in list(_watching) if tracker.backend == "jax"]
    if trackers:
        _report(error, "exception", trackers)
    return bool(trackers)


def note_handled(error: BaseException) -> None:
    """Remember that an error is recorded, so that it is not reported again when it ends the
    process."""
    _handled.append((id(error), _texts(error)))


def _is_handled(error: BaseException) -> bool:
    texts = _texts(error)
    return any(id(error) == known and texts is kept for known, kept in list(_handled))


def _texts(error: BaseException) -> tuple[Any, ...]:
    """The arguments of an error; none when they are not all texts, because other objects must not
    be kept alive."""
    return error.args if all(isinstance(one, str) for one in error.args) else ()


def _on_uncaught(error: BaseException | None) -> None:
    # Even if this fails, the hooks that print the error must run.
    try:
        if error is not None and not _is_handled(error):
            _report(error, "uncaught exception", _concerned(error))
    except Exception as failure:
        logger.warning("cannot record the out-of-memory error: %s", failure)


def _concerned(error: BaseException) -> list[Watcher]:
    """The trackers of the devices on which an uncaught error may have happened."""
    of_jax = [tracker for tracker in list(_watching) if tracker.backend == "jax"]
    others = [tracker for tracker in list(_watching) if tracker.backend != "jax"]
    framework = _framework(error)
    if framework == "jax" or (framework is None and not others):
        return of_jax
    # PyTorch's observer reports the device. For an error that it has not reported, the device is
    # probably the current one.
    announced = [tracker for tracker in others if tracker._has_announced(error)]
    return announced or [one for one in others if one._is_on_current_device()] or others


def _framework(error: BaseException) -> str | None:
    package = type(error).__module__.partition(".")[0]
    if package in ("jax", "jaxlib") or "RESOURCE_EXHAUSTED" in str(error):
        return "jax"
    return "torch" if package == "torch" else None


def _report(error: BaseException, context: str, trackers: list[Watcher]) -> None:
    if trackers:
        note_handled(error)
    for tracker in trackers:
        try:
            tracker.handle_exception(error, context=context)
        except Exception as failure:
            logger.warning("cannot record the out-of-memory error: %s", failure)
