"""Writing phases: stacks of open scopes per thread, and the events that open and close them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import StormlogError

PHASE_ENTER_EVENT = "phase_enter"
PHASE_EXIT_EVENT = "phase_exit"
PHASE_SCOPE_METADATA_KEY = "phase_scope"
PHASE_SCOPE_ATTRIBUTES_KEY = "attributes"


class PhaseProtocolError(StormlogError, RuntimeError):
    """A phase was closed out of order, from another thread, or is not open."""


@dataclass(frozen=True)
class PhaseBoundary:
    """An event that a tracker writes when a phase is entered or left."""

    event_type: str
    context: str
    metadata: dict[str, Any]
    scope_id: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class PhaseToken:
    """What closes a phase."""

    scope_id: str
    session_id: str
    rank: int
    thread_id: int
    name: str


@dataclass(frozen=True)
class _Scope:
    scope_id: str
    parent_scope_id: str | None
    path: tuple[str, ...]
    attributes: dict[str, Any]


class PhaseRecorder:
    """Open phases of a tracker, one stack per session, rank and thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stacks: dict[tuple[str, int, int], list[_Scope]] = {}
        self._sequence = 0

    def reset(self) -> None:
        """Forgets every open phase and starts counting anew."""
        with self._lock:
            self._stacks.clear()
            self._sequence = 0

    def enter(
        self, *, session_id: str, rank: int, name: str, attrs: Mapping[str, Any] | None = None
    ) -> tuple[PhaseToken, PhaseBoundary]:
        """Opens a phase on the calling thread."""
        boundary = self.enter_phase(session_id=session_id, rank=rank, name=name, metadata=attrs)
        thread_id = threading.get_ident()
        return PhaseToken(boundary.scope_id, session_id, rank, thread_id, name), boundary

    def enter_phase(
        self, *, session_id: str, rank: int, name: str, metadata: Mapping[str, Any] | None = None
    ) -> PhaseBoundary:
        """Opens a phase on the calling thread, to be closed by its scope id."""
        stripped = str(name).strip()
        if not stripped:
            # The built-in itself: recorded answers name the class.
            raise ValueError("phase name must be a non-empty string")
        with self._lock:
            stack = self._stacks.setdefault((session_id, rank, threading.get_ident()), [])
            self._sequence += 1
            parent = stack[-1] if stack else None
            scope = _Scope(
                scope_id=f"{session_id}:{self._sequence}",
                parent_scope_id=parent.scope_id if parent else None,
                path=(*(parent.path if parent else ()), stripped),
                attributes=dict(metadata or {}),
            )
            stack.append(scope)
            return _boundary("enter", scope, self._sequence)

    def exit(self, token: PhaseToken) -> PhaseBoundary:
        """Closes a phase; it must be the last one opened on the thread that opened it."""
        if token.thread_id != threading.get_ident():
            raise PhaseProtocolError(
                "Phase handle was closed from a different thread than it was opened."
            )
        return self.exit_phase(
            session_id=token.session_id,
            rank=token.rank,
            scope_id=token.scope_id,
            thread_id=token.thread_id,
        )

    def exit_phase(
        self, *, session_id: str, rank: int, scope_id: str, thread_id: int
    ) -> PhaseBoundary:
        """Closes the phase of a scope id."""
        with self._lock:
            stack = self._stacks.get((session_id, rank, thread_id))
            if not stack:
                raise PhaseProtocolError("No active phase stack exists for this thread.")
            if stack[-1].scope_id != scope_id:
                if self._is_open(session_id, rank, scope_id):
                    raise PhaseProtocolError(
                        "Phase handles must be closed in strict LIFO order per thread."
                    )
                raise PhaseProtocolError(
                    f"Unknown phase scope_id {scope_id!r} for active tracker state."
                )
            scope = stack.pop()
            self._sequence += 1
            return _boundary("exit", scope, self._sequence)

    def _is_open(self, session_id: str, rank: int, scope_id: str) -> bool:
        return any(
            scope.scope_id == scope_id
            for (session, of_rank, _), stack in self._stacks.items()
            if (session, of_rank) == (session_id, rank)
            for scope in stack
        )


class PhaseHandle:
    """An open phase; closing it twice is harmless."""

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
        """The names from the outermost phase to this one."""
        return " / ".join(self.path)

    @property
    def closed(self) -> bool:
        """Whether the phase was closed."""
        return self._closed

    def close(self) -> Any:
        """Closes the phase; nothing happens when it is closed already."""
        if self._closed:
            return None
        result = self._close_callback()
        self._closed = True
        return result

    def __enter__(self) -> PhaseHandle:
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        self.close()


def _boundary(action: str, scope: _Scope, sequence: int) -> PhaseBoundary:
    thread = threading.current_thread()
    details: dict[str, Any] = {
        "action": action,
        "name": scope.path[-1],
        "path": list(scope.path),
        "depth": len(scope.path),
        "scope_id": scope.scope_id,
        "parent_scope_id": scope.parent_scope_id,
        "thread_id": threading.get_ident(),
        "thread_name": thread.name,
        "sequence": sequence,
    }
    if scope.attributes:
        details[PHASE_SCOPE_ATTRIBUTES_KEY] = dict(scope.attributes)
    entering = action == "enter"
    verb = "entered" if entering else "exited"
    return PhaseBoundary(
        event_type=PHASE_ENTER_EVENT if entering else PHASE_EXIT_EVENT,
        context=f"Phase {verb}: {' / '.join(scope.path)}",
        metadata={PHASE_SCOPE_METADATA_KEY: details},
        scope_id=scope.scope_id,
        path=scope.path,
    )
