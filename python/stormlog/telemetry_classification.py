"""What an event is about: an alert, an out-of-memory error, trouble of its collector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from . import _core
from ._compat.legacy_names import legacy_names

__all__ = [
    "ALERT_EVENT_TYPES",
    "COLLECTOR_DEGRADED_STATUSES",
    "COLLECTOR_TRANSITION_TYPES",
    "TelemetryClassifiable",
    "event_backend",
    "event_severity",
    "is_alert_event",
    "is_collector_degradation_event",
    "is_oom_event",
]

ALERT_EVENT_TYPES = frozenset(_core.ALERT_EVENT_TYPES)
COLLECTOR_TRANSITION_TYPES = frozenset(_core.COLLECTOR_TRANSITION_TYPES)
COLLECTOR_DEGRADED_STATUSES = frozenset(_core.COLLECTOR_DEGRADED_STATUSES)


class TelemetryClassifiable(Protocol):
    """Anything with a type and metadata."""

    @property
    def event_type(self) -> str: ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...


def is_alert_event(event: TelemetryClassifiable) -> bool:
    """Whether the event is an alert, by its type or its metadata's severity."""
    return _core.is_alert_event(event.event_type, event.metadata)


def event_severity(event: TelemetryClassifiable) -> str:
    """How bad the event is: as its metadata says, else by its type."""
    return _core.event_severity(event.event_type, event.metadata)


def is_oom_event(event: TelemetryClassifiable) -> bool:
    """Whether the event is an out-of-memory error."""
    return _core.is_oom_event(event.event_type, event.metadata)


def is_collector_degradation_event(event: TelemetryClassifiable) -> bool:
    """Whether the event was recorded by a collector in trouble."""
    return _core.is_collector_degradation_event(event.event_type, event.metadata)


def event_backend(event: TelemetryClassifiable) -> str:
    """The backend that the event speaks of, or ``unknown``."""
    return _core.event_backend(event.metadata)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
