"""Rollups: totals and extremes of the events of a sink, per session, rank and time window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _core
from ._compat.legacy_names import legacy_names
from ._events import TelemetryEvents
from .session import SessionSummary, now_ns
from .telemetry import LoadedTelemetrySession, telemetry_event_to_dict
from .telemetry_sink import MANIFEST_FILENAME, TelemetrySinkManifest

__all__ = [
    "DEFAULT_ROLLUP_WINDOW_NS",
    "DEFAULT_ROLLUP_WINDOW_SECONDS",
    "ROLLUP_FILENAME",
    "TELEMETRY_ROLLUP_SCHEMA_VERSION",
    "AlertSummary",
    "CollectorHealthSummary",
    "CounterSummary",
    "OomSummary",
    "PeakValue",
    "RankRollup",
    "RollupCoverage",
    "SessionRollup",
    "TelemetryRollupFile",
    "WindowRollup",
    "build_telemetry_rollups",
    "read_telemetry_rollups",
    "resolve_telemetry_rollup_path",
    "rollup_coverage_from_manifest",
    "telemetry_rollup_file_from_dict",
    "telemetry_rollup_file_to_dict",
    "write_telemetry_rollups",
]

ROLLUP_FILENAME = "rollups.json"
TELEMETRY_ROLLUP_SCHEMA_VERSION = 1
DEFAULT_ROLLUP_WINDOW_SECONDS = 60
DEFAULT_ROLLUP_WINDOW_NS = DEFAULT_ROLLUP_WINDOW_SECONDS * 1_000_000_000

_FORMAT = "stormlog.telemetry_rollups"


@dataclass(frozen=True)
class PeakValue:
    """The highest value of a counter, and the first event that had it."""

    value: int | None = None
    timestamp_ns: int | None = None
    rank: int | None = None
    device_id: int | None = None


@dataclass(frozen=True)
class CounterSummary:
    """The peaks of the counters."""

    allocator_allocated_bytes: PeakValue = field(default_factory=PeakValue)
    allocator_reserved_bytes: PeakValue = field(default_factory=PeakValue)
    device_used_bytes: PeakValue = field(default_factory=PeakValue)


@dataclass(frozen=True)
class AlertSummary:
    """The number of alerts, by severity and by event type."""

    total_count: int = 0
    severity_counts: dict[str, int] = field(default_factory=dict)
    event_type_counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CollectorHealthSummary:
    """How often the collectors of a session degraded and recovered, and how long they were
    degraded."""

    transition_count: int = 0
    degraded_count: int = 0
    recovered_count: int = 0
    degraded_time_ns: int = 0
    last_status: str | None = None


@dataclass(frozen=True)
class OomSummary:
    """The number of out-of-memory errors of a session, and of the OOM bundles written for them."""

    marker_count: int = 0
    event_count: int = 0
    bundle_path_count: int = 0


@dataclass(frozen=True)
class RankRollup:
    """The totals and peaks of one rank. The hidden gap is the used device memory minus the memory
    that the allocator has reserved."""

    rank: int
    local_rank: int
    world_size: int
    event_count: int
    sample_count: int
    first_timestamp_ns: int | None
    last_timestamp_ns: int | None
    counters: CounterSummary
    hidden_gap_first_bytes: int | None = None
    hidden_gap_latest_bytes: int | None = None
    hidden_gap_peak_bytes: int | None = None
    hidden_gap_delta_bytes: int | None = None
    hidden_gap_drift_bytes_per_second: float | None = None


@dataclass(frozen=True)
class WindowRollup:
    """The totals and peaks of one time window of a session."""

    index: int
    start_ns: int
    end_ns: int
    event_count: int
    sample_count: int
    rank_count: int
    counters: CounterSummary
    alert_count: int = 0
    collector_transition_count: int = 0
    oom_count: int = 0


@dataclass(frozen=True)
class SessionRollup:
    """The totals and peaks of one session."""

    session: SessionSummary
    event_count: int
    sample_count: int
    first_timestamp_ns: int | None
    last_timestamp_ns: int | None
    source_count: int
    sources_loaded: list[str]
    warnings: list[str]
    counters: CounterSummary
    alerts: AlertSummary
    collector_health: CollectorHealthSummary
    oom: OomSummary
    ranks: list[RankRollup] = field(default_factory=list)
    windows: list[WindowRollup] = field(default_factory=list)


@dataclass(frozen=True)
class RollupCoverage:
    """The segments whose events the rollups count, and how many segments retention had deleted
    before."""

    retained_segment_filenames: list[str] = field(default_factory=list)
    retained_segment_count: int = 0
    retained_event_count: int = 0
    retained_bytes: int = 0
    pruned_segment_count: int | None = None
    pruned_bytes: int | None = None


@dataclass(frozen=True)
class TelemetryRollupFile:
    """The content of a file ``rollups.json``."""

    schema_version: int
    format: str
    generated_at_ns: int
    source_manifest: str | None
    source_manifest_schema_version: int | None
    window_duration_ns: int
    coverage: RollupCoverage
    sessions: list[SessionRollup] = field(default_factory=list)


def build_telemetry_rollups(
    sessions: Sequence[LoadedTelemetrySession],
    manifest: TelemetrySinkManifest | None,
    *,
    window_duration_ns: int = DEFAULT_ROLLUP_WINDOW_NS,
    coverage: RollupCoverage | None = None,
) -> TelemetryRollupFile:
    """Compute the rollups of loaded sessions. ``manifest`` is that of the sink from which they were
    loaded; the rollups state its segments as their coverage."""
    if window_duration_ns <= 0:
        # A plain ValueError, as in stormlog 0.3.9, because programs compare its exact type.
        raise ValueError("window_duration_ns must be >= 1")
    loaded = [(item.summary, _rows(item), item.sources_loaded, item.warnings) for item in sessions]
    rollups = _core.session_rollups(loaded, int(window_duration_ns))
    return TelemetryRollupFile(
        schema_version=TELEMETRY_ROLLUP_SCHEMA_VERSION,
        format=_FORMAT,
        generated_at_ns=now_ns(),
        source_manifest=None if manifest is None else MANIFEST_FILENAME,
        source_manifest_schema_version=None if manifest is None else manifest.schema_version,
        window_duration_ns=window_duration_ns,
        coverage=rollup_coverage_from_manifest(manifest) if coverage is None else coverage,
        sessions=[_session(fields) for fields in rollups],
    )


def rollup_coverage_from_manifest(
    manifest: TelemetrySinkManifest | None,
    *,
    pruned_segment_count: int | None = None,
    pruned_bytes: int | None = None,
) -> RollupCoverage:
    """The coverage of rollups that count all segments in a manifest."""
    segments = [] if manifest is None else manifest.segments
    return RollupCoverage(
        retained_segment_filenames=[segment.filename for segment in segments],
        retained_segment_count=len(segments),
        retained_event_count=sum(segment.event_count for segment in segments),
        retained_bytes=sum(segment.size_bytes for segment in segments),
        pruned_segment_count=pruned_segment_count,
        pruned_bytes=pruned_bytes,
    )


def resolve_telemetry_rollup_path(path: str | Path) -> Path:
    """The path of the file with a sink's rollups; ``path`` is the sink's directory or a file in
    it."""
    return _core.rollup_path(path)


def read_telemetry_rollups(path: str | Path) -> TelemetryRollupFile | None:
    """The rollups of a sink; ``None`` when they cannot be read or do not match the sink's
    manifest."""
    fields = _core.read_rollups(path)
    return None if fields is None else _file(fields)


def write_telemetry_rollups(root_dir: str | Path, rollups: TelemetryRollupFile) -> Path:
    """Write rollups to a directory, which is created if necessary, and return the path of the
    file."""
    return _core.write_rollups(root_dir, asdict(rollups))


def telemetry_rollup_file_from_dict(payload: Mapping[str, Any]) -> TelemetryRollupFile:
    """The rollups in the JSON object of a ``rollups.json``; every key is required."""
    return _file(_core.rollups_from_mapping(payload))


def telemetry_rollup_file_to_dict(rollups: TelemetryRollupFile) -> dict[str, Any]:
    """The rollups as plain dictionaries and lists."""
    return asdict(rollups)


def _rows(session: LoadedTelemetrySession) -> _core.EventRows:
    events = session.events
    if isinstance(events, TelemetryEvents):
        return events._current_rows()
    return _core.rows_from_records([telemetry_event_to_dict(event) for event in events])


def _file(fields: dict[str, Any]) -> TelemetryRollupFile:
    fields["coverage"] = RollupCoverage(**fields["coverage"])
    fields["sessions"] = [_session(session) for session in fields["sessions"]]
    return TelemetryRollupFile(**fields)


def _session(fields: dict[str, Any]) -> SessionRollup:
    fields["session"] = SessionSummary(**fields["session"])
    fields["counters"] = _counters(fields["counters"])
    fields["alerts"] = AlertSummary(**fields["alerts"])
    fields["collector_health"] = CollectorHealthSummary(**fields["collector_health"])
    fields["oom"] = OomSummary(**fields["oom"])
    for rank in fields["ranks"]:
        rank["counters"] = _counters(rank["counters"])
    for window in fields["windows"]:
        window["counters"] = _counters(window["counters"])
    fields["ranks"] = [RankRollup(**rank) for rank in fields["ranks"]]
    fields["windows"] = [WindowRollup(**window) for window in fields["windows"]]
    return SessionRollup(**fields)


def _counters(fields: dict[str, Any]) -> CounterSummary:
    return CounterSummary(**{name: PeakValue(**peak) for name, peak in fields.items()})


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
