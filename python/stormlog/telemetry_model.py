"""Projects records: converts them to the form that telemetry tools expect, with resource (the
source), attributes (the measurements) and correlation (session, job and phase)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from . import _core
from ._readonly import freeze, thaw

__all__ = [
    "TELEMETRY_PROJECTION_SCHEMA_VERSION",
    "ProjectedTelemetryRecord",
    "project_telemetry_mapping",
    "projected_record_to_dict",
    "unique_projected_correlations",
    "unique_projected_resources",
]

TELEMETRY_PROJECTION_SCHEMA_VERSION: Literal[1] = 1


@dataclass(frozen=True)
class ProjectedTelemetryRecord:
    """A record in the form that telemetry tools expect; its mappings are read-only."""

    schema_version: Literal[1]
    record_id: str
    timestamp_ns: int
    observed_timestamp_ns: int
    session_id: str
    source_kind: str
    event_type: str
    stage: str | None
    severity: str | None
    severity_text: str | None
    body: str | None
    resource: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    correlation: Mapping[str, Any] = field(default_factory=dict)


def project_telemetry_mapping(
    record: Mapping[str, Any], *, observed_timestamp_ns: int | None = None
) -> ProjectedTelemetryRecord:
    """Project a record of any schema version; the record must have a session id."""
    projected = _core.project(record, observed_timestamp_ns)
    for name in ("resource", "attributes", "correlation"):
        projected[name] = freeze(projected[name])
    return ProjectedTelemetryRecord(**projected)


def projected_record_to_dict(record: ProjectedTelemetryRecord) -> dict[str, Any]:
    """The projected record as plain dictionaries and lists."""
    return {item.name: thaw(getattr(record, item.name)) for item in fields(record)}


def unique_projected_resources(records: Iterable[ProjectedTelemetryRecord]) -> list[dict[str, Any]]:
    """The resources of the records, each once, in the order of their first appearance."""
    return _unique([record.resource for record in records])


def unique_projected_correlations(
    records: Iterable[ProjectedTelemetryRecord],
) -> list[dict[str, Any]]:
    """The correlations of the records, each once, in the order of their first appearance."""
    return _unique([record.correlation for record in records])


def _unique(views: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [thaw(views[place]) for place in _core.distinct(views)]
