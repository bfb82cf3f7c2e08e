"""Types for correlation, which finds what else happened around a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import InvalidValueError

__all__ = [
    "ATTACHMENTS_FILENAME",
    "ATTACHMENTS_FORMAT",
    "ATTACHMENTS_SCHEMA_VERSION",
    "CLOCK_DOMAIN_UNIX_EPOCH_NS",
    "CLOCK_NORMALIZATION_PRODUCER_EPOCH_NS",
    "DEFAULT_CORRELATION_WINDOW_NS",
    "AttachmentFilter",
    "CorrelationEvidence",
    "CorrelationFilter",
    "CorrelationResult",
    "CorrelationScope",
    "ExternalAttachment",
]

CorrelationScope = Literal["session", "distributed"]

ATTACHMENTS_FILENAME = "stormlog_attachments.json"
ATTACHMENTS_FORMAT = "stormlog.attachments"
ATTACHMENTS_SCHEMA_VERSION = 1
CLOCK_DOMAIN_UNIX_EPOCH_NS = "unix_epoch_ns"
CLOCK_NORMALIZATION_PRODUCER_EPOCH_NS = "producer_emitted_epoch_ns"
DEFAULT_CORRELATION_WINDOW_NS = 60_000_000_000


@dataclass(frozen=True)
class AttachmentFilter:
    """Filter of attachments (links to data of other tools); ``None`` matches everything."""

    session_id: str | None = None
    job_id: str | None = None
    rank: int | None = None
    kind: str | None = None


@dataclass(frozen=True)
class CorrelationFilter:
    """The moment around which to look for evidence, and which evidence to list.

    ``at_ns`` is the moment in nanoseconds since 1970; ``record_id`` names an event at the moment
    instead. Evidence more than ``window_ns`` nanoseconds away is left out.
    """

    session_id: str | None = None
    job_id: str | None = None
    rank: int | None = None
    scope: CorrelationScope = "session"
    at_ns: int | None = None
    record_id: str | None = None
    window_ns: int = DEFAULT_CORRELATION_WINDOW_NS
    kinds: tuple[str, ...] = ()
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.scope not in ("session", "distributed"):
            raise InvalidValueError("scope must be 'session' or 'distributed'")
        if self.window_ns < 0:
            raise InvalidValueError("window_ns must be >= 0")
        if self.limit is not None and self.limit < 0:
            raise InvalidValueError("limit must be >= 0")


@dataclass(frozen=True)
class ExternalAttachment:
    """A link from a run or session to data of another tool, such as a log or a dashboard."""

    title: str
    kind: str
    attachment_id: str | None
    url: str | None
    path: str | None
    session_id: str | None
    job_id: str | None
    rank: int | None
    start_ns: int | None
    end_ns: int | None
    created_at_utc: str | None
    updated_at_utc: str | None
    metadata: Mapping[str, Any]
    sidecar_path: str
    run_id: str | None = None
    storage: str | None = None
    source_namespace: str | None = None
    source_ref: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The attachment as plain JSON data."""
        return {
            "title": self.title,
            "kind": self.kind,
            "attachment_id": self.attachment_id,
            "url": self.url,
            "path": self.path,
            "run_id": self.run_id,
            "session_id": self.session_id,
            "job_id": self.job_id,
            "rank": self.rank,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "created_at_utc": self.created_at_utc,
            "updated_at_utc": self.updated_at_utc,
            "storage": self.storage,
            "source_namespace": self.source_namespace,
            "source_ref": self.source_ref,
            "metadata": dict(self.metadata),
            "sidecar_path": self.sidecar_path,
        }


@dataclass(frozen=True)
class CorrelationEvidence:
    """Something recorded, such as an event or a bundle, that may be related to a moment."""

    evidence_id: str
    kind: str
    title: str
    session_id: str | None
    job_id: str | None
    rank: int | None
    world_size: int | None
    start_ns: int | None
    end_ns: int | None
    source_path: str
    source_kind: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    confidence: str = "low"
    reasons: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The evidence as plain JSON data."""
        return {**vars(self), "metadata": dict(self.metadata), "reasons": list(self.reasons)}


@dataclass(frozen=True)
class CorrelationResult:
    """A moment and the evidence around it."""

    anchor: Mapping[str, Any]
    evidence: Sequence[CorrelationEvidence] = ()
    warnings: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        """The result as plain JSON data."""
        return {
            "anchor": dict(self.anchor),
            "evidence": [evidence.as_dict() for evidence in self.evidence],
            "warnings": list(self.warnings),
        }
