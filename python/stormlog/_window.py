"""Waits while a tracker records for ``stormlog diagnose``: for a number of seconds, and until there
is a sample."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._tracking import RecordedTracker

# How long to wait for a first sample after the given seconds. A device that hangs may never give
# one.
_FIRST_LOOK_S = 10.0


def stay(tracker: RecordedTracker, seconds: float) -> None:
    """Wait for a number of seconds while the tracker records. If there is no sample yet, wait up to
    10 s longer, until the first one was taken or could not be taken."""
    time.sleep(seconds)
    deadline = time.monotonic() + _FIRST_LOOK_S
    while time.monotonic() < deadline:
        if tracker.get_events("sample") or tracker.get_events("collector_degraded"):
            return
        time.sleep(0.01)
