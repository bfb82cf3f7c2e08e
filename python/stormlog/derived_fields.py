"""Values computed from the counters of events, such as the utilization of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from . import _core
from ._compat.legacy_names import legacy_names

__all__ = [
    "DerivedFields",
    "SessionDerivedFields",
    "compute_event_fields",
    "compute_session_fields",
    "enrich_event",
]


class DerivedFields(TypedDict, total=False):
    """Values computed from one event. A ratio is ``None`` when it cannot be computed, because a
    counter is unknown or zero. ``is_degraded_collector`` says that the name of the event's
    collector is that of a collector that does not measure all counters."""

    allocator_gap_bytes: int
    utilization_ratio: float | None
    fragmentation_ratio: float | None
    is_degraded_collector: bool


class SessionDerivedFields(TypedDict, total=False):
    """Values computed from all events of a session. ``is_session_interrupted`` says that the last
    event is not a stop event."""

    peak_utilization_ratio: float | None
    avg_fragmentation_ratio: float | None
    is_session_interrupted: bool


def compute_event_fields(event: Any) -> DerivedFields:
    """Compute the derived values of one event, given as a mapping or as an object."""
    return _core.event_fields(*_counters(event))


def compute_session_fields(events: Sequence[Any]) -> SessionDerivedFields:
    """Compute the derived values of a session from its events, which must be in order of time."""
    counters = [_counters(event) for event in events]
    last_type = _get(events[-1], "event_type") if counters else None
    return _core.session_fields(counters, last_type)


def enrich_event(event: Any) -> dict[str, Any]:
    """The event as a record (a dictionary), with its derived values under the key ``derived``."""
    record = dict(event) if isinstance(event, Mapping) else dict(vars(event))
    record["derived"] = compute_event_fields(event)
    return record


def _counters(event: Any) -> tuple[Any, Any, Any, Any]:
    return (
        _get(event, "allocator_allocated_bytes"),
        _get(event, "allocator_reserved_bytes"),
        _get(event, "device_total_bytes"),
        _get(event, "collector"),
    )


def _get(event: Any, key: str) -> Any:
    return event.get(key) if isinstance(event, Mapping) else getattr(event, key, None)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
