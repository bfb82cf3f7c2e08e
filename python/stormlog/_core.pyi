"""The Rust core. The modules of this package are its public face; call those."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias, final

from .derived_fields import DerivedFields, SessionDerivedFields
from .telemetry import TelemetryEventV3

__all__ = [
    "ALERT_EVENT_TYPES",
    "COLLECTOR_DEGRADED_STATUSES",
    "COLLECTOR_TRANSITION_TYPES",
    "EventRows",
    "PhaseReplay",
    "VERSION",
    "alert_category",
    "attribute_collectives",
    "attribute_phase",
    "check_collective_fields",
    "check_collective_limits",
    "collective_fields_in_order",
    "collective_preset",
    "compare_ranks",
    "distinct",
    "error_stem",
    "event_backend",
    "event_fields",
    "event_from_record",
    "event_severity",
    "fingerprint_id",
    "gap_findings",
    "is_alert_event",
    "is_collector_degradation_event",
    "is_oom_event",
    "issue_kind",
    "issue_state",
    "load_events",
    "load_sessions",
    "main",
    "manifest_path",
    "merge_phases",
    "new_session_id",
    "normalize_dimensions",
    "normalize_session_status",
    "normalize_text",
    "optimization_score",
    "phase_boundary",
    "phase_label",
    "profile_insights",
    "profile_patterns",
    "profile_summary",
    "project",
    "read_manifest",
    "resolve_identity",
    "rows_from_events",
    "rows_from_records",
    "segment_paths",
    "session_fields",
    "session_from_mapping",
    "session_integer",
    "session_order",
    "session_span",
    "stable_legacy_session_id",
    "timeline_markers",
    "validate_record",
]

VERSION: Final[str]
ALERT_EVENT_TYPES: Final[Sequence[str]]
COLLECTOR_TRANSITION_TYPES: Final[Sequence[str]]
COLLECTOR_DEGRADED_STATUSES: Final[Sequence[str]]

# Records

def validate_record(record: Mapping[str, Any]) -> None:
    """Raises unless the record holds the rules of its version."""

def event_from_record(
    record: Mapping[str, Any],
    permissive_legacy: bool,
    default_collector: str,
    default_sampling_interval_ms: int,
    default_session_id: str | None,
) -> TelemetryEventV3:
    """The event that a record of any version stands for."""

def resolve_identity(
    job_id: object,
    rank: object,
    local_rank: object,
    world_size: object,
    metadata: Mapping[str, Any] | None,
    env: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Job id, rank, local rank and world size from what is given, metadata and environment."""

# Sessions

def new_session_id() -> str:
    """A fresh random session id."""

def stable_legacy_session_id(parts: Sequence[object]) -> str:
    """The id that the same parts always give; parts that are None are left out."""

def normalize_session_status(status: object) -> str:
    """The status in the spelling of files."""

def session_integer(value: object, field: str) -> int:
    """The integer of a summary's field."""

def session_from_mapping(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the summary that a mapping holds."""

def session_span(
    events: Sequence[tuple[object, object]], fallback_status: object
) -> tuple[int, int, int | None, str] | None:
    """Of (time, type) pairs: place and time of the earliest, the end and the status."""

def session_order(summaries: Sequence[object]) -> list[int]:
    """The places of the summaries, the one most likely meant first."""

# Projection

def project(record: Mapping[str, Any], observed_timestamp_ns: int | None) -> dict[str, Any]:
    """The fields of the projection of a record."""

def distinct(mappings: Sequence[Mapping[str, Any]]) -> list[int]:
    """The places of the mappings that are unlike all before them."""

# Classification and derived fields

def is_alert_event(event_type: object, metadata: Mapping[str, Any]) -> bool:
    """Whether an event is an alert."""

def event_severity(event_type: object, metadata: Mapping[str, Any]) -> str:
    """How bad an event is."""

def is_oom_event(event_type: object, metadata: Mapping[str, Any]) -> bool:
    """Whether an event is an out-of-memory error."""

def is_collector_degradation_event(event_type: object, metadata: Mapping[str, Any]) -> bool:
    """Whether an event was recorded by a collector in trouble."""

def event_backend(metadata: Mapping[str, Any]) -> str:
    """The backend that an event's metadata names."""

def event_fields(
    allocated: object, reserved: object, total: object, collector: object
) -> DerivedFields:
    """The numbers that follow from an event's counters."""

def session_fields(
    events: Sequence[tuple[object, object, object, object]], last_type: object
) -> SessionDerivedFields:
    """The numbers that follow from all events of a session."""

# Fingerprints

def issue_kind(kind: object) -> str:
    """The kind of an issue, checked."""

def issue_state(state: object) -> str:
    """The state of an issue in the spelling of files."""

def fingerprint_id(kind: str, dimensions: Mapping[str, Any], schema_version: int) -> str:
    """The id of a fingerprint over normalized dimensions."""

def normalize_dimensions(dimensions: Mapping[str, Any]) -> dict[str, Any]:
    """Dimensions without what changes from run to run."""

def normalize_text(value: object) -> str | None:
    """A label without what changes from run to run; nothing when the value says nothing."""

def alert_category(context: object) -> str:
    """The category of an alert by its text."""

def error_stem(error: object) -> str:
    """The part of an error's text that names it."""

# Loading

_Path: TypeAlias = str | PathLike[str]

# File, line, first and last byte, reason, field.
_Damage: TypeAlias = tuple[Path, int | None, tuple[int, int] | None, str, str | None]

@final
class EventRows:
    """Events in columns."""

    def __len__(self) -> int: ...
    def event(self, place: int) -> TelemetryEventV3:
        """The event at a place, a new object each time."""

    def fields(self, place: int) -> dict[str, Any]:
        """The fields of the event at a place, by name."""

    def __arrow_c_schema__(self) -> Any:
        """The columns of the Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: Any | None = None) -> Any:
        """The events as an Arrow stream."""

def rows_from_records(records: Sequence[Mapping[str, Any]]) -> EventRows:
    """Columns of records that hold the rules."""

def load_sessions(
    path: _Path,
    permissive_legacy: bool,
    events_key: str | None,
    skip_damaged: bool,
) -> tuple[list[tuple[dict[str, Any], EventRows, list[str], list[_Damage]]], list[_Damage]]:
    """Every session of an artifact (summary, events, sources, damage), and all damage."""

def load_events(
    path: _Path,
    permissive_legacy: bool,
    events_key: str | None,
    session_id: str | None,
    skip_damaged: bool,
) -> tuple[EventRows, list[_Damage]]:
    """The events of one session of an artifact: the named one, or the default."""

def read_manifest(path: _Path) -> dict[str, Any] | None:
    """What a sink's manifest says, or nothing when there is none to read."""

def manifest_path(path: _Path) -> Path | None:
    """Where the manifest of a sink is, for any path into the sink."""

def segment_paths(path: _Path) -> list[Path]:
    """The segment files of a sink, for any path into it."""

# The program

def main(dialect: str, arguments: Sequence[str]) -> int:
    """Runs a command of the program and gives its exit code."""

# Analyses

_ProfiledCall: TypeAlias = tuple[str, float, float, float, int, int, int, int, int, int]

def rows_from_events(events: list[Any]) -> EventRows:
    """Columns of event objects or mappings, without asking whether they hold the rules."""

@final
class PhaseReplay:
    """The phases of some events."""

    @staticmethod
    def of_events(events: EventRows | list[Any]) -> PhaseReplay:
        """Replays the phases of columns, event objects or mappings."""

    @staticmethod
    def of_spans(groups: list[tuple[tuple[str, int], list[Any]]]) -> PhaseReplay:
        """Spans by session and rank, replayed elsewhere."""

    def spans(self, session_id: object, rank: object) -> list[tuple[Any, ...]]:
        """The spans of a session, of one rank or of all."""

    def active(self, timestamp_ns: int, session_id: object, rank: object) -> list[tuple[Any, ...]]:
        """The spans that hold a moment."""

    def resolve(
        self,
        timestamp_ns: int,
        session_id: object,
        rank: object,
        origin_thread_id: object,
        origin_phase_scope_id: object,
    ) -> dict[str, Any] | None:
        """The phase of a moment."""

    def resolve_event(self, event: object) -> dict[str, Any] | None:
        """The phase in which an event happened."""

def phase_boundary(event: object) -> dict[str, Any] | None:
    """The boundary that an event is, without its attributes."""

def attribute_phase(
    spans: list[Any], origin_thread_id: object, origin_phase_scope_id: object
) -> dict[str, Any] | None:
    """The phase of a moment that the given spans hold."""

def merge_phases(first: object, second: object) -> dict[str, Any]:
    """One attribution for two."""

def phase_label(attribution: object) -> str | None:
    """An attribution as one line for people."""

def timeline_markers(
    events: EventRows | list[Any], include_phases: bool
) -> list[tuple[dict[str, Any], int | None]]:
    """The markers of events, each with the place of its event when it has one."""

def gap_findings(
    rows: EventRows, thresholds: list[float], format_memory: object
) -> list[tuple[str, str, float, dict[str, Any], str, int, int]]:
    """The gap findings of events."""

def compare_ranks(
    rows: EventRows, resolver: object, with_points: bool
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Ranks side by side: the merge, the first cause and all notes."""

def attribute_collectives(
    rows: EventRows, limits: list[float], resolver: object
) -> list[dict[str, Any]]:
    """Gaps put down to collectives."""

def collective_preset(name: str) -> tuple[str, list[float]]:
    """The name and the limits of a preset."""

def collective_fields_in_order() -> list[str]:
    """The names of the limits."""

def check_collective_fields(fields: list[str]) -> None:
    """Raises for names that are no limits."""

def check_collective_limits(limits: list[float]) -> None:
    """Raises for limits that cannot be ones."""

def profile_patterns(calls: list[_ProfiledCall], thresholds: list[float]) -> list[dict[str, Any]]:
    """The patterns of profiled calls."""

def profile_insights(calls: list[_ProfiledCall], thresholds: list[float]) -> list[dict[str, Any]]:
    """The insights of profiled calls."""

def profile_summary(calls: list[_ProfiledCall]) -> dict[str, Any]:
    """The summary of a report on profiled calls."""

def optimization_score(severities: list[str], impacts: list[str]) -> dict[str, Any]:
    """The score for severities of patterns and impacts of insights."""
