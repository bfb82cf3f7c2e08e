"""Queries over many artifacts.

    >>> import stormlog.query
    >>> store = stormlog.query.open(["./live_sink", "./oom_dumps"])
    >>> store.list_issues()

A store lists the artifacts that exist when it is opened. It reads manifests at once, and events
when a query first needs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, environ
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

from . import _core
from ._compat.legacy_names import legacy_names
from .correlation import (
    AttachmentFilter,
    CorrelationEvidence,
    CorrelationFilter,
    CorrelationResult,
    ExternalAttachment,
)
from .issues import (
    IssueEvidenceLink,
    IssueFingerprint,
    IssueKind,
    IssueState,
    StormlogIssue,
)
from .run_catalog import (
    AttachmentStorage,
    CatalogRunEnvelope,
    RunAttachmentFilter,
    RunAttachmentRow,
    RunFilter,
    RunRow,
    envelope_of_fields,
)
from .telemetry import TelemetryEventV3, telemetry_event_to_dict

__all__ = [
    "ArtifactCatalog",
    "AttachmentFilter",
    "AttachmentStorage",
    "CatalogOOMBundle",
    "CatalogRunEnvelope",
    "CatalogSource",
    "CatalogWarning",
    "CorrelationEvidence",
    "CorrelationFilter",
    "CorrelationResult",
    "EventFilter",
    "EventRow",
    "ExternalAttachment",
    "IssueFilter",
    "IssueStates",
    "OOMBundleFilter",
    "OOMBundleRow",
    "QueryStore",
    "RunAttachmentFilter",
    "RunAttachmentRow",
    "RunFilter",
    "RunRow",
    "SessionFilter",
    "SessionRow",
    "SummaryRow",
    "open",
]

SourceKind = Literal[
    "sink",
    "telemetry_json",
    "telemetry_jsonl",
    "telemetry_csv",
    "diagnose_bundle",
    "oom_bundle",
]
SummaryMetric = Literal[
    "session_count_by_status",
    "peak_allocator_allocated_bytes",
    "peak_allocator_reserved_bytes",
    "peak_device_used_bytes",
    "alert_count",
    "collector_degradation_transitions",
    "interrupted_sessions_with_oom_bundles",
    "hidden_memory_gap_growth",
]
SummaryGroupBy = Literal["session", "session-rank", "rank", "status"]


@dataclass(frozen=True)
class CatalogSource:
    """A sink, file or bundle that contains sessions."""

    path: Path
    source_kind: SourceKind
    event_paths: tuple[Path, ...] = ()
    manifest_path: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """The source as plain JSON data."""
        return {
            "path": str(self.path),
            "source_kind": self.source_kind,
            "event_paths": [str(path) for path in self.event_paths],
            "manifest_path": None if self.manifest_path is None else str(self.manifest_path),
        }


@dataclass(frozen=True)
class CatalogOOMBundle:
    """A bundle of the OOM flight recorder."""

    bundle_path: Path
    manifest_path: Path
    created_at_utc: str | None
    backend: str | None
    reason: str | None
    event_count: int | None
    session_id: str | None
    session_status: str | None
    exception_type: str | None = None
    exception_module: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The bundle as plain JSON data."""
        return {
            **vars(self),
            "bundle_path": str(self.bundle_path),
            "manifest_path": str(self.manifest_path),
        }


@dataclass(frozen=True)
class CatalogWarning:
    """A problem with one of the paths; answers to queries may be incomplete because of it."""

    path: str
    message: str

    def as_dict(self) -> dict[str, Any]:
        """The warning as plain JSON data."""
        return dict(vars(self))


@dataclass(frozen=True)
class SessionFilter:
    """Filter of sessions; ``None`` matches everything."""

    session_id: str | None = None
    status: str | None = None
    job_id: str | None = None
    rank: int | None = None
    world_size: int | None = None
    has_oom_bundle: bool | None = None
    source_kind: str | None = None


@dataclass(frozen=True)
class EventFilter:
    """Filter of events; ``None`` matches everything."""

    session_id: str | None = None
    event_type: str | None = None
    rank: int | None = None
    collector: str | None = None
    status: str | None = None
    time_start_ns: int | None = None
    time_end_ns: int | None = None
    has_alert: bool | None = None
    collector_health_status: str | None = None
    backend: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class OOMBundleFilter:
    """Filter of OOM bundles; ``None`` matches everything."""

    session_id: str | None = None
    backend: str | None = None
    reason: str | None = None
    created_after: str | None = None
    created_before: str | None = None


@dataclass(frozen=True)
class IssueFilter:
    """Filter of issues; ``None`` matches everything."""

    fingerprint_id: str | None = None
    kind: IssueKind | None = None
    state: IssueState | None = None
    severity: str | None = None
    session_id: str | None = None


@dataclass(frozen=True)
class SessionRow:
    """A session.

    ``status`` is the status that the session's files state. ``effective_status`` is computed when
    the row is made: it is ``interrupted`` for a session that is marked as running but whose process
    has ended.
    """

    session_id: str
    status: str
    started_at_ns: int
    ended_at_ns: int | None
    host: str
    pid: int
    job_id: str | None
    rank: int
    local_rank: int
    world_size: int
    source: str
    source_path: str
    source_kind: str
    source_count: int
    warning_count: int
    event_count: int | None
    oom_bundle_count: int
    effective_status: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The row as plain JSON data."""
        return dict(vars(self))


@dataclass(frozen=True)
class EventRow:
    """An event and its source."""

    event: TelemetryEventV3
    source_path: str
    source_kind: str
    session_status: str

    def as_dict(self) -> dict[str, Any]:
        """The row as plain JSON data."""
        return {
            **telemetry_event_to_dict(self.event),
            "source_path": self.source_path,
            "source_kind": self.source_kind,
            "session_status": self.session_status,
        }


@dataclass(frozen=True)
class OOMBundleRow:
    """An OOM bundle."""

    bundle_path: str
    created_at_utc: str | None
    backend: str | None
    reason: str | None
    event_count: int | None
    session_id: str | None
    session_status: str | None
    exception_type: str | None
    exception_module: str | None

    def as_dict(self) -> dict[str, Any]:
        """The row as plain JSON data."""
        return dict(vars(self))


@dataclass(frozen=True)
class SummaryRow:
    """The value of a metric for one group: a session, a rank or a status."""

    metric: str
    group_by: str
    value: int | float | str | None
    session_id: str | None = None
    rank: int | None = None
    status: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The row as plain JSON data."""
        return {
            "metric": self.metric,
            "group_by": self.group_by,
            "session_id": self.session_id,
            "rank": self.rank,
            "status": self.status,
            "value": self.value,
            **self.details,
        }


class EventRows(Sequence[EventRow]):
    """Event rows in order of time, created on access. It compares equal to a list of the same
    rows."""

    def __init__(self, rows: _core.QueriedEvents) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: SupportsIndex) -> EventRow: ...
    @overload
    def __getitem__(self, place: slice) -> list[EventRow]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> EventRow | list[EventRow]:
        places = range(len(self))[place]
        if isinstance(places, int):
            return EventRow(*self._rows.row(places))
        return [EventRow(*self._rows.row(index)) for index in places]

    def __iter__(self) -> Iterator[EventRow]:
        return (EventRow(*self._rows.row(index)) for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, EventRows)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Sequence[EventRow]) -> list[EventRow]:
        return [*self, *other]

    def __radd__(self, other: Sequence[EventRow]) -> list[EventRow]:
        return [*other, *self]

    def __repr__(self) -> str:
        return f"<EventRows: {len(self)} events>"

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


class ArtifactCatalog:
    """The artifacts at the given paths."""

    paths: tuple[Path, ...]
    sources: list[CatalogSource]
    oom_bundles: list[CatalogOOMBundle]
    attachments: list[ExternalAttachment]
    run_envelopes: list[CatalogRunEnvelope]

    def __init__(self, paths: Sequence[str | Path]) -> None:
        if isinstance(paths, (str, PathLike)):
            paths = [paths]
        self._core = _core.QueryStore([Path(path) for path in paths])
        found = self._core.catalog()
        self.paths = tuple(found["paths"])
        self.sources = [_source(fields) for fields in found["sources"]]
        self.oom_bundles = [_oom_bundle(fields) for fields in found["oom_bundles"]]
        self.attachments = [ExternalAttachment(**fields) for fields in found["attachments"]]
        self.run_envelopes = [envelope_of_fields(fields) for fields in found["run_envelopes"]]

    @property
    def warnings(self) -> list[CatalogWarning]:
        """The warnings from opening the paths and from all queries so far."""
        return [CatalogWarning(**fields) for fields in self._core.warnings()]

    def as_dict(self) -> dict[str, Any]:
        """The catalog as plain JSON data."""
        return {
            "paths": [str(path) for path in self.paths],
            "sources": [source.as_dict() for source in self.sources],
            "oom_bundles": [bundle.as_dict() for bundle in self.oom_bundles],
            "attachments": [attachment.as_dict() for attachment in self.attachments],
            "run_envelopes": [envelope.as_dict() for envelope in self.run_envelopes],
            "warnings": [warning.as_dict() for warning in self.warnings],
        }


class QueryStore:
    """Answers queries about a catalog."""

    def __init__(self, catalog: ArtifactCatalog) -> None:
        self.catalog = catalog
        self._core = catalog._core

    def list_runs(self, filters: RunFilter | None = None) -> list[RunRow]:
        """The runs, newest first."""
        return [_run(fields) for fields in self._core.runs(_wanted(filters))]

    def list_run_attachments(
        self, filters: RunAttachmentFilter | None = None
    ) -> list[RunAttachmentRow]:
        """The attachments of all runs."""
        rows = self._core.run_attachments(_wanted(filters))
        return [RunAttachmentRow(**fields) for fields in rows]

    def list_sessions(self, filters: SessionFilter | None = None) -> list[SessionRow]:
        """The sessions, newest first."""
        return [SessionRow(**fields) for fields in self._core.sessions(_wanted(filters))]

    def query_events(self, filters: EventFilter | None = None) -> Sequence[EventRow]:
        """The events, earliest first."""
        return EventRows(self._core.events(_wanted(filters)))

    def list_oom_bundles(self, filters: OOMBundleFilter | None = None) -> list[OOMBundleRow]:
        """The OOM bundles, oldest first."""
        return [OOMBundleRow(**fields) for fields in self._core.oom_bundles(_wanted(filters))]

    def list_attachments(self, filters: AttachmentFilter | None = None) -> list[ExternalAttachment]:
        """The attachments listed in files ``stormlog_attachments.json`` beside the artifacts."""
        rows = self._core.attachments(_wanted(filters))
        return [ExternalAttachment(**fields) for fields in rows]

    def correlate(self, filters: CorrelationFilter) -> CorrelationResult:
        """List what happened around a moment, sorted by confidence, then by distance in time."""
        result = self._core.correlate(_wanted(filters))
        return CorrelationResult(
            anchor=result["anchor"],
            evidence=[_evidence(fields) for fields in result["evidence"]],
            warnings=result["warnings"],
        )

    def list_issues(
        self,
        filters: IssueFilter | None = None,
        *,
        state_overrides: Mapping[str, str] | None = None,
        include_findings: bool = False,
    ) -> list[StormlogIssue]:
        """The issues; the most severe come first, and of these the latest.

        With ``include_findings``, Stormlog's own detectors examine the recordings, and each kind of
        finding is a kind of issue: ``allocator_leak``, ``hidden_drift`` and so on. Without it, the
        rules of stormlog 0.3.9 decide about hidden memory (``hidden_memory_anomaly``).
        """
        overrides = [] if state_overrides is None else list(state_overrides.items())
        rows = self._core.issues(_wanted(filters), overrides, include_findings)
        return [_issue(fields) for fields in rows]

    @property
    def issue_state(self) -> IssueStates:
        """The decisions about issues, stored in ``issues.json`` beside the artifacts."""
        return IssueStates(self)

    def summarize(
        self, metric: SummaryMetric, *, group_by: SummaryGroupBy | None = None
    ) -> list[SummaryRow]:
        """The value of a metric for each session, rank or status; groups without a value are left
        out."""
        return [_summary(fields) for fields in self._core.summarize(metric, group_by)]


class IssueStates:
    """Reads and changes the states of issues in a file. The file is locked while it is changed, and
    replaced as a whole.

    >>> store.issue_state.resolve("issue:876c8d4f6dbab3ef989deddc", reason="batch halved")
    'resolved'
    >>> store.list_issues(state_overrides=store.issue_state.all(), include_findings=True)
    """

    def __init__(self, store: QueryStore, path: str | Path | None = None) -> None:
        self._core = store._core
        if path is None:
            first = store.catalog.paths[0] if store.catalog.paths else Path(".")
            path = (first if first.is_dir() else first.parent) / "issues.json"
        self.path = Path(path)

    def all(self) -> dict[str, str]:
        """The state of every issue in the artifacts, by fingerprint id."""
        return dict(self._core.issue_states(self.path))

    def __getitem__(self, fingerprint_id: str) -> str:
        return self.all()[fingerprint_id]

    def resolve(self, fingerprint_id: str, *, reason: str | None = None, by: str = "") -> str:
        """Mark an issue as resolved, and return its state. When it is seen again, it is
        regressed."""
        return self._decide(fingerprint_id, "resolved", None, by, reason)

    def ignore(
        self,
        fingerprint_id: str,
        *,
        until_ns: int | None = None,
        reason: str | None = None,
        by: str = "",
    ) -> str:
        """Ignore an issue, permanently or until a time in nanoseconds since 1970, and return its
        state."""
        return self._decide(fingerprint_id, "ignored", until_ns, by, reason)

    def reopen(self, fingerprint_id: str, *, reason: str | None = None, by: str = "") -> str:
        """Mark a resolved or ignored issue as open again, and return its state."""
        return self._decide(fingerprint_id, "open", None, by, reason)

    def _decide(
        self, fingerprint_id: str, state: str, until_ns: int | None, by: str, reason: str | None
    ) -> str:
        who = by or environ.get("USER", "unknown")
        return self._core.decide_issue(self.path, fingerprint_id, (state, until_ns), (who, reason))


def open(paths: Sequence[str | Path]) -> QueryStore:
    """Open artifacts for queries; a path is that of an artifact or of a directory of artifacts."""
    return QueryStore(ArtifactCatalog(paths))


def _wanted(filters: object | None) -> Mapping[str, Any]:
    return {} if filters is None else vars(filters)


def _source(fields: dict[str, Any]) -> CatalogSource:
    manifest = fields["manifest_path"]
    return CatalogSource(
        path=Path(fields["path"]),
        source_kind=fields["source_kind"],
        event_paths=tuple(Path(path) for path in fields["event_paths"]),
        manifest_path=None if manifest is None else Path(manifest),
    )


def _oom_bundle(fields: dict[str, Any]) -> CatalogOOMBundle:
    paths = {key: Path(fields[key]) for key in ("bundle_path", "manifest_path")}
    return CatalogOOMBundle(**{**fields, **paths})


def _run(fields: dict[str, Any]) -> RunRow:
    tuples = {key: tuple(fields[key]) for key in ("sessions", "ranks", "tags")}
    return RunRow(**{**fields, **tuples})


def _evidence(fields: dict[str, Any]) -> CorrelationEvidence:
    return CorrelationEvidence(**{**fields, "reasons": tuple(fields["reasons"])})


def _summary(fields: dict[str, Any]) -> SummaryRow:
    take = fields.pop
    return SummaryRow(
        metric=take("metric"),
        group_by=take("group_by"),
        value=take("value"),
        session_id=take("session_id"),
        rank=take("rank"),
        status=take("status"),
        # All other fields.
        details=fields,
    )


def _issue(fields: dict[str, Any]) -> StormlogIssue:
    evidence: list[IssueEvidenceLink] = fields["evidence"]
    return StormlogIssue(
        fingerprint=IssueFingerprint(fields.pop("kind"), fields.pop("dimensions")),
        hit_count=len(evidence),
        representative_evidence=evidence[0],
        **fields,
    )


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
