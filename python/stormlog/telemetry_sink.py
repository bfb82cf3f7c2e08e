"""Append-only sinks: a directory of segments and a manifest."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from . import _core
from .session import SessionSummary

MANIFEST_FILENAME = "manifest.json"
SEGMENT_PREFIX = "segment-"
SEGMENT_SUFFIX = ".jsonl"
SINK_SCHEMA_VERSION = 2


@dataclass
class TelemetrySinkSegment:
    """One segment file of a sink."""

    filename: str
    event_count: int
    size_bytes: int
    closed: bool
    session_id: str | None = None


@dataclass
class TelemetrySinkManifest:
    """What a sink's manifest says."""

    schema_version: int
    format: str
    sessions: list[SessionSummary] = field(default_factory=list)
    segments: list[TelemetrySinkSegment] = field(default_factory=list)


def read_telemetry_sink_manifest(path: str | Path) -> TelemetrySinkManifest | None:
    """The manifest of a sink, for any path into it; None when there is none to read."""
    fields = _core.read_manifest(path)
    if fields is None:
        return None
    return TelemetrySinkManifest(
        schema_version=fields["schema_version"],
        format=fields["format"],
        sessions=[SessionSummary(**summary) for summary in fields["sessions"]],
        segments=[TelemetrySinkSegment(**segment) for segment in fields["segments"]],
    )


def resolve_telemetry_sink_manifest_path(path: str | Path) -> Path | None:
    """Where the manifest of a sink is, for any path into the sink."""
    return _core.manifest_path(path)


def resolve_telemetry_sink_segment_paths(path: str | Path) -> list[Path]:
    """The segment files of a sink, for any path into it."""
    return _core.segment_paths(path)
