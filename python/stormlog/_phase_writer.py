"""Makes the events for the beginning and the end of phases, and keeps the stacks of open phases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _core
from .errors import PhaseProtocolError

__all__ = [
    "PHASE_ENTER_EVENT",
    "PHASE_EXIT_EVENT",
    "PHASE_SCOPE_ATTRIBUTES_KEY",
    "PHASE_SCOPE_METADATA_KEY",
    "PhaseBoundary",
    "PhaseHandle",
    "PhaseProtocolError",
    "PhaseRecorder",
    "PhaseToken",
]

PHASE_ENTER_EVENT = "phase_enter"
PHASE_EXIT_EVENT = "phase_exit"
PHASE_SCOPE_METADATA_KEY = "phase_scope"
PHASE_SCOPE_ATTRIBUTES_KEY = "attributes"


@dataclass(frozen=True)
class PhaseToken:
    """Identifies an open phase."""

    scope_id: str
    session_id: str
    rank: int
    thread_id: int
    name: str


@dataclass(frozen=True)
class PhaseBoundary:
    """The content of the event for the beginning or the end of a phase."""

    event_type: str
    context: str
    metadata: dict[str, Any]
    scope_id: str
    path: tuple[str, ...]


class PhaseHandle:
    """An open phase. ``close`` ends it, and so does the end of a ``with`` block with the handle."""

    def __init__(
        self,
        *,
        scope_id: str,
        name: str,
        path: tuple[str, ...],
        close_callback: Callable[[], Any],
    ) -> None:
        self.scope_id = scope_id
        self.name = name
        self.path = path
        self._close_callback = close_callback
        self._closed = False

    @property
    def phase_path(self) -> str:
        """The names of the phases from the outermost to this one, joined with `` / ``."""
        return " / ".join(self.path)

    @property
    def closed(self) -> bool:
        """Whether the phase has ended through this handle."""
        return self._closed

    def close(self) -> Any:
        """End the phase. A second call does nothing."""
        if self._closed:
            return None
        result = self._close_callback()
        self._closed = True
        return result

    def __enter__(self) -> PhaseHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class PhaseRecorder:
    """Keeps a stack of open phases for each session, rank and thread, and makes their events."""

    def __init__(self) -> None:
        self._stacks = _core.PhaseStacks()
        self._attributes: dict[str, dict[str, Any]] = {}

    def reset(self) -> None:
        """Forget all open phases, without events for their ends."""
        self._stacks.reset()
        self._attributes.clear()

    def enter(
        self,
        *,
        session_id: str,
        rank: int,
        name: str,
        attrs: Mapping[str, Any] | None = None,
    ) -> tuple[PhaseToken, PhaseBoundary]:
        """Begin a phase on this thread. Returns the token that ends it, and the event."""
        attributes = dict(attrs or {})
        thread = threading.current_thread()
        thread_id = threading.get_ident()
        fields = self._stacks.enter(
            (str(session_id), str(rank)), str(name), (thread_id, thread.name)
        )
        boundary = self._boundary(fields, attributes)
        self._attributes[boundary.scope_id] = attributes
        token = PhaseToken(boundary.scope_id, session_id, rank, thread_id, name)
        return token, boundary

    def enter_phase(
        self,
        *,
        session_id: str,
        rank: int,
        name: str,
        metadata: Mapping[str, Any] | None = None,
    ) -> PhaseBoundary:
        """Begin a phase on this thread. Returns the event; its ``scope_id`` ends the phase."""
        return self.enter(session_id=session_id, rank=rank, name=name, attrs=metadata)[1]

    def exit(self, token: PhaseToken) -> PhaseBoundary:
        """End a phase and return the event. It must be the innermost open phase of this thread."""
        return self.exit_phase(
            session_id=token.session_id,
            rank=token.rank,
            scope_id=token.scope_id,
            thread_id=threading.get_ident(),
        )

    def exit_phase(
        self, *, session_id: str, rank: int, scope_id: str, thread_id: int
    ) -> PhaseBoundary:
        """End the phase with the id ``scope_id`` and return the event. It must be the innermost
        open phase of the given thread."""
        fields = self._stacks.exit((str(session_id), str(rank)), scope_id, thread_id)
        return self._boundary(fields, self._attributes.pop(scope_id, {}))

    @staticmethod
    def _boundary(fields: _core._PhaseFields, attributes: dict[str, Any]) -> PhaseBoundary:
        event_type, context, scope, scope_id, path = fields
        if attributes:
            scope[PHASE_SCOPE_ATTRIBUTES_KEY] = dict(attributes)
        metadata = {PHASE_SCOPE_METADATA_KEY: scope}
        return PhaseBoundary(event_type, context, metadata, scope_id, tuple(path))
