"""Runs: sessions that an envelope describes, or that have the same run id or job id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from . import _core

__all__ = [
    "RUN_ENVELOPE_FILENAME",
    "RUN_ENVELOPE_FORMAT",
    "RUN_ENVELOPE_SCHEMA_VERSION",
    "AttachmentStorage",
    "CatalogRunAttachment",
    "CatalogRunSessionRef",
    "is_run_envelope",
    "run_envelope_from_payload",
]

AttachmentStorage = Literal["reference", "copy"]

RUN_ENVELOPE_FILENAME = "stormlog_run.json"
RUN_ENVELOPE_FORMAT = "stormlog.run_envelope"
RUN_ENVELOPE_SCHEMA_VERSION = 1


@dataclass(frozen=True)
class CatalogRunSessionRef:
    """A session that an envelope lists."""

    session_id: str
    job_id: str | None
    rank: int | None
    local_rank: int | None
    world_size: int | None
    role: str | None
    source_namespace: str | None
    source_ref: str | None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The entry as plain JSON data."""
        return {**vars(self), "metadata": dict(self.metadata)}


@dataclass(frozen=True)
class CatalogRunAttachment:
    """An attachment that an envelope lists."""

    title: str
    kind: str
    storage: AttachmentStorage
    attachment_id: str | None
    url: str | None
    path: str | None
    run_id: str | None
    session_id: str | None
    job_id: str | None
    rank: int | None
    local_rank: int | None
    world_size: int | None
    start_ns: int | None
    end_ns: int | None
    created_at_utc: str | None
    updated_at_utc: str | None
    source_namespace: str | None
    source_ref: str | None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The entry as plain JSON data."""
        return {**vars(self), "metadata": dict(self.metadata)}


@dataclass(frozen=True)
class CatalogRunEnvelope:
    """A run described by an envelope (``stormlog_run.json``)."""

    run_id: str
    path: Path
    title: str | None
    description: str | None
    job_id: str | None
    started_at_ns: int | None
    ended_at_ns: int | None
    created_at_utc: str | None
    updated_at_utc: str | None
    source_namespace: str | None
    source_ref: str | None
    tags: tuple[str, ...]
    sessions: tuple[CatalogRunSessionRef, ...]
    attachments: tuple[CatalogRunAttachment, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The envelope as plain JSON data."""
        return {
            **vars(self),
            "path": str(self.path),
            "tags": list(self.tags),
            "sessions": [session.as_dict() for session in self.sessions],
            "attachments": [attachment.as_dict() for attachment in self.attachments],
            "metadata": dict(self.metadata),
        }


@dataclass(frozen=True)
class RunFilter:
    """Filter of runs; ``None`` matches everything."""

    run_id: str | None = None
    session_id: str | None = None
    job_id: str | None = None
    rank: int | None = None
    source_namespace: str | None = None
    source_ref: str | None = None


@dataclass(frozen=True)
class RunAttachmentFilter:
    """Filter of attachments of runs; ``None`` matches everything."""

    run_id: str | None = None
    session_id: str | None = None
    job_id: str | None = None
    rank: int | None = None
    kind: str | None = None
    source_namespace: str | None = None
    source_ref: str | None = None


@dataclass(frozen=True)
class RunRow:
    """A run; ``explicit`` says whether an envelope describes it.

    ``run_id`` is the id in the envelope, otherwise the run id that the sessions recorded, otherwise
    ``job:`` and the job id or ``session:`` and the session id.
    """

    run_id: str
    explicit: bool
    title: str | None
    description: str | None
    job_id: str | None
    started_at_ns: int | None
    ended_at_ns: int | None
    source_path: str
    source_kind: str
    source_namespace: str | None
    source_ref: str | None
    session_count: int
    attachment_count: int
    sessions: tuple[str, ...]
    ranks: tuple[int, ...]
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The row as plain JSON data."""
        return {
            **vars(self),
            "sessions": list(self.sessions),
            "ranks": list(self.ranks),
            "tags": list(self.tags),
            "metadata": dict(self.metadata),
        }


@dataclass(frozen=True)
class RunAttachmentRow:
    """An attachment of a run."""

    run_id: str
    title: str
    kind: str
    storage: AttachmentStorage
    attachment_id: str | None
    url: str | None
    path: str | None
    session_id: str | None
    job_id: str | None
    rank: int | None
    local_rank: int | None
    world_size: int | None
    start_ns: int | None
    end_ns: int | None
    source_path: str
    source_kind: str
    source_namespace: str | None
    source_ref: str | None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The row as plain JSON data."""
        return {**vars(self), "metadata": dict(self.metadata)}


def is_run_envelope(payload: Mapping[str, Any]) -> bool:
    """Whether a JSON object declares that it is a run envelope of a version that Stormlog reads."""
    return _core.is_run_envelope(payload)


def run_envelope_from_payload(
    payload: Mapping[str, Any], envelope_path: Path
) -> CatalogRunEnvelope | None:
    """The run envelope in a JSON object; ``None`` when any part of it is invalid."""
    fields = _core.read_run_envelope(payload, envelope_path)
    return None if fields is None else envelope_of_fields(fields)


def envelope_of_fields(fields: dict[str, Any]) -> CatalogRunEnvelope:
    """The envelope with the given fields, which the Rust core has read."""
    attachments = (CatalogRunAttachment(**entry) for entry in fields["attachments"])
    sessions = (CatalogRunSessionRef(**entry) for entry in fields["sessions"])
    return CatalogRunEnvelope(
        **{
            **fields,
            "path": Path(fields["path"]),
            "tags": tuple(fields["tags"]),
            "sessions": tuple(sessions),
            "attachments": tuple(attachments),
        }
    )
