"""Out-of-memory errors that a program catches: ``MemoryError``, PyTorch's CPU allocator, JAX.

PyTorch reports failed allocations of devices itself, and exceptions that end a process are
reported by hooks. What is caught can only be seen when it is raised, which ``sys.monitoring`` shows
from Python 3.12 on; the interpreter calls back for every exception, so the callback is compiled and
looks at the type only. An error of a device goes to its tracker, one of host memory as a report to
the inbox of the run. JAX's errors of a CPU are of host memory.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import _core, _oom_cause, _oom_hooks

# Tools that no other library has by convention.
_TOOLS = (4, 3)
_NAME = "stormlog"
# What a process reports at most: one that tries again with less fails many times.
_MOST = 8
_LONGEST_MESSAGE = 4000
_DEVICE = "RESOURCE_EXHAUSTED"


def watch(inbox: Path) -> None:
    """Report every error of memory from now on, where this Python can."""
    monitoring: Any = getattr(sys, "monitoring", None)
    # A child of a fork has the parent's.
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
    """The reports of this process."""

    def __init__(self, inbox: Path) -> None:
        self._inbox = inbox
        self._left = _MOST
        self._last: tuple[int, float] | None = None

    def __call__(self, error: BaseException) -> None:
        try:
            self._report(error)
        finally:
            # After the report, which takes up to two seconds.
            self._last = (id(error), time.monotonic())

    def _report(self, error: BaseException) -> None:
        now = time.monotonic()
        # The interpreter calls for every function that the error leaves, and JAX has many.
        if self._last is not None and self._last[0] == id(error) and now - self._last[1] < 1.0:
            return
        if self._left == 0:
            return
        self._left -= 1
        message = str(error)
        if _DEVICE not in message or not _oom_hooks.on_raised(error):
            self._leave(error, message)

    def _leave(self, error: BaseException, message: str) -> None:
        kind = type(error)
        lines = [
            f"time_ns {time.time_ns()}",
            f"pid {os.getpid()}",
            f"type {_escaped(kind.__name__)}",
            f"module {_escaped(kind.__module__)}",
            f"message {_escaped(message[:_LONGEST_MESSAGE])}",
        ]
        name = f"survived-{os.getpid()}-{_MOST - self._left}"
        # There may be no memory for an inspection.
        self._write(name, lines)
        with suppress(Exception):
            cause = json.dumps(_oom_cause.of_exception(error))
            self._write(name, [*lines, f"cause {_escaped(cause)}"])

    def _write(self, name: str, lines: list[str]) -> None:
        path = self._inbox / name
        # The rename makes it whole.
        partial = path.with_suffix(".tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        file = os.open(partial, flags, 0o600)
        try:
            os.write(file, ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
        finally:
            os.close(file)
        partial.rename(path)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")

