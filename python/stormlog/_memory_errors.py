"""Reports out-of-memory errors that a program catches: ``MemoryError``, and the errors of PyTorch's
CPU allocator and of JAX.

Failed allocations of PyTorch on devices, and exceptions that end a process, are reported elsewhere
(``_oom_hooks``). An exception that the program catches can only be seen when it is raised, through
``sys.monitoring`` (Python 3.12 and later). The interpreter then calls back for every exception, so
the callback is written in Rust to be fast. An error on a device is reported to the tracker of the
device. An error of host memory is written to a file in the inbox of the run. JAX's errors on a CPU
are errors of host memory.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import _core, _inbox, _oom_cause, _oom_hooks

# Tool ids of ``sys.monitoring`` that by convention no other tool uses.
_TOOLS = (4, 3)
_NAME = "stormlog"
# The most reports of a process: a program that retries with less memory fails many times.
_MOST = 8
_LONGEST_MESSAGE = 4000


def watch(inbox: Path) -> None:
    """Report the out-of-memory errors that are raised from now on, if this version of Python has
    ``sys.monitoring`` and a tool id is free."""
    monitoring: Any = getattr(sys, "monitoring", None)
    # A forked child has inherited the parent's registration.
    if monitoring is None or any(monitoring.get_tool(tool) == _NAME for tool in _TOOLS):
        return
    for tool in _TOOLS:
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, _NAME)
            raised = monitoring.events.RAISE
            monitoring.register_callback(tool, raised, _core.MemoryErrors(_Reports(inbox)))
            monitoring.set_events(tool, raised)
            return


class _Reports:
    """Reports the first eight out-of-memory errors of this process, each once."""

    def __init__(self, inbox: Path) -> None:
        self._inbox = inbox
        self._left = _MOST
        self._last: tuple[int, float] | None = None

    def __call__(self, error: BaseException, is_device: bool) -> None:
        try:
            self._report(error, is_device)
        finally:
            # The time is taken after the report, which takes up to two seconds.
            self._last = (id(error), time.monotonic())

    def _report(self, error: BaseException, is_device: bool) -> None:
        now = time.monotonic()
        # The interpreter calls back for every function that the error passes, and JAX has many.
        if self._last is not None and self._last[0] == id(error) and now - self._last[1] < 1.0:
            return
        if self._left == 0:
            return
        self._left -= 1
        if not is_device or not _oom_hooks.on_raised(error):
            self._leave(error)

    def _leave(self, error: BaseException) -> None:
        kind = type(error)
        lines = [
            f"time_ns {time.time_ns()}",
            f"pid {os.getpid()}",
            f"type {_inbox.escaped(kind.__name__)}",
            f"module {_inbox.escaped(kind.__module__)}",
            f"message {_inbox.escaped(str(error)[:_LONGEST_MESSAGE])}",
        ]
        name = f"survived-{os.getpid()}-{_MOST - self._left}"
        path = str(self._inbox / name)
        # Written first without a cause: there may be no memory left for an inspection.
        _inbox.leave(path, "\n".join(lines) + "\n")
        with suppress(Exception):
            cause = json.dumps(_oom_cause.of_exception(error))
            _inbox.leave(path, "\n".join([*lines, f"cause {_inbox.escaped(cause)}"]) + "\n")
