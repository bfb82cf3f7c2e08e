"""Marks (here called markers) for timelines: events as moments, and phases as time spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from . import _core
from ._analysis_input import metadata_of, rows_or_objects
from ._compat.legacy_names import legacy_names

if TYPE_CHECKING:
    from .telemetry import LoadedTelemetrySession

__all__ = [
    "MARKER_KIND_ALERT",
    "MARKER_KIND_COLLECTOR",
    "MARKER_KIND_LIFECYCLE",
    "MARKER_KIND_OOM",
    "MARKER_KIND_PHASE",
    "MARKER_SEVERITY_CRITICAL",
    "MARKER_SEVERITY_INFO",
    "MARKER_SEVERITY_WARNING",
    "MARKER_SOURCE_PHASE_REPLAY",
    "MARKER_SOURCE_TELEMETRY_EVENT",
    "TimelineMarker",
    "derive_session_timeline_markers",
    "derive_timeline_markers",
    "timeline_marker_to_dict",
]

MARKER_KIND_ALERT = "alert"
MARKER_KIND_COLLECTOR = "collector"
MARKER_KIND_LIFECYCLE = "lifecycle"
MARKER_KIND_OOM = "oom"
MARKER_KIND_PHASE = "phase"
MARKER_SEVERITY_CRITICAL = "critical"
MARKER_SEVERITY_INFO = "info"
MARKER_SEVERITY_WARNING = "warning"
MARKER_SOURCE_PHASE_REPLAY = "phase_replay"
MARKER_SOURCE_TELEMETRY_EVENT = "telemetry_event"


@dataclass(frozen=True)
class TimelineMarker:
    """A labelled moment (``end_ns`` is ``None``) or time span in a timeline."""

    session_id: str
    start_ns: int
    end_ns: int | None
    kind: str
    source: str
    severity: str
    label: str
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    event_type: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def is_interval(self) -> bool:
        """Whether the marker is a time span and not a moment."""
        return self.end_ns is not None and self.end_ns > self.start_ns


def derive_timeline_markers(
    events: Sequence[Any], *, include_phase_markers: bool = True
) -> list[TimelineMarker]:
    """The markers of events in order of time. Events are given as objects or mappings."""
    given = rows_or_objects(events)
    objects: Any = given if isinstance(given, list) else events
    markers = []
    for fields, place in _core.timeline_markers(given, include_phase_markers):
        if place is not None:
            fields["metadata"] = metadata_of(objects[place])
        markers.append(TimelineMarker(**fields))
    return markers


def derive_session_timeline_markers(
    session: LoadedTelemetrySession, *, include_phase_markers: bool = True
) -> list[TimelineMarker]:
    """The markers of a loaded session."""
    return derive_timeline_markers(session.events, include_phase_markers=include_phase_markers)


def timeline_marker_to_dict(marker: TimelineMarker) -> dict[str, Any]:
    """The marker as plain data."""
    return asdict(marker)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
