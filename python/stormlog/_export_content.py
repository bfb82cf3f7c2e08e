"""Selects the parts of a recording or of a diagnose bundle that a service (W&B or MLflow) receives.

Everything comes from untrusted artifacts, and people who may not see secrets can read what a
service receives. Each value is checked, and nothing that looks like a secret is passed on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from . import _core
from ._export_attribution import COLUMNS, attribution_of
from ._export_timeline import Moment, alerts_of, device_to_draw, moments_of, page_of, points_of
from ._export_values import number, safe_name, text
from ._temporary import temporary_folder
from .errors import ArtifactNotFoundError
from .session import SessionSummary, session_summary_to_dict

_log = logging.getLogger(__name__)

Scalar: TypeAlias = "str | bool | int | float"
AnyPath: TypeAlias = "str | PathLike[str]"

# Statistics of trackers, each with the name under which it is logged after the prefix `stormlog_`.
_STATISTICS = {
    "peak_memory": "peak_memory_bytes",
    "total_events": "total_events",
    "alert_count": "alert_count",
    "current_memory_allocated": "current_memory_allocated_bytes",
    "current_memory_reserved": "current_memory_reserved_bytes",
    "memory_utilization_percent": "memory_utilization_percent",
    "total_allocations": "total_allocations",
    "total_deallocations": "total_deallocations",
    "total_allocation_bytes": "total_allocation_bytes",
    "total_deallocation_bytes": "total_deallocation_bytes",
    "tracking_duration_seconds": "tracking_duration_seconds",
    "allocations_per_second": "allocations_per_second",
    "bytes_allocated_per_second": "bytes_allocated_per_second",
    "history_retained_events": "history_retained_events",
    "history_dropped_events": "history_dropped_events",
    "rollover_count": "sink_rollover_count",
    "pruned_segment_count": "sink_pruned_segment_count",
    "pruned_bytes": "sink_pruned_bytes",
    "final_retained_files": "sink_retained_files",
    "final_retained_bytes": "sink_retained_bytes",
}
_STATISTIC_TEXTS = (
    "session_status",
    "backend",
    "collector_health_status",
    "collector_last_error",
)
_DIAGNOSIS = (
    "allocated_bytes",
    "reserved_bytes",
    "peak_bytes",
    "total_bytes",
    "utilization_ratio",
    "fragmentation_ratio",
    "num_ooms",
)
# The columns of the tables, each with the attribute of a moment that it shows.
_ALERT_COLUMNS = {
    "timestamp_s": "time_s",
    "event_type": "event_type",
    "context": "context",
    "memory_allocated_bytes": "allocated",
    "memory_reserved_bytes": "reserved",
    "memory_change_bytes": "change",
    "job_id": "job_id",
    "rank": "rank",
}
_TIMELINE_COLUMNS = {
    "sample_index": "place",
    "elapsed_seconds": "time_s",
    "event_type": "event_type",
    "memory_allocated_bytes": "allocated",
    "memory_reserved_bytes": "reserved",
    "memory_change_bytes": "change",
    "device_used_bytes": "used",
    "utilization_percent": "utilization_percent",
    "context": "context",
    "rank": "rank",
}
_MOST_FLAGS = 32
_MOST_SUGGESTIONS = 250

TIMELINE = "stormlog_memory_timeline"
DASHBOARD = "stormlog_tracking_dashboard"
ATTRIBUTION_PAGE = "stormlog_attribution"


class Config(Protocol):
    """The settings that all services share."""

    @property
    def enabled(self) -> bool: ...
    @property
    def run_name(self) -> str | None: ...
    @property
    def group(self) -> str | None: ...
    @property
    def job_type(self) -> str | None: ...
    @property
    def log_tables(self) -> bool: ...
    @property
    def log_artifacts(self) -> bool: ...
    @property
    def log_attribution(self) -> bool: ...


@dataclass(frozen=True)
class Table:
    """A table to log, with its name; every cell is a scalar or None."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Upload:
    """Files that are logged together, as one artifact of the service.

    ``files`` has the name and the path of each file. ``kind`` is the beginning of the artifact's
    name. ``folder`` is the name of the directory that the files come from; None for a single file.
    """

    kind: str
    files: Sequence[tuple[str, Path]]
    folder: str | None = None


@dataclass
class Content:
    """Everything that is logged about one recording or one diagnose bundle."""

    command: str
    run_name: str
    group: str | None
    job_type: str
    session: str
    identity: dict[str, Scalar]
    summary: dict[str, Scalar] = field(default_factory=dict)
    timeline: list[tuple[Moment, dict[str, int | float]]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)
    uploads: list[Upload] = field(default_factory=list)

    def name_of(self, upload: Upload) -> str:
        """The name of an upload in the service: its kind and the session id."""
        return f"{upload.kind}-{self.session}"


ServiceConfig = TypeVar("ServiceConfig", bound=Config)


def export(
    config: ServiceConfig,
    gather: Callable[[ServiceConfig, Path], Content],
    log: Callable[[ServiceConfig, Content], str | None],
) -> str | None:
    """Gather the content with ``gather`` and log it with ``log``. Returns what ``log`` returns:
    where the content can be found. Returns None without doing anything when logging is not
    enabled."""
    if not config.enabled:
        return None
    with temporary_folder() as copies:
        return log(config, gather(config, copies))


def tracking(
    config: Config,
    copies: Path,
    *,
    command_name: str,
    session_summary: SessionSummary | None,
    stats: Mapping[str, Any],
    events: Iterable[Any],
    output_path: AnyPath | None,
    telemetry_sink_dir: AnyPath | None,
    oom_dump_path: AnyPath | None,
    attribution_bundle_dir: AnyPath | None,
) -> Content:
    """The content of a recording. Copies of its files, without secrets, are written to ``copies``,
    an empty directory."""
    session = session_summary_to_dict(session_summary) if session_summary else {}
    content = _begun(config, command_name, session)
    moments = moments_of(events)
    device = device_to_draw(moments)
    drawn = [moment for moment in moments if moment.device_id == device]
    points = points_of(drawn)
    for key, name in _STATISTICS.items():
        _add(content.summary, name, number(stats.get(key)))
    content.summary["stormlog_chart_point_count"] = len(points)
    content.summary |= content.identity
    for key in _STATISTIC_TEXTS:
        _add(content.summary, key, text(stats.get(key)))
    if output_path is not None:
        content.summary["stormlog_output_file"] = text(Path(output_path).name) or "output"
    start_s = points[0].time_s if points else 0.0
    content.timeline = [(point, _measured(point, start_s)) for point in points]
    if config.log_tables:
        _add_tables(content, alerts_of(moments), points, start_s)
        if points:
            title = f"Memory of {content.run_name}"
            content.pages[DASHBOARD] = page_of(drawn, content.session, title)
    if config.log_artifacts:
        for kind, path in (
            ("stormlog-track-output", output_path),
            ("stormlog-telemetry-sink", telemetry_sink_dir),
            ("stormlog-oom-dump", oom_dump_path),
            ("stormlog-attribution-bundle", attribution_bundle_dir),
        ):
            if path is not None and Path(path).exists():
                _add_upload(content, _upload(kind, Path(path), copies))
    if config.log_attribution and attribution_bundle_dir is not None:
        _add_attribution(content, Path(attribution_bundle_dir), copies)
    return content


def diagnosis(config: Config, copies: Path, *, command_name: str, artifact_dir: AnyPath) -> Content:
    """The content of a diagnose bundle. Copies of its files, without secrets, are written to
    ``copies``."""
    bundle = Path(artifact_dir)
    if not bundle.is_dir():
        raise ArtifactNotFoundError(f"Diagnose artifact directory not found: {bundle}")
    manifest, found = (
        _document(bundle, "manifest.json"),
        _document(bundle, "diagnostic_summary.json"),
    )
    session = manifest.get("session")
    content = _begun(config, command_name, session if isinstance(session, Mapping) else {})
    summary = content.summary
    for key in _DIAGNOSIS:
        _add(summary, key, number(found.get(key)))
    flags = found.get("risk_flags")
    for name, flag in list(flags.items())[:_MOST_FLAGS] if isinstance(flags, Mapping) else ():
        if re.fullmatch(r"[A-Za-z0-9_]{1,64}", name):
            _add(summary, f"risk_{name}", _flag(flag))
    _add(summary, "risk_detected", _flag(manifest.get("risk_detected")))
    _add(summary, "exit_code", number(manifest.get("exit_code")))
    summary |= content.identity
    summary["stormlog_artifact_dir"] = text(bundle.resolve().name) or "bundle"
    _add(summary, "native_history_enabled", _flag(manifest.get("native_history_enabled")))
    verdict = _document(bundle, "report.json").get("verdict")
    if isinstance(verdict, Mapping):
        _add(summary, "verdict", text(verdict.get("headline")))
    suggestions = found.get("suggestions")
    if config.log_tables and isinstance(suggestions, list) and suggestions:
        known = [text(one) for one in suggestions[:_MOST_SUGGESTIONS]]
        rows = [[place, one] for place, one in enumerate(filter(None, known), start=1)]
        content.tables.append(
            Table("stormlog_diagnostic_suggestions", ("index", "suggestion"), rows)
        )
    if config.log_artifacts:
        _add_upload(content, _upload("stormlog-diagnose", bundle.resolve(), copies))
    if config.log_attribution:
        _add_attribution(content, bundle, copies)
    return content


def _begun(config: Config, command_name: str, session: Mapping[str, Any]) -> Content:
    identity: dict[str, Scalar] = {}
    for key, name in (
        ("session_id", "session_id"),
        ("source", "session_source"),
        ("status", "session_status"),
        ("rank", "rank"),
        ("local_rank", "local_rank"),
        ("world_size", "world_size"),
        ("job_id", "job_id"),
    ):
        is_number = key in ("rank", "local_rank", "world_size")
        _add(identity, name, number(session.get(key)) if is_number else text(session.get(key)))
    session_id = safe_name(session.get("session_id"), "session")
    known = session_id if "stormlog_session_id" in identity else ""
    return Content(
        command=command_name,
        run_name=config.run_name or "-".join(filter(None, (command_name, known[:8]))),
        group=config.group or text(session.get("job_id")),
        job_type=config.job_type or command_name,
        session=session_id,
        identity=identity,
    )


def _measured(point: Moment, start_s: float) -> dict[str, int | float]:
    """The time and the known counters of a point of the timeline, by the names under which they are
    logged."""
    measured = {
        "elapsed_seconds": point.time_s - start_s,
        "allocated_bytes": point.allocated,
        "reserved_bytes": point.reserved,
        "change_bytes": point.change,
        "device_used_bytes": point.used,
        "utilization_percent": point.utilization_percent,
    }
    return {
        f"stormlog_timeline_{name}": value for name, value in measured.items() if value is not None
    }


def _add_tables(
    content: Content, alerts: list[Moment], points: list[Moment], start_s: float
) -> None:
    if alerts:
        content.tables.append(_table("stormlog_alerts", _ALERT_COLUMNS, alerts))
    if points:
        points = [point._replace(time_s=point.time_s - start_s) for point in points]
        content.tables.append(_table(TIMELINE, _TIMELINE_COLUMNS, points))


def _table(name: str, columns: Mapping[str, str], moments: list[Moment]) -> Table:
    rows = [[getattr(moment, cell) for cell in columns.values()] for moment in moments]
    return Table(name, list(columns), rows)


def _add_attribution(content: Content, bundle: Path, copies: Path) -> None:
    attribution = attribution_of(bundle)
    if attribution is None:
        return
    files: list[tuple[str, Path]] = []
    for name in attribution.files:
        files += _upload("stormlog-attribution", bundle.resolve() / name, copies).files
    _add_upload(content, Upload("stormlog-attribution", files))
    if attribution.rows:
        content.tables.append(Table("stormlog_tensor_attribution", COLUMNS, attribution.rows))
        content.pages[ATTRIBUTION_PAGE] = attribution.page()
    if attribution.html_file:
        content.summary["stormlog_attribution_html_file"] = attribution.html_file
    content.summary["stormlog_tensor_attribution_rows"] = attribution.storages
    _add(content.summary, "attribution_history_recorded", attribution.history_recorded)


def _add_upload(content: Content, upload: Upload) -> None:
    if upload.files:
        content.uploads.append(upload)


def _upload(kind: str, path: Path, copies: Path) -> Upload:
    """Copy a file, or the files of a directory, without secrets to a new directory in ``copies``,
    and return the copies as an upload. Files that are left out are logged as warnings."""
    own = copies / str(len(list(copies.iterdir())))
    own.mkdir()
    files, left_out = _core.sendable(path, own)
    for what in left_out:
        _log.warning("not sent: %s", what)
    folder = safe_name(path.name, "files") if path.is_dir() else None
    return Upload(kind, [(name, Path(file)) for name, file in files], folder)


def _document(bundle: Path, name: str) -> Mapping[str, Any]:
    document = _core.sendable_document(bundle / name)
    return document if isinstance(document, Mapping) else {}


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _add(values: dict[str, Scalar], name: str, value: Scalar | None) -> None:
    """Add a value under the name with which it is logged, if it is known."""
    if value is not None:
        values[f"stormlog_{name}"] = value
