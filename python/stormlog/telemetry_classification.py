"""Classifies events: alerts, out-of-memory errors, degraded collectors."""

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
    """Any object with a type and metadata."""

    @property
    def event_type(self) -> str: ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...


def is_alert_event(event: TelemetryClassifiable) -> bool:
    """Whether the event is an alert, by its type or the severity in its metadata."""
    return _core.is_alert_event(event.event_type, event.metadata)


def event_severity(event: TelemetryClassifiable) -> str:
    """The severity of the event, from its metadata or otherwise from its type."""
    return _core.event_severity(event.event_type, event.metadata)


def is_oom_event(event: TelemetryClassifiable) -> bool:
    """Whether the event is an out-of-memory error."""
    return _core.is_oom_event(event.event_type, event.metadata)


def is_collector_degradation_event(event: TelemetryClassifiable) -> bool:
    """Whether the event reports that a collector degraded, or was recorded by a degraded
    collector."""
    return _core.is_collector_degradation_event(event.event_type, event.metadata)


def event_backend(event: TelemetryClassifiable) -> str:
    """The backend (such as ``cuda``) in the event's metadata, or ``unknown``."""
    return _core.event_backend(event.metadata)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
