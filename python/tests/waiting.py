"""Waiting for what a test expects: as long as a slow machine needs, no longer than it takes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

# Nothing in the tests takes a tenth of this time; what has not happened by then will not happen.
PATIENCE_S = 90.0


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def recorded_since(folder: Path, start_ns: int = 0) -> int:
    """How many events after a time are on the disk below a folder."""
    count = 0
    segments = [*folder.rglob("segment-*.jsonl"), *folder.rglob("segment-*.ndjson")]
    for segment in segments:
        # The last line may be half written.
        for line in segment.read_text().split("\n")[:-1]:
            count += json.loads(line)["timestamp_ns"] > start_ns
    return count


def wait_for_events(folder: Path | str, count: int) -> None:
    """Wait until a number of events that happen from now on are on disk."""
    start_ns = time.time_ns()
    wait_until(lambda: recorded_since(Path(folder), start_ns) >= count)


# For the programs that tests start: the name `wait_for_events`.
FOR_PROGRAMS = f"""
import sys as _sys
_sys.path.append({str(Path(__file__).parent)!r})
from waiting import wait_for_events
_sys.path.pop()
"""
