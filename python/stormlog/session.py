"""Sessions (the events that have one session id): their summaries, and which session is used when
none is requested."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, TypeVar

from . import _core

__all__ = [
    "SESSION_STATUSES",
    "SESSION_STATUS_COMPLETED",
    "SESSION_STATUS_INCOMPLETE",
    "SESSION_STATUS_INTERRUPTED",
    "SESSION_STATUS_RUNNING",
    "SessionSummary",
    "create_session_summary",
    "finalize_session_summary",
    "infer_session_summary_from_events",
    "new_session_id",
    "normalize_session_status",
    "now_ns",
    "select_default_loaded_session",
    "select_default_session",
    "session_summary_from_dict",
    "session_summary_to_dict",
    "sort_session_summaries",
    "stable_legacy_session_id",
    "update_session_summary",
]

SESSION_STATUS_RUNNING = "running"
SESSION_STATUS_COMPLETED = "completed"
SESSION_STATUS_INTERRUPTED = "interrupted"
SESSION_STATUS_INCOMPLETE = "incomplete"
SESSION_STATUSES = frozenset(
    (
        SESSION_STATUS_RUNNING,
        SESSION_STATUS_COMPLETED,
        SESSION_STATUS_INTERRUPTED,
        SESSION_STATUS_INCOMPLETE,
    )
)

_UNCHANGED = object()


@dataclass(frozen=True)
class SessionSummary:
    """What a manifest states about a session: id, status, times, process and source."""

    session_id: str
    status: str
    started_at_ns: int
    ended_at_ns: int | None
    host: str
    pid: int
    job_id: str | None = None
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    source: str = "stormlog.session"


class _HasSummary(Protocol):
    @property
    def summary(self) -> SessionSummary: ...


_SessionLike = TypeVar("_SessionLike", bound="SessionSummary | _HasSummary")


def now_ns() -> int:
    """The current time in nanoseconds since 1970."""
    return time.time_ns()


def new_session_id() -> str:
    """A new random session id."""
    return _core.new_session_id()


def stable_legacy_session_id(*parts: object) -> str:
    """An id for a session that was recorded without one, computed from ``parts``. The same parts
    give the same id."""
    return _core.stable_legacy_session_id(parts)


def normalize_session_status(value: object) -> str:
    """The status, spelled as in files. Raises ``ValueError`` when there is no such status."""
    return _core.normalize_session_status(value)


def create_session_summary(
    *,
    source: str,
    status: str = SESSION_STATUS_RUNNING,
    session_id: str | None = None,
    started_at_ns: int | None = None,
    ended_at_ns: int | None = None,
    host: str | None = None,
    pid: int | None = None,
    job_id: str | None = None,
    rank: int = 0,
    local_rank: int = 0,
    world_size: int = 1,
) -> SessionSummary:
    """Make the summary of a session. Host, process id and start time are those of this process and
    its clock if they are not given."""
    integer = _core.session_integer
    status = normalize_session_status(status)
    started = now_ns() if started_at_ns is None else integer(started_at_ns, "started_at_ns")
    pid = os.getpid() if pid is None else integer(pid, "pid")
    return SessionSummary(
        session_id=session_id or new_session_id(),
        status=status,
        started_at_ns=started,
        ended_at_ns=None if ended_at_ns is None else integer(ended_at_ns, "ended_at_ns"),
        host=host or socket.gethostname(),
        pid=pid,
        job_id=job_id,
        rank=integer(rank, "rank"),
        local_rank=integer(local_rank, "local_rank"),
        world_size=max(1, integer(world_size, "world_size")),
        source=source,
    )


def update_session_summary(
    summary: SessionSummary,
    *,
    status: str | None = None,
    ended_at_ns: int | object | None = _UNCHANGED,
    source: str | None = None,
) -> SessionSummary:
    """A copy of the summary with the given values changed."""
    changes: dict[str, Any] = {}
    if status is not None:
        changes["status"] = normalize_session_status(status)
    if ended_at_ns is None:
        changes["ended_at_ns"] = None
    elif ended_at_ns is not _UNCHANGED:
        changes["ended_at_ns"] = _core.session_integer(ended_at_ns, "ended_at_ns")
    if source is not None:
        changes["source"] = source
    return replace(summary, **changes)


def finalize_session_summary(
    summary: SessionSummary, *, ended_at_ns: int | None = None
) -> SessionSummary:
    """A copy of the summary with an end time. The status ``running`` becomes ``completed``; any
    other status is kept."""
    running = summary.status == SESSION_STATUS_RUNNING
    return update_session_summary(
        summary,
        status=SESSION_STATUS_COMPLETED if running else summary.status,
        ended_at_ns=now_ns() if ended_at_ns is None else ended_at_ns,
    )


def infer_session_summary_from_events(
    *,
    session_id: str,
    events: Iterable[Any],
    source: str,
    fallback_status: str = SESSION_STATUS_INCOMPLETE,
) -> SessionSummary:
    """The summary of the session to which events belong. Host, process, job and rank are those of
    the earliest event, and a stop event marks the end of the session."""
    rows = list(events)
    span = _core.session_span(
        [(row.timestamp_ns, getattr(row, "event_type", None)) for row in rows], fallback_status
    )
    if span is None:
        return create_session_summary(source=source, status=fallback_status, session_id=session_id)
    place, started_at_ns, ended_at_ns, status = span
    first = rows[place]
    return create_session_summary(
        source=source,
        status=status,
        session_id=session_id,
        started_at_ns=started_at_ns,
        ended_at_ns=ended_at_ns,
        host=str(getattr(first, "host", "unknown")),
        pid=_core.session_integer(getattr(first, "pid", -1), "pid"),
        job_id=getattr(first, "job_id", None),
        rank=getattr(first, "rank", 0),
        local_rank=getattr(first, "local_rank", 0),
        world_size=getattr(first, "world_size", 1),
    )


def session_summary_from_dict(payload: Mapping[str, Any]) -> SessionSummary:
    """The summary from an object of a manifest or of another JSON file."""
    return SessionSummary(**_core.session_from_mapping(payload))


def session_summary_to_dict(summary: SessionSummary) -> dict[str, Any]:
    """The summary as a dictionary, in the form and the order of keys in which files contain it."""
    return asdict(summary)


def sort_session_summaries(summaries: Iterable[SessionSummary]) -> list[SessionSummary]:
    """The summaries in the order in which a session is chosen when none is requested: completed,
    interrupted, incomplete, running; of the same status, the latest first."""
    rows = list(summaries)
    return [rows[place] for place in _core.session_order(rows)]


def select_default_session(sessions: Iterable[_SessionLike]) -> _SessionLike | None:
    """The session that is used when none is requested; ``None`` when ``sessions`` is empty."""
    rows = list(sessions)
    summaries = [row if isinstance(row, SessionSummary) else row.summary for row in rows]
    order = _core.session_order(summaries)
    return rows[order[0]] if order else None


def select_default_loaded_session(sessions: Iterable[Any]) -> Any | None:
    """The loaded session that is used when none is requested. A session without events is used only
    if none has events."""
    rows = list(sessions)
    return select_default_session([row for row in rows if row.events] or rows)
