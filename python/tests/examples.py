"""A valid object of every class, for tests that need any one."""

from __future__ import annotations

from typing import Any

from stormlog.issues import IssueEvidenceLink, IssueFingerprint, StormlogIssue
from stormlog.session import SessionSummary
from stormlog.telemetry import TelemetryEventV2, TelemetryEventV3, TelemetryEventV4
from stormlog.telemetry_model import ProjectedTelemetryRecord, project_telemetry_mapping

RECORD: dict[str, Any] = dict(
    schema_version=3, session_id="s", timestamp_ns=5, event_type="sample", collector="c",
    sampling_interval_ms=1, pid=1, host="h", job_id=None, rank=0, local_rank=0, world_size=1,
    device_id=0, allocator_allocated_bytes=1, allocator_reserved_bytes=2, allocator_active_bytes=1,
    allocator_inactive_bytes=None, allocator_change_bytes=-1, device_used_bytes=1,
    device_free_bytes=9, device_total_bytes=10, context=None, metadata={"loss": [0.5, {"a": 1}]},
)  # fmt: skip


def record(**changes: Any) -> dict[str, Any]:
    return {**RECORD, **changes}


def event() -> TelemetryEventV3:
    return TelemetryEventV3(**RECORD)


def event_v2() -> TelemetryEventV2:
    fields = {key: value for key, value in RECORD.items() if key != "session_id"}
    return TelemetryEventV2(**{**fields, "schema_version": 2})


def event_v4() -> TelemetryEventV4:
    metadata = {"memory_capabilities": {"supports_device_total": True}}
    return TelemetryEventV4(**record(schema_version=4, device_used_bytes=None, metadata=metadata))


def summary() -> SessionSummary:
    return SessionSummary("s", "completed", 5, 9, "h", 1)


def projected() -> ProjectedTelemetryRecord:
    return project_telemetry_mapping(RECORD)


def fingerprint() -> IssueFingerprint:
    return IssueFingerprint(kind="oom", dimensions={"backend": "cuda", "parts": [2, {"x": 1}]})


def issue() -> StormlogIssue:
    link = IssueEvidenceLink(session_id="s", metadata={"k": [1]})
    return StormlogIssue(fingerprint(), "t", "critical", 1, 5, None, ["s"], link, [link])
