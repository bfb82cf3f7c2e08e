"""The window of a diagnosis: so many seconds, and one look at the memory at least."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._tracking import RecordedTracker

# A short window waits so long for its first look; a device that hangs may never give one.
_FIRST_LOOK_S = 10.0


def stay(tracker: RecordedTracker, seconds: float) -> None:
    """Let a tracker record for so many seconds, and until it has looked once or could not."""
    time.sleep(seconds)
    deadline = time.monotonic() + _FIRST_LOOK_S
    while time.monotonic() < deadline:
        if tracker.get_events("sample") or tracker.get_events("collector_degraded"):
            return
        time.sleep(0.01)
