"""Profiles functions and blocks of JAX programs: reads the memory before and after them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from .._compat.legacy_names import legacy_names
from .._frameworks.profiler import GlobalProfiler, SnapshotProfiler, name_of
from .._frameworks.results import InBytes
from .._frameworks.sizes import MB, resident_bytes
from ._device import NO_STATS, Counters, resolve, stats_of

__all__ = [
    "JAXMemoryProfiler",
    "MemorySnapshot",
    "ProfileResult",
    "clear_global_profiler",
    "clear_profiles",
    "get_global_profiler",
    "get_profile_summaries",
    "set_global_profiler",
]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class MemorySnapshot:
    """The memory of a device and of the process at one moment, in bytes.

    It is one reading of counters, and not a snapshot in the sense of PyTorch.
    """

    timestamp: float
    name: str
    device_memory_bytes: int
    cpu_memory_bytes: int
    device_id: int
    device_memory_reserved_bytes: int = 0
    memory_stats: dict[str, Any] = field(default_factory=dict)
    operation_name: str | None = None
    device_memory_available: bool = True
    device_memory_unavailable_reason: str | None = None

    @property
    def device_memory_mb(self) -> float:
        """The device memory in use, in megabytes."""
        return self.device_memory_bytes / MB

    @property
    def device_memory_reserved_mb(self) -> float:
        """The device memory that the allocator has reserved, in megabytes."""
        return self.device_memory_reserved_bytes / MB

    @property
    def cpu_memory_mb(self) -> float:
        """The resident size of the process in megabytes."""
        return self.cpu_memory_bytes / MB


@dataclass
class ProfileResult(InBytes):
    """The results of a profiler, with sizes of device memory in bytes."""

    start_time: float
    end_time: float
    peak_memory_bytes: int
    average_memory_bytes: int
    min_memory_bytes: int
    snapshots: list[MemorySnapshot] = field(default_factory=list)
    function_profiles: dict[str, dict[str, Any]] = field(default_factory=dict)
    device_memory_available: bool = False
    device_memory_unavailable_reason: str | None = None

    @property
    def min_memory_mb(self) -> float:
        """The lowest device memory in use of all snapshots, in megabytes."""
        return self.min_memory_bytes / MB

    @property
    def memory_growth_rate(self) -> float:
        """The mean growth of device memory from the first snapshot to the last, in megabytes per
        second."""
        return self._growth_rate([snapshot.device_memory_mb for snapshot in self.snapshots])

    def to_dict(self) -> dict[str, Any]:
        """The results as a dictionary, with all fields by name."""
        return asdict(self)


class JAXMemoryProfiler(SnapshotProfiler[MemorySnapshot]):
    """Takes a snapshot (:class:`MemorySnapshot`) before and after each measured function or block.

    JAX functions return before their result is computed. A measured function must therefore wait
    for its result with ``block_until_ready``.
    """

    def __init__(self, device_index: int | str = 0, *, device: Any = None) -> None:
        super().__init__("stormlog-jax-profiler")
        if device is None:
            self.device, self.device_id = resolve(device_index)
        else:
            self.device, self.device_id = device, int(device.id)

    def capture_snapshot(
        self, name: str = "snapshot", *, operation_name: str | None = None
    ) -> MemorySnapshot:
        """Read the counters now. The snapshot is also added to the results."""
        reason, stats = None, None
        try:
            stats = stats_of(self.device)
        except Exception as error:
            reason = str(error)
        counters = None if stats is None else Counters.of(stats)
        if counters is None:
            reason = reason or NO_STATS
        snapshot = MemorySnapshot(
            timestamp=time.time(),
            name=name,
            device_memory_bytes=counters.in_use if counters else 0,
            cpu_memory_bytes=resident_bytes() or 0,
            device_id=self.device_id,
            device_memory_reserved_bytes=counters.reserved if counters else 0,
            memory_stats=stats or {},
            operation_name=operation_name,
            device_memory_available=counters is not None,
            device_memory_unavailable_reason=reason,
        )
        self.snapshots.append(snapshot)
        return snapshot

    def _take(self, name: str, operation: str | None) -> MemorySnapshot:
        return self.capture_snapshot(name, operation_name=operation)

    def _count(
        self, name: str, seconds: float, before: MemorySnapshot, after: MemorySnapshot
    ) -> None:
        profile = self.function_profiles.setdefault(
            name,
            {
                "calls": 0,
                "total_duration": 0.0,
                "peak_memory_bytes": 0,
                "total_memory_delta": 0,
                "last_memory_delta": 0,
                "device_memory_available": True,
            },
        )
        change = after.device_memory_bytes - before.device_memory_bytes
        peak = max(before.device_memory_bytes, after.device_memory_bytes)
        profile["calls"] += 1
        profile["total_duration"] += seconds
        profile["peak_memory_bytes"] = max(profile["peak_memory_bytes"], peak)
        profile["total_memory_delta"] += change
        profile["last_memory_delta"] = change
        profile["device_memory_available"] &= after.device_memory_available

    def profile_function(self, func: F | None = None, *, name: str | None = None) -> Any:
        """The function with every call measured, or a decorator when ``func`` is None."""
        if func is None:
            return lambda function: self.profile_function(function, name=name)
        return self._decorated(func, name or name_of(func))

    @contextmanager
    def profile_context(self, name: str = "context") -> Iterator[MemorySnapshot]:
        """Measure the block of a ``with`` statement; yields the snapshot taken before it."""
        with self._measured(name, "before", "after") as before:
            yield before

    def get_results(self) -> ProfileResult:
        """The results so far."""
        now = time.time()
        known = [one for one in self.snapshots if one.device_memory_available]
        usage = [snapshot.device_memory_bytes for snapshot in known]
        unknown = [one for one in self.snapshots if not one.device_memory_available]
        reason = unknown[-1].device_memory_unavailable_reason if unknown else None
        return ProfileResult(
            start_time=self.snapshots[0].timestamp if self.snapshots else now,
            end_time=self.snapshots[-1].timestamp if self.snapshots else now,
            peak_memory_bytes=max(usage, default=0),
            average_memory_bytes=sum(usage) // len(usage) if usage else 0,
            min_memory_bytes=min(usage, default=0),
            snapshots=list(self.snapshots),
            function_profiles={name: dict(one) for name, one in self.function_profiles.items()},
            device_memory_available=bool(known),
            device_memory_unavailable_reason=None if known else reason,
        )


OF_PROCESS = GlobalProfiler(JAXMemoryProfiler)


def get_global_profiler() -> JAXMemoryProfiler:
    """The profiler of this process, created on first use."""
    return OF_PROCESS.get()


def set_global_profiler(profiler: JAXMemoryProfiler) -> None:
    """Make a profiler the profiler of this process."""
    OF_PROCESS.profiler = profiler


def clear_global_profiler() -> None:
    """Discard the profiler of this process and its results."""
    OF_PROCESS.profiler = None


def clear_profiles() -> None:
    """Discard the results of the profiler of this process."""
    OF_PROCESS.reset()


def get_profile_summaries(limit: int | None = None) -> list[dict[str, Any]]:
    """The measurements of each function or block, in the order in which their first calls ended.

    At most ``limit`` functions and blocks are returned.
    """
    profiler = OF_PROCESS.profiler
    profiles = {} if profiler is None else profiler.function_profiles
    rows = [{"name": name, **profile} for name, profile in profiles.items()]
    return rows if limit is None else rows[:limit]


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
