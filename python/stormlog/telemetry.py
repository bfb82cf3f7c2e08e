"""Telemetry events: their schema, conversion of records, and loading of artifacts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableSequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import _core
from ._compat.legacy_names import legacy_names
from ._events import TelemetryEvents
from .damage import Damage, damage_of_fields, warn_of_damage
from .errors import InvalidValueError
from .session import SessionSummary
from .telemetry_model import (
    ProjectedTelemetryRecord,
    project_telemetry_mapping,
    unique_projected_correlations,
    unique_projected_resources,
)

__all__ = [
    "SCHEMA_VERSION_LATEST",
    "SCHEMA_VERSION_V2",
    "SCHEMA_VERSION_V3",
    "SCHEMA_VERSION_V4",
    "LoadedTelemetrySession",
    "ProjectedTelemetryRecord",
    "TelemetryEvent",
    "TelemetryEventV2",
    "TelemetryEventV3",
    "TelemetryEventV4",
    "TelemetryEvents",
    "load_telemetry_events",
    "load_telemetry_sessions",
    "project_telemetry_event",
    "project_telemetry_events",
    "resolve_distributed_identity",
    "telemetry_event_from_record",
    "telemetry_event_to_dict",
    "validate_telemetry_record",
]

SCHEMA_VERSION_V2 = 2
SCHEMA_VERSION_V3 = 3
SCHEMA_VERSION_V4 = 4
SCHEMA_VERSION_LATEST = SCHEMA_VERSION_V3

UNKNOWN_PID = -1
UNKNOWN_HOST = "unknown"


@dataclass
class TelemetryEventV2:
    """An event of schema version 2, in which events have no session id."""

    schema_version: Literal[2]
    timestamp_ns: int
    event_type: str
    collector: str
    sampling_interval_ms: int
    pid: int
    host: str
    device_id: int
    allocator_allocated_bytes: int
    allocator_reserved_bytes: int
    allocator_active_bytes: int | None
    allocator_inactive_bytes: int | None
    allocator_change_bytes: int
    device_used_bytes: int
    device_free_bytes: int | None
    device_total_bytes: int | None
    context: str | None
    job_id: str | None = None
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validate_telemetry_record({**self.__dict__, "metadata": dict(self.metadata)})


@dataclass
class _SessionEvent:
    """The fields of an event of schema version 3 or 4."""

    schema_version: int
    session_id: str
    timestamp_ns: int
    event_type: str
    collector: str
    sampling_interval_ms: int
    pid: int
    host: str
    device_id: int
    allocator_allocated_bytes: int | None
    allocator_reserved_bytes: int | None
    allocator_active_bytes: int | None
    allocator_inactive_bytes: int | None
    allocator_change_bytes: int | None
    device_used_bytes: int | None
    device_free_bytes: int | None
    device_total_bytes: int | None
    context: str | None
    job_id: str | None = None
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validate_telemetry_record({**self.__dict__, "metadata": dict(self.metadata)})


@dataclass
class TelemetryEventV3(_SessionEvent):
    """An event of schema version 3: a sample or another event of a session, with the memory
    counters at its time. ``None`` is unknown."""

    schema_version: Literal[3]
    allocator_allocated_bytes: int
    allocator_reserved_bytes: int
    allocator_change_bytes: int
    device_used_bytes: int


@dataclass
class TelemetryEventV4(_SessionEvent):
    """An event of schema version 4, in which every counter may be unknown (``None``)."""

    schema_version: Literal[4]


TelemetryEvent = TelemetryEventV3

OPTIONAL_V2_FIELDS = ("job_id", "rank", "local_rank", "world_size")
REQUIRED_V2_FIELDS = tuple(
    one.name for one in fields(TelemetryEventV2) if one.name not in OPTIONAL_V2_FIELDS
)
REQUIRED_V3_FIELDS = ("schema_version", "session_id", *REQUIRED_V2_FIELDS[1:])
OPTIONAL_V3_FIELDS = OPTIONAL_V2_FIELDS
KNOWN_V2_FIELD_SET = frozenset((*REQUIRED_V2_FIELDS, *OPTIONAL_V2_FIELDS))
KNOWN_V3_FIELD_SET = frozenset((*REQUIRED_V3_FIELDS, *OPTIONAL_V3_FIELDS))

_ORDER = (*REQUIRED_V3_FIELDS[:8], *OPTIONAL_V3_FIELDS, *REQUIRED_V3_FIELDS[8:])
_V2_ORDER = (*REQUIRED_V2_FIELDS[:7], *OPTIONAL_V2_FIELDS, *REQUIRED_V2_FIELDS[7:])


@dataclass
class LoadedTelemetrySession:
    """A session with its loaded events."""

    summary: SessionSummary
    events: MutableSequence[TelemetryEvent]
    sources_loaded: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    damage: tuple[Damage, ...] = field(default=(), kw_only=True)

    @classmethod
    def _of_fields(
        cls, fields: _core._LoadedSession, warnings: Iterable[str] = ()
    ) -> LoadedTelemetrySession:
        summary, rows, sources, damage_fields = fields
        damage = damage_of_fields(damage_fields)
        events = TelemetryEvents(rows, damage)
        return cls(SessionSummary(**summary), events, sources, list(warnings), damage=damage)

    def telemetry_records(self) -> list[ProjectedTelemetryRecord]:
        """The events as ``project_telemetry_event`` returns them."""
        return project_telemetry_events(self.events)

    def resources(self) -> list[dict[str, Any]]:
        """The resources of the events, each once."""
        return unique_projected_resources(self.telemetry_records())

    def correlations(self) -> list[dict[str, Any]]:
        """The ids of session, job, rank and phase of the events, each combination once."""
        return unique_projected_correlations(self.telemetry_records())


def validate_telemetry_record(record: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if the record breaks a rule of its schema version (2, 3 or 4)."""
    _core.validate_record(record)


def telemetry_event_from_record(
    record: Mapping[str, Any],
    permissive_legacy: bool = True,
    default_collector: str = "legacy.unknown",
    default_sampling_interval_ms: int = 0,
    default_session_id: str | None = None,
) -> TelemetryEventV3:
    """Convert a record (a dictionary) of any schema version to an event. With
    ``permissive_legacy``, records without a schema version are accepted too."""
    return _core.event_from_record(
        record,
        bool(permissive_legacy),
        default_collector,
        default_sampling_interval_ms,
        default_session_id,
    )


def telemetry_event_to_dict(
    event: TelemetryEventV3 | TelemetryEventV4 | TelemetryEventV2,
) -> dict[str, Any]:
    """The event as a record (a dictionary), with the keys in the order in which files contain
    them."""
    names = _V2_ORDER if event.schema_version == SCHEMA_VERSION_V2 else _ORDER
    record: dict[str, Any] = {name: getattr(event, name) for name in names}
    record["metadata"] = dict(event.metadata)
    return record


def resolve_distributed_identity(
    *,
    job_id: Any = None,
    rank: Any = None,
    local_rank: Any = None,
    world_size: Any = None,
    metadata: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Determine job id, rank, local rank and world size. Each comes from the argument, otherwise
    from ``metadata``, otherwise from the launcher's variables in ``env``."""
    return _core.resolve_identity(job_id, rank, local_rank, world_size, metadata, env)


def load_telemetry_events(
    path: str | Path,
    permissive_legacy: bool = True,
    events_key: str | None = None,
    session_id: str | None = None,
    *,
    on_error: Literal["raise", "skip"] = "raise",
) -> TelemetryEvents:
    """Load the events of one session: that with ``session_id``, or else that which
    ``select_default_session`` chooses. ``path`` is an artifact, or the folder of a run with its
    sinks.

    With ``on_error="skip"`` records that cannot be read are skipped and listed in the
    result's ``damage``. An incomplete last line never raises an error.
    """
    rows, damage_fields = _core.load_events(
        path, permissive_legacy, events_key, session_id, _skips(on_error)
    )
    damage = damage_of_fields(damage_fields)
    warn_of_damage(damage)
    return TelemetryEvents(rows, damage)


def load_telemetry_sessions(
    path: str | Path,
    permissive_legacy: bool = True,
    events_key: str | None = None,
    *,
    on_error: Literal["raise", "skip"] = "raise",
) -> list[LoadedTelemetrySession]:
    """Load every session of an artifact, or of the folder of a run with its sinks, in the order of
    ``sort_session_summaries``."""
    sessions, damage_fields = _core.load_sessions(
        path, permissive_legacy, events_key, _skips(on_error)
    )
    warn_of_damage(damage_of_fields(damage_fields))
    return [LoadedTelemetrySession._of_fields(fields) for fields in sessions]


def project_telemetry_event(
    event: TelemetryEvent | TelemetryEventV4 | Mapping[str, Any],
) -> ProjectedTelemetryRecord:
    """Convert an event, or a record of any version, to the form that telemetry tools expect:
    resource (the source), attributes (the measurements) and correlation (session, job, phase)."""
    if not isinstance(event, (TelemetryEventV3, TelemetryEventV4)):
        event = telemetry_event_from_record(event)
    return project_telemetry_mapping(telemetry_event_to_dict(event))


def project_telemetry_events(
    events: Iterable[TelemetryEvent | TelemetryEventV4 | Mapping[str, Any]],
) -> list[ProjectedTelemetryRecord]:
    """Convert many events or records as ``project_telemetry_event`` does."""
    return [project_telemetry_event(event) for event in events]


def _skips(on_error: str) -> bool:
    if on_error not in ("raise", "skip"):
        raise InvalidValueError(f"on_error must be 'raise' or 'skip', not {on_error!r}")
    return on_error == "skip"


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
