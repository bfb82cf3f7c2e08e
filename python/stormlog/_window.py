"""The recording of a diagnosis: a number of seconds, and at least one sample."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._tracking import RecordedTracker

# How long a short window waits for its first sample; a device that hangs may never give one.
_FIRST_LOOK_S = 10.0


def stay(tracker: RecordedTracker, seconds: float) -> None:
    """Record for a number of seconds, and until the first sample was taken or failed."""
    time.sleep(seconds)
    deadline = time.monotonic() + _FIRST_LOOK_S
    while time.monotonic() < deadline:
        if tracker.get_events("sample") or tracker.get_events("collector_degraded"):
            return
        time.sleep(0.01)
