"""Issues: the same problem recognized across events, sessions and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from . import _core
from ._kinds import IssueKind
from ._readonly import ReadOnlyDict
from .errors import InvalidValueError

__all__ = [
    "ISSUE_FINGERPRINT_SCHEMA_VERSION",
    "ISSUE_STATE_IGNORED",
    "ISSUE_STATE_OPEN",
    "ISSUE_STATE_REGRESSED",
    "ISSUE_STATE_RESOLVED",
    "IssueEvidenceLink",
    "IssueFingerprint",
    "IssueKind",
    "IssueState",
    "StormlogIssue",
    "categorize_alert_context",
    "freeze_dimensions",
    "json_safe_dimensions",
    "normalize_dimensions",
    "normalize_issue_state",
    "normalize_text_dimension",
    "normalized_error_stem",
]

IssueState = Literal["open", "resolved", "ignored", "regressed"]

ISSUE_FINGERPRINT_SCHEMA_VERSION = 1
ISSUE_STATE_OPEN: IssueState = "open"
ISSUE_STATE_RESOLVED: IssueState = "resolved"
ISSUE_STATE_IGNORED: IssueState = "ignored"
ISSUE_STATE_REGRESSED: IssueState = "regressed"


@dataclass(frozen=True)
class IssueFingerprint:
    """The identity of a problem: its kind and a few properties (dimensions) that stay the same."""

    kind: IssueKind
    dimensions: Mapping[str, Any]
    schema_version: int = ISSUE_FINGERPRINT_SCHEMA_VERSION

    def __post_init__(self) -> None:
        _core.issue_kind(self.kind)
        if self.schema_version < 1:
            raise InvalidValueError("schema_version must be >= 1")
        normalized = freeze_dimensions(normalize_dimensions(self.dimensions))
        object.__setattr__(self, "dimensions", normalized)

    @property
    def fingerprint_id(self) -> str:
        """The id; the same problem has the same id in every run."""
        return _core.fingerprint_id(self.kind, self.dimensions, self.schema_version)

    def as_dict(self) -> dict[str, Any]:
        """The fingerprint as plain JSON data."""
        return {
            "schema_version": self.schema_version,
            "fingerprint_id": self.fingerprint_id,
            "kind": self.kind,
            "dimensions": json_safe_dimensions(self.dimensions),
        }


@dataclass(frozen=True)
class IssueEvidenceLink:
    """Where an issue was seen once: the session, time, rank and file."""

    session_id: str | None = None
    timestamp_ns: int | None = None
    rank: int | None = None
    source_path: str | None = None
    source_kind: str | None = None
    event_type: str | None = None
    bundle_path: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", dict(self.metadata))

    def as_dict(self) -> dict[str, Any]:
        """The link as plain JSON data."""
        return {**vars(self), "metadata": dict(self.metadata)}


@dataclass(frozen=True)
class StormlogIssue:
    """One problem with all its evidence."""

    fingerprint: IssueFingerprint
    title: str
    severity: str
    hit_count: int
    first_seen_ns: int | None
    last_seen_ns: int | None
    affected_sessions: Sequence[str]
    representative_evidence: IssueEvidenceLink
    evidence: Sequence[IssueEvidenceLink]
    state: IssueState = ISSUE_STATE_OPEN
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", normalize_issue_state(self.state))
        if self.hit_count < 1:
            raise InvalidValueError("hit_count must be >= 1")
        object.__setattr__(
            self,
            "affected_sessions",
            tuple(sorted({session for session in self.affected_sessions if session})),
        )
        object.__setattr__(self, "evidence", tuple(self.evidence))
        object.__setattr__(self, "details", dict(self.details))

    @property
    def fingerprint_id(self) -> str:
        """The id of the fingerprint."""
        return self.fingerprint.fingerprint_id

    @property
    def kind(self) -> IssueKind:
        """The kind of the issue, such as ``oom``."""
        return self.fingerprint.kind

    def as_dict(self) -> dict[str, Any]:
        """The issue as plain JSON data."""
        return {
            "fingerprint_id": self.fingerprint_id,
            "fingerprint": self.fingerprint.as_dict(),
            "kind": self.kind,
            "state": self.state,
            "severity": self.severity,
            "title": self.title,
            "hit_count": self.hit_count,
            "first_seen_ns": self.first_seen_ns,
            "last_seen_ns": self.last_seen_ns,
            "affected_sessions": list(self.affected_sessions),
            "representative_evidence": self.representative_evidence.as_dict(),
            "evidence": [link.as_dict() for link in self.evidence],
            "details": dict(self.details),
        }


def normalize_issue_state(state: str) -> IssueState:
    """The state in the spelling that files use, such as ``issues.json``. Raises ``ValueError`` when there is no such state."""
    return cast(IssueState, _core.issue_state(state))


def normalize_text_dimension(value: object, *, default: str = "unknown") -> str:
    """Normalize a label, so that it is the same in every run. Addresses and numbers become
    placeholders, letters become lower case, and white space becomes single spaces. A blank label
    becomes ``default``."""
    label = _core.normalize_text(value)
    return default if label is None else label


def normalize_dimensions(dimensions: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the parts of the dimensions that change from run to run, such as numbers in texts, by
    placeholders, and sort the keys."""
    return _core.normalize_dimensions(dimensions)


def freeze_dimensions(dimensions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The dimensions as a read-only mapping with sorted keys; lists become tuples."""
    return ReadOnlyDict({key: _freeze(dimensions[key]) for key in sorted(dimensions)})


def json_safe_dimensions(dimensions: Mapping[str, Any]) -> dict[str, Any]:
    """The result of ``freeze_dimensions`` as plain dictionaries and lists."""
    return {key: _thaw(dimensions[key]) for key in sorted(dimensions)}


def categorize_alert_context(context: object) -> str:
    """The category of an alert, from its text; it is a dimension of the alert's issue."""
    return _core.alert_category(context)


def normalized_error_stem(error: object) -> str:
    """The part of an error text that identifies the error: the normalized text before the first
    colon."""
    return _core.error_stem(error)


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return freeze_dimensions(value)
    if isinstance(value, list):
        return tuple(_freeze(item) for item in value)
    return value


def _thaw(value: Any) -> Any:
    if isinstance(value, Mapping):
        return json_safe_dimensions(value)
    if isinstance(value, tuple):
        return [_thaw(item) for item in value]
    return value
