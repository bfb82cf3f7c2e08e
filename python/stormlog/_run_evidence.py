"""Opens evidence windows on the devices that ``stormlog run`` records."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import _core
from ._evidence import Windows, budget, requests
from ._torch import loaded_torch

EVENT_TYPE = "memory_evidence"
# For tests: this variable sets the seconds between searches that open windows even if memory does
# not grow. The limit below is how many seconds of each minute the windows may then take.
FORCED_EVERY = "STORMLOG_EVIDENCE_EVERY"
_FORCED_LIMIT_S = 30.0


def of_tracker(index: int, tracker: Any, shared: budget.Budget) -> DeviceEvidence | None:
    """The evidence windows of a device that a tracker records. None when PyTorch lacks the
    functions for them, or the recorder has no step hook. The device's ledger uses the same
    budget."""
    core: _core.Recorder = tracker._owner.core
    torch: Any = loaded_torch()
    needed = ("_cuda_memorySnapshot", "_cuda_memoryStats", "_cuda_isHistoryEnabled")
    hook = core.step_hook
    if hook is None or not all(hasattr(getattr(torch, "_C", None), name) for name in needed):
        return None
    return DeviceEvidence(torch, index, core, hook, shared)


class DeviceEvidence:
    """The evidence windows of one device, and the requests for them (``stormlog evidence``)."""

    def __init__(
        self,
        torch: Any,
        index: int,
        core: _core.Recorder,
        hook: _core.StepHook,
        shared: budget.Budget,
    ) -> None:
        self._core, self._hook = core, hook
        self._request: str | None = None
        self._windows = Windows(torch, index, hook, self._record, shared)
        self._windows.search.listener = self._answer
        self._every_s = _forced_every_s()
        self._next_forced = 0.0
        if self._every_s is not None:
            budget.LIMIT_S = _FORCED_LIMIT_S

    def look(self) -> None:
        """Open windows when the memory of a program without steps grows, or when a request for
        windows has arrived. Called about once a second on a thread of the recorder. An error here
        does not stop that thread."""
        with suppress(Exception):
            self._look()

    def _look(self) -> None:
        search = self._windows.search
        rate = self._hook.take_rise()
        if rate is not None and search.may_begin():
            search.by_time(rate)
        self._force()
        directory = self._directory()
        request = None if directory is None else requests.take(directory)
        if request is None or directory is None:
            return
        self._request = request
        self._search(directory, request)

    def _force(self) -> None:
        """Open windows at the interval that a test has set."""
        now = time.monotonic()
        if self._every_s is not None and now >= self._next_forced:
            self._next_forced = now + self._every_s
            self._open()

    def _open(self) -> None:
        if self._hook.steps > 0:
            self._windows.request()
        elif not self._windows.search.is_busy:
            self._windows.search.by_time(0.0, "request")

    def _search(self, directory: Path, request: str) -> None:
        if self._hook.watcher_error is not None:
            reason = f"windows failed before: {self._hook.watcher_error}"
            requests.answer(directory, request, {"state": "ended", "reason": reason})
        else:
            self._open()

    def _directory(self) -> Path | None:
        status = self._core.sink_status()
        return None if status is None else status[0]

    def _record(self, state: dict[str, Any]) -> None:
        count = len(state["windows"])
        context = f"Evidence of {count} window{'' if count == 1 else 's'} ({state['state']})"
        self._core.record(EVENT_TYPE, 0, context, {"evidence": state})

    def _answer(self, state: dict[str, Any]) -> None:
        directory = self._directory()
        if self._request is not None and directory is not None:
            with suppress(OSError):
                requests.answer(directory, self._request, state)


def _forced_every_s() -> float | None:
    with suppress(KeyError, ValueError):
        every_s = float(os.environ[FORCED_EVERY])
        return every_s if every_s > 0 else None
    return None
