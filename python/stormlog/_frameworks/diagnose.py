"""Diagnoses this process with its framework's own counters: records for a while, writes a bundle.

``stormlog.diagnose``, which diagnoses programs that use PyTorch, uses this module too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import _core
from .._temporary import temporary_folder
from .._tracking import RecordedTracker
from ..session import session_summary_to_dict
from ..telemetry_sink import TelemetrySinkConfig

HIGH_UTILIZATION_RATIO = 0.85
MANIFEST_VERSION = 2
# How long to wait for a first sample after the given seconds. A device that hangs may never give
# one.
_FIRST_LOOK_S = 10.0

# Makes a tracker from the sampling interval in seconds and the configuration of its sink.
MakeTracker = Callable[[float, TelemetrySinkConfig | None], RecordedTracker]


def making(tracker: Callable[..., RecordedTracker], **device: Any) -> MakeTracker:
    """A function that makes trackers of the class ``tracker`` for the given device. The trackers
    write no log messages, because the bundle contains everything."""

    def make(interval: float, sink: TelemetrySinkConfig | None) -> RecordedTracker:
        return tracker(
            **device,
            sampling_interval=interval,
            enable_logging=False,
            telemetry_sink_config=sink,
        )

    return make


def timeline(
    make: MakeTracker,
    seconds: float,
    interval: float,
    read: Callable[[RecordedTracker], dict[str, list[float]]] | None = None,
) -> dict[str, list[float]]:
    """Record for a number of seconds. Returns the times (in seconds since 1970), the allocated
    bytes and the reserved bytes as lists, which ``read`` takes from the tracker; by default they
    have an entry for each sample. With 0 seconds the lists are empty."""
    if seconds <= 0:
        return {"timestamps": [], "allocated": [], "reserved": []}
    tracker = make(interval, None)
    tracker.start_tracking()
    try:
        _stay(tracker, seconds)
    finally:
        tracker.stop_tracking()
    return (read or _samples)(tracker)


def _samples(tracker: RecordedTracker) -> dict[str, list[float]]:
    samples = tracker.get_events("sample")
    return {
        "timestamps": [event.timestamp for event in samples],
        "allocated": [float(event.memory_allocated) for event in samples],
        "reserved": [float(event.memory_reserved) for event in samples],
    }


def _stay(tracker: RecordedTracker, seconds: float) -> None:
    """Wait for a number of seconds while the tracker records. If there is no sample yet, wait up to
    10 s longer, until the first one was taken or could not be taken."""
    time.sleep(seconds)
    deadline = time.monotonic() + _FIRST_LOOK_S
    while time.monotonic() < deadline:
        if tracker.get_events("sample") or tracker.get_events("collector_degraded"):
            return
        time.sleep(0.01)


def summary(
    framework: str, make: MakeTracker, environment: dict[str, Any], **options: Any
) -> tuple[dict[str, Any], bool]:
    """The current state of memory (unknown values are ``None``), and whether there is a memory
    risk. ``options`` are further arguments of ``diagnose``."""
    with temporary_folder() as folder:
        output = str(folder / "now")
        _, _, found, is_risk = diagnose(framework, make, environment, output, 0, 0.1, "", **options)
    return found, is_risk


def diagnose(
    framework: str,
    make: MakeTracker,
    environment: dict[str, Any],
    output: str | None,
    duration: float,
    interval: float,
    command_line: str,
    *,
    device: int | None = None,
    count_ooms: Callable[[], int] = lambda: 0,
    capture: Callable[[Path], list[str]] | None = None,
) -> tuple[Path, int, dict[str, Any], bool]:
    """Record for ``duration`` seconds and write a bundle. Returns its directory, the exit code, the
    summary, and whether there is a memory risk. At the end of the recording ``capture`` is called
    with the directory; the bundle's manifest lists the files whose names ``capture`` returns."""
    bundle = _core.DiagnoseBundle(
        output, command_line, environment, framework, native_history=capture is not None
    )
    cut_short = None
    try:
        tracker = make(interval, TelemetrySinkConfig(root_dir=bundle.telemetry))
        try:
            tracker.start_tracking()
            session = tracker.get_session_summary()
            if session is not None:
                bundle.session_has_begun(session_summary_to_dict(session))
            _stay(tracker, duration)
            if capture is not None:
                bundle.adopt(capture(bundle.directory))
        finally:
            tracker.stop_tracking()
    except KeyboardInterrupt:
        cut_short = "ended by KeyboardInterrupt"
        raise
    except Exception as error:
        cut_short = str(error)
        raise
    finally:
        result = bundle.finish(device, count_ooms(), duration > 0, cut_short)
    return result
