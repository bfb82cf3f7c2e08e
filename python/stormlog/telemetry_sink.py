"""Append-only sinks: a directory of segments and a manifest."""

from __future__ import annotations

import atexit
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from . import _core, _fork
from ._compat.legacy_names import legacy_names
from .session import SESSION_STATUS_COMPLETED, SessionSummary

__all__ = [
    "MANIFEST_FILENAME",
    "SEGMENT_PREFIX",
    "SEGMENT_SUFFIX",
    "SINK_SCHEMA_VERSION",
    "AppendOnlyTelemetrySink",
    "TelemetrySinkConfig",
    "TelemetrySinkManifest",
    "TelemetrySinkSegment",
    "read_telemetry_sink_manifest",
    "resolve_telemetry_sink_manifest_path",
    "resolve_telemetry_sink_segment_paths",
]

MANIFEST_FILENAME = "manifest.json"
SEGMENT_PREFIX = "segment-"
SEGMENT_SUFFIX = ".jsonl"
SINK_SCHEMA_VERSION = 2

_log = logging.getLogger(__name__)


@dataclass
class TelemetrySinkConfig:
    """Where a sink is, and when it flushes, starts a new segment and deletes old segments."""

    root_dir: Path
    flush_every_events: int = 50
    flush_every_seconds: float = 2.0
    rollover_max_bytes: int = 64 * 1024 * 1024
    rollover_max_events: int = 10_000
    retention_max_files: int = 8
    retention_max_total_bytes: int = 512 * 1024 * 1024
    write_rollups: bool = True
    rollup_window_seconds: int = 60
    #: Keep the whole run within this many bytes by thinning its older part: of each interval of
    #: time, the first, last, lowest and highest samples stay. ``retention_max_files`` and
    #: ``retention_max_total_bytes`` then have no effect.
    thinning_budget_bytes: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.root_dir = Path(self.root_dir)
        # Plain ValueErrors, as in stormlog 0.3.9, because programs compare their exact type.
        if self.flush_every_events <= 0:
            raise ValueError("flush_every_events must be >= 1")
        if self.flush_every_seconds <= 0:
            raise ValueError("flush_every_seconds must be > 0")
        for name in (
            "rollover_max_bytes",
            "rollover_max_events",
            "retention_max_files",
            "retention_max_total_bytes",
            "rollup_window_seconds",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be >= 1")
        if self.retention_max_total_bytes < self.rollover_max_bytes:
            raise ValueError("retention_max_total_bytes must be >= rollover_max_bytes")
        if self.thinning_budget_bytes is not None and self.thinning_budget_bytes <= 0:
            raise ValueError("thinning_budget_bytes must be >= 1")


@dataclass
class TelemetrySinkSegment:
    """One segment file of a sink."""

    filename: str
    event_count: int
    size_bytes: int
    closed: bool
    session_id: str | None = None
    #: Of each interval of this length only some samples are left; 0 when no sample was removed.
    thinned_interval_ns: int = field(default=0, kw_only=True)


@dataclass
class TelemetrySinkManifest:
    """The content of a sink's manifest."""

    schema_version: int
    format: str
    sessions: list[SessionSummary] = field(default_factory=list)
    segments: list[TelemetrySinkSegment] = field(default_factory=list)
    dropped_event_count: int = field(default=0, kw_only=True)
    #: What thinning removed: the number of samples (key ``samples_dropped``), the number of
    #: segments they were in (``segments``), and the time up to which samples are sparse
    #: (``until_ns``). Empty when nothing was thinned.
    thinned: dict[str, int] = field(default_factory=dict, kw_only=True)
    #: How many segments and events (keys ``segments`` and ``events``) were deleted from a sink that
    #: uses thinning; empty when none were deleted.
    pruned: dict[str, int] = field(default_factory=dict, kw_only=True)


class AppendOnlyTelemetrySink(_core.Sink):
    """Appends records to segments. A crash, a fork or a second process does not damage the files.

    When another process records into ``config.root_dir``, the sink uses a directory beside it with
    this process's id in its name, and logs this. ``directory`` is the directory in use.
    """

    def __init__(self, config: TelemetrySinkConfig) -> None:
        self.config = config
        self._log_notices()
        _living.add(self)

    def start_session(self, summary: SessionSummary | None = None) -> SessionSummary:
        """Start a session, or return the active one."""
        started = SessionSummary(**self.start(summary))
        self._log_notices()
        return started

    def current_session(self) -> SessionSummary | None:
        """The active session, if any."""
        fields = self.current()
        return None if fields is None else SessionSummary(**fields)

    def close(self, session_status: str = SESSION_STATUS_COMPLETED) -> None:
        """Write buffered records, close the segment and end the session. The sink can then start
        another session."""
        self.end(session_status)
        self._log_notices()

    def get_diagnostics(self) -> dict[str, int]:
        """How often the sink started a new segment, and the number and bytes of the segments that
        it deleted and of those that are left."""
        return self.diagnostics()

    def _log_notices(self) -> None:
        for line in self.take_notices():
            _log.warning(line)


def read_telemetry_sink_manifest(path: str | Path) -> TelemetrySinkManifest | None:
    """The manifest of a sink; ``path`` is the sink's directory or a file in it. None when there is
    no readable manifest."""
    fields = _core.read_manifest(path)
    if fields is None:
        return None
    return TelemetrySinkManifest(
        schema_version=fields["schema_version"],
        format=fields["format"],
        sessions=[SessionSummary(**summary) for summary in fields["sessions"]],
        segments=[TelemetrySinkSegment(**segment) for segment in fields["segments"]],
        dropped_event_count=fields.get("dropped_event_count", 0),
        thinned=fields.get("thinned", {}),
        pruned=fields.get("pruned", {}),
    )


def resolve_telemetry_sink_manifest_path(path: str | Path) -> Path | None:
    """The path of a sink's manifest; ``path`` is the sink's directory or a file in it."""
    return _core.manifest_path(path)


def resolve_telemetry_sink_segment_paths(path: str | Path) -> list[Path]:
    """The segment files of a sink; ``path`` is the sink's directory or a file in it."""
    return _core.segment_paths(path)


_living: WeakSet[AppendOnlyTelemetrySink] = WeakSet()


def _flush_all() -> None:
    """Flush all sinks at exit, so that a program that does not close its sink loses nothing."""
    for sink in list(_living):
        try:
            sink.flush(force=True)
        except (OSError, ValueError) as error:
            _log.warning("cannot flush the sink in '%s': %s", sink.directory, error)


atexit.register(_flush_all)
_fork.announce()


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
