"""Calls a function repeatedly on a separate thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ._signals import left_to_the_program
from .errors import InvalidValueError

# How long `stop` waits for the current call: a call that hangs must not block the program.
_LONGEST_WAIT_S = 5.0


class Repeating:
    """Calls a function at once and then at an interval, from ``start`` until ``stop``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: tuple[threading.Thread, threading.Event] | None = None

    @property
    def active(self) -> bool:
        """Whether the function is being called repeatedly."""
        return self._running is not None

    def start(self, step: Callable[[], object], interval: float) -> None:
        """Call ``step`` now and after each pause of ``interval`` seconds, on a separate thread.
        Does nothing when already started."""
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
        """Stop calling the function. Waits up to 5 s for the end of a call in progress, unless the
        function itself calls ``stop``."""
        if self._running is None:
            return
        thread, stop = self._running
        self._running = None
        stop.set()
        if thread is not threading.current_thread():
            thread.join(timeout=_LONGEST_WAIT_S)
