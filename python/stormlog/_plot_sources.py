"""Converts what callers pass to plot functions (profilers' results and snapshots, trackers, events,
sessions, paths) into data to draw.

A snapshot here is a profiler's reading of the memory at one moment, not PyTorch's record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from . import _core
from ._analysis_input import field_of, rows_of
from ._events import TelemetryEvents

_NANOSECONDS = 1_000_000_000


class Point(NamedTuple):
    """The memory in use at one moment, in bytes, as a profiler measured it."""

    time_ns: int
    allocated: int
    reserved: int
    operation: str


class Call(NamedTuple):
    """A call of a profiled function, with its memory in bytes."""

    name: str
    seconds: float
    allocated: int
    freed: int
    peak: int


def is_paths(source: Any) -> bool:
    """Whether the source is a path or several paths."""
    if isinstance(source, (str, PathLike)):
        return True
    return (
        isinstance(source, (list, tuple))
        and bool(source)
        and all(isinstance(entry, (str, PathLike)) for entry in source)
    )


def paths_of(source: Any) -> list[Path]:
    """The path or the paths, as a list."""
    return [Path(source)] if isinstance(source, (str, PathLike)) else [Path(p) for p in source]


def events_of(source: Any) -> _core.EventRows | None:
    """The events of a tracker, of a session, of several sessions, or of a list of events.

    ``None`` when the source is something else. An empty list, or a tracker without events, also
    gives ``None``.
    """
    if source is None or isinstance(source, (str, bytes, PathLike)):
        return None
    if isinstance(source, TelemetryEvents):
        return rows_of(source)
    if callable(getattr(source, "get_events", None)):
        return _rows(source.get_events())
    if hasattr(source, "summary") and hasattr(source, "events"):
        return rows_of(source.events)
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        return None
    entries = list(source)
    if entries and all(hasattr(entry, "summary") for entry in entries):
        return _rows([event for session in entries for event in session.events])
    return _rows(entries)


def _rows(events: Iterable[Any]) -> _core.EventRows | None:
    entries = list(events)
    if not entries:
        return None
    if all(_is_telemetry(entry) for entry in entries):
        return _core.rows_from_events(entries)
    if all(
        hasattr(entry, "memory_allocated") and hasattr(entry, "event_type") for entry in entries
    ):
        return _core.rows_from_events([_record_of_tracking(entry) for entry in entries])
    return None


def _is_telemetry(entry: Any) -> bool:
    return "timestamp_ns" in entry if isinstance(entry, Mapping) else hasattr(entry, "timestamp_ns")


def _record_of_tracking(event: Any) -> dict[str, Any]:
    """A tracker's event as a record. Counters that the event lacks stay unknown (None)."""
    host_memory = event.device_id < 0 or getattr(event, "backend", "") == "cpu"
    used = getattr(event, "device_used", None)
    return {
        "schema_version": 4,
        "session_id": getattr(event, "session_id", None) or "tracker",
        "timestamp_ns": int(event.timestamp * _NANOSECONDS),
        "event_type": event.event_type,
        "collector": f"stormlog.{getattr(event, 'backend', 'cuda')}_tracker",
        "sampling_interval_ms": 0,
        "pid": -1,
        "host": "",
        "job_id": getattr(event, "job_id", None),
        "rank": getattr(event, "rank", 0),
        "local_rank": getattr(event, "local_rank", 0),
        "world_size": getattr(event, "world_size", 1),
        "device_id": event.device_id,
        "allocator_allocated_bytes": event.memory_allocated,
        "allocator_reserved_bytes": event.memory_reserved,
        "allocator_active_bytes": getattr(event, "active_memory", None),
        "allocator_inactive_bytes": getattr(event, "inactive_memory", None),
        "allocator_change_bytes": event.memory_change,
        "device_used_bytes": event.memory_allocated if used is None and host_memory else used,
        "device_free_bytes": getattr(event, "device_free", None),
        "device_total_bytes": getattr(event, "device_total", None),
        "context": event.context,
        "metadata": event.metadata or {},
    }


def points_of(results: Iterable[Any], snapshots: Iterable[Any]) -> list[Point]:
    """One point for each snapshot, and one for each snapshot in a result: the memory before and the
    memory after the measured call. The points are in order of time."""
    points = [_point(snapshot, "") for snapshot in snapshots]
    for result in results:
        name = field_of(result, "function_name", "name") or ""
        for moment in ("before", "after"):
            snapshot = field_of(result, f"memory_{moment}", moment)
            if snapshot is not None and not isinstance(snapshot, (int, float)):
                points.append(_point(snapshot, f"{name} ({moment})"))
    return sorted(points, key=itemgetter(0))


def _point(snapshot: Any, operation: str) -> Point:
    try:
        # The attributes are read directly, without `field_of`, because this is faster and there may
        # be hundreds of thousands of snapshots.
        return Point(
            int(snapshot.timestamp * _NANOSECONDS),
            int(snapshot.allocated_memory),
            int(snapshot.reserved_memory),
            str(snapshot.operation or operation),
        )
    except (AttributeError, TypeError):
        return _point_of_other_names(snapshot, operation)


def _point_of_other_names(snapshot: Any, operation: str) -> Point:
    allocated = int(field_of(snapshot, "allocated_memory", "rss") or 0)
    reserved = field_of(snapshot, "reserved_memory")
    return Point(
        int(float(field_of(snapshot, "timestamp") or 0.0) * _NANOSECONDS),
        allocated,
        allocated if reserved is None else int(reserved),
        str(field_of(snapshot, "operation") or operation),
    )


def calls_of(results: Iterable[Any]) -> list[Call]:
    """One call for each result of a profiler."""
    calls = []
    for result in results:
        change = int(result_field(result, "memory_diff") or 0)
        allocated = result_field(result, "memory_allocated")
        freed = result_field(result, "memory_freed")
        calls.append(
            Call(
                str(result_field(result, "function_name", "name") or "unknown"),
                float(result_field(result, "execution_time", "duration") or 0.0),
                max(change, 0) if allocated is None else int(allocated),
                max(-change, 0) if freed is None else int(freed),
                int(result_field(result, "peak_memory_usage", "peak_rss") or 0),
            )
        )
    return calls


def result_field(result: Any, *names: str) -> Any:
    """The value of the first of these names that a result has. Profilers define some of the values
    as methods."""
    value = field_of(result, *names)
    return value() if callable(value) else value
