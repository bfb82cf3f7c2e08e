"""Calls a function repeatedly on a separate thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ._signals import left_to_the_program
from .errors import InvalidValueError

# A step that hangs must not block the program.
_LONGEST_WAIT_S = 5.0


class Repeating:
    """Calls a function at once and then at an interval, between start and stop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: tuple[threading.Thread, threading.Event] | None = None

    @property
    def active(self) -> bool:
        """Whether the function is being called repeatedly."""
        return self._running is not None

    def start(self, step: Callable[[], object], interval: float) -> None:
        """Start to call ``step``, every ``interval`` seconds. Does nothing when already started."""
        if not interval > 0:
            raise InvalidValueError("interval must be > 0")
        if self._running is not None:
            return
        stop = threading.Event()

        def repeat() -> None:
            while not stop.is_set():
                step()
                stop.wait(interval)

        thread = threading.Thread(target=repeat, name=self._name, daemon=True)
        with left_to_the_program():
            thread.start()
        self._running = (thread, stop)

    def stop(self) -> None:
        """Stop after the current step."""
        if self._running is None:
            return
        thread, stop = self._running
        self._running = None
        stop.set()
        if thread is not threading.current_thread():
            thread.join(timeout=_LONGEST_WAIT_S)
