"""Records the host memory of this process: a profiler for functions and blocks, and a tracker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ._compat.legacy_names import legacy_names
from ._frameworks.sizes import read_process_sizes
from ._repeating import Repeating
from ._tracking import RecordedEvent, RecordedTracker, given_identity
from .errors import RecorderError

if TYPE_CHECKING:
    from .telemetry_sink import TelemetrySinkConfig

__all__ = [
    "CPUMemoryProfiler",
    "CPUMemorySnapshot",
    "CPUMemoryTracker",
    "CPUProfileResult",
    "TrackingEvent",
]


@dataclass
class TrackingEvent(RecordedEvent):
    """One event of a tracker."""

    backend: str = "cpu"


@dataclass
class CPUMemorySnapshot:
    """The resident size (``rss``) and virtual size (``vms``) of the process at one moment, in
    bytes."""

    timestamp: float
    rss: int
    vms: int
    cpu_percent: float

    def to_dict(self) -> dict[str, Any]:
        """The reading as a dictionary, with its fields by name."""
        return asdict(self)


@dataclass
class CPUProfileResult:
    """The host memory of the process before and after a function or block. ``peak_rss`` is the
    larger of the two resident sizes; higher values in between are not seen."""

    name: str
    duration: float
    snapshot_before: CPUMemorySnapshot
    snapshot_after: CPUMemorySnapshot
    peak_rss: int

    def memory_diff(self) -> int:
        """How many bytes the resident size has grown during the measurement; negative if it has
        shrunk."""
        return self.snapshot_after.rss - self.snapshot_before.rss

    def to_dict(self) -> dict[str, Any]:
        """The result as a dictionary, with all its fields by name."""
        return {
            "name": self.name,
            "duration": self.duration,
            "memory_diff": self.memory_diff(),
            "peak_rss": self.peak_rss,
            "before": self.snapshot_before.to_dict(),
            "after": self.snapshot_after.to_dict(),
        }


class CPUMemoryProfiler:
    """Measures functions and blocks by the resident size of the process before and after them."""

    def __init__(self) -> None:
        self.snapshots: list[CPUMemorySnapshot] = []
        self.results: list[CPUProfileResult] = []
        self._cpu_mark = (time.monotonic(), time.process_time())
        self._monitor = Repeating("stormlog-cpu-monitor")
        self._baseline = self._take_snapshot()

    def _take_snapshot(self) -> CPUMemorySnapshot:
        rss, vms = read_process_sizes()
        wall, cpu = time.monotonic(), time.process_time()
        wall_before, cpu_before = self._cpu_mark
        self._cpu_mark = (wall, cpu)
        elapsed = wall - wall_before
        percent = round((cpu - cpu_before) / elapsed * 100, 1) if elapsed > 0 else 0.0
        return CPUMemorySnapshot(time.time(), rss, vms, percent)

    def start_monitoring(self, interval: float = 0.1) -> None:
        """Read the memory of the process at an interval in seconds on a background thread."""
        self._monitor.start(self._keep_snapshot, interval)

    def _keep_snapshot(self) -> None:
        # If the memory cannot be read, for example because the program has too many open files, the
        # monitoring goes on.
        with suppress(RecorderError):
            self.snapshots.append(self._take_snapshot())

    def stop_monitoring(self) -> None:
        """End what ``start_monitoring`` started."""
        self._monitor.stop()

    def profile_function(
        self, func: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> CPUProfileResult:
        """Call a function and return the measurement; what the function returns is dropped."""
        before, start = self._take_snapshot(), time.time()
        func(*args, **kwargs)
        return self._keep(getattr(func, "__name__", repr(func)), before, start)

    def profile_context(self, name: str = "context") -> Any:
        """Measure a block: ``with profiler.profile_context("load"): ...``"""
        return _Measured(self, name)

    def _keep(self, name: str, before: CPUMemorySnapshot, start: float) -> CPUProfileResult:
        duration = time.time() - start
        after = self._take_snapshot()
        result = CPUProfileResult(name, duration, before, after, max(before.rss, after.rss))
        self.results.append(result)
        return result

    def clear_results(self) -> None:
        """Delete all results and readings; changes count from the memory use now."""
        self.snapshots.clear()
        self.results.clear()
        self._baseline = self._take_snapshot()

    def get_summary(self) -> dict[str, Any]:
        """The highest resident size that the monitoring has read, and its change, in bytes. The
        change counts from the creation of the profiler, or from ``clear_results``, to the last
        reading."""
        if self.snapshots:
            peak = max(snapshot.rss for snapshot in self.snapshots)
            change = self.snapshots[-1].rss - self._baseline.rss
        else:
            peak, change = self._baseline.rss, 0
        return {
            "mode": "cpu",
            "snapshots_collected": len(self.snapshots),
            "peak_memory_usage": peak,
            "memory_change_from_baseline": change,
            "baseline_rss": self._baseline.rss,
        }


class _Measured:
    """One measured block."""

    def __init__(self, profiler: CPUMemoryProfiler, name: str) -> None:
        self._profiler, self._name = profiler, name

    def __enter__(self) -> _Measured:
        self._before, self._start = self._profiler._take_snapshot(), time.time()
        return self

    def __exit__(self, *exception: object) -> None:
        self._profiler._keep(self._name, self._before, self._start)


class CPUMemoryTracker(RecordedTracker):
    """Tracks the resident size of this process. A thread that does not need the Python interpreter
    takes the samples."""

    session_source = "stormlog.cpu_profiler"
    _event_class = TrackingEvent

    def __init__(
        self,
        sampling_interval: float = 0.5,
        max_events: int = 10000,
        enable_alerts: bool = True,
        job_id: str | None = None,
        rank: int | None = None,
        local_rank: int | None = None,
        world_size: int | None = None,
        telemetry_sink_config: TelemetrySinkConfig | None = None,
        *,
        alert: str | None = None,
    ) -> None:
        self._set_up(
            sampling_interval=sampling_interval,
            max_events=max_events,
            enable_alerts=enable_alerts,
            identity=given_identity(job_id, rank, local_rank, world_size),
            telemetry_sink_config=telemetry_sink_config,
            alert=alert,
        )

    @property
    def stats(self) -> dict[str, Any]:
        """The numbers of samples, allocations and alerts of the session, and the times of its start
        and of the last sample."""
        return self._owner.core.tally()

    def get_statistics(self) -> dict[str, Any]:
        """All statistics of the session."""
        self._owner.report_notices()
        return self._owner.core.host_statistics()

    def get_memory_timeline(self, interval: float = 1.0) -> dict[str, list[Any]]:
        """Lists of times in epoch seconds and of the allocated and reserved bytes of the last event
        in each ``interval`` of seconds. The sizes are floats; intervals without events are left
        out."""
        timeline = super().get_memory_timeline(interval)
        return {name: [float(value) for value in values] for name, values in timeline.items()}

    def export_events_with_timestamp(self, directory: str, format: str) -> str:
        """Write the events in memory to a file named after the current time; return its path."""
        stamp = datetime.now().strftime("%Y%m%d_%H%M%S")
        filename = os.path.join(directory, f"cpu_tracker_{stamp}.{format}")
        self.export_events(filename, format=format)
        return filename


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
