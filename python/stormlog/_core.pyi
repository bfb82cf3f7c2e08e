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
    "Drawing",
    "EventRows",
    "VERSION",
    "alert_category",
    "distinct",
    "error_stem",
    "event_backend",
    "event_fields",
    "event_from_record",
    "event_severity",
    "fingerprint_id",
    "is_alert_event",
    "is_collector_degradation_event",
    "is_oom_event",
    "issue_kind",
    "issue_state",
    "load_events",
    "load_sessions",
    "main",
    "manifest_path",
    "new_session_id",
    "normalize_dimensions",
    "normalize_session_status",
    "normalize_text",
    "project",
    "read_manifest",
    "resolve_identity",
    "rows_from_records",
    "segment_paths",
    "session_fields",
    "session_from_mapping",
    "session_integer",
    "session_order",
    "session_span",
    "stable_legacy_session_id",
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
class Drawing:
    """Something to draw, in any size and format."""

    @staticmethod
    def of_rows(rows: EventRows, kind: str, title: str | None) -> Drawing: ...
    @staticmethod
    def of_ranks(rows: EventRows) -> Drawing: ...
    @staticmethod
    def of_paths(
        paths: Sequence[PathLike[str]], session_id: str | None, kind: str, title: str | None
    ) -> Drawing: ...
    @staticmethod
    def of_points(points: Sequence[tuple[int, int, int, str]], title: str) -> Drawing: ...
    @staticmethod
    def of_functions(
        calls: Sequence[tuple[str, float, int, int, int]], what: str
    ) -> Drawing: ...
    @staticmethod
    def of_profile(
        points: Sequence[tuple[int, int, int, str]],
        calls: Sequence[tuple[str, float, int, int, int]],
    ) -> Drawing: ...
    @property
    def title(self) -> str: ...
    def svg(self, width: int, height: int | None, dark: bool) -> str: ...
    def png(self, width: int, height: int | None, dark: bool, scale: float) -> bytes: ...
    def html(self, dark: bool) -> str: ...

@final
class EventRows:
    """Events in columns."""

    def __len__(self) -> int: ...
    def has_samples(self) -> bool: ...
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
