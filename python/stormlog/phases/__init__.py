"""Phases of a training loop: the events that enter and leave them, and the phase at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from .._analysis_input import metadata_of, rows_or_objects
from .._phase_writer import (
    PHASE_ENTER_EVENT,
    PHASE_EXIT_EVENT,
    PHASE_SCOPE_ATTRIBUTES_KEY,
    PHASE_SCOPE_METADATA_KEY,
    PhaseBoundary,
    PhaseHandle,
    PhaseProtocolError,
    PhaseRecorder,
    PhaseToken,
)
from ..errors import InvalidValueError

__all__ = [
    "PHASE_ENTER_EVENT",
    "PHASE_EXIT_EVENT",
    "PHASE_SCOPE_ATTRIBUTES_KEY",
    "PHASE_SCOPE_METADATA_KEY",
    "PhaseAttribution",
    "PhaseBoundary",
    "PhaseBoundaryRecord",
    "PhaseHandle",
    "PhaseProtocolError",
    "PhaseRecorder",
    "PhaseReplayIndex",
    "PhaseSpan",
    "PhaseSummary",
    "PhaseToken",
    "attribute_active_spans",
    "format_phase_path",
    "is_phase_boundary_event",
    "merge_phase_attributions",
    "parse_phase_boundary",
    "phase_attribution_to_payload",
    "resolve_phase_for_event",
    "summarize_phase_attribution",
    "summarize_phase_resolution",
]

_STRATEGY = "deepest_per_thread"


@dataclass(frozen=True)
class PhaseSummary:
    """The most likely of several phases, and what this choice is based on."""

    phase_path: str
    source: str


@dataclass(frozen=True)
class PhaseAttribution:
    """The phase that was active at a time, or all phases that may have been active.

    ``phase_resolution`` is how the phase was found; ``phase_path`` is the phase, and
    ``phase_paths`` are all phases that come into question.
    """

    phase_resolution: str
    phase_source: str | None = None
    phase_path: str | None = None
    phase_paths: list[str] = field(default_factory=list)
    scope_id: str | None = None
    thread_id: int | None = None
    thread_name: str | None = None
    phase_summary: PhaseSummary | None = None


@dataclass(frozen=True)
class PhaseBoundaryRecord:
    """An event that enters or leaves a phase."""

    action: str
    name: str
    path: tuple[str, ...]
    depth: int
    scope_id: str
    parent_scope_id: str | None
    thread_id: int
    thread_name: str
    sequence: int
    session_id: str
    timestamp_ns: int
    attributes: dict[str, Any]


@dataclass(frozen=True)
class PhaseSpan:
    """The time between entering a phase and leaving it."""

    session_id: str
    rank: int
    thread_id: int
    thread_name: str
    scope_id: str
    path: tuple[str, ...]
    start_ns: int
    end_ns: int
    sequence: int
    synthetic_end: bool = False

    @property
    def depth(self) -> int:
        """How many phases are nested at this phase, itself included."""
        return len(self.path)


class PhaseReplayIndex:
    """All phases of the given events; finds the phase at a time."""

    def __init__(self, intervals_by_group: Mapping[tuple[str, int], Sequence[PhaseSpan]]) -> None:
        groups = [(group, list(spans)) for group, spans in intervals_by_group.items()]
        self._replay = _core.PhaseReplay.of_spans(groups)

    @classmethod
    def from_events(cls, events: Sequence[Any]) -> PhaseReplayIndex:
        """Make the index from the events that enter and leave phases. ``events`` may also contain
        other events, as objects or mappings."""
        index = cls.__new__(cls)
        index._replay = _core.PhaseReplay.of_events(rows_or_objects(events))
        return index

    def spans_for(self, *, session_id: str, rank: int | None = None) -> list[PhaseSpan]:
        """The spans of a session's phases, of one rank or, if ``rank`` is None, of all ranks."""
        return [PhaseSpan(*fields) for fields in self._replay.spans(session_id, rank)]

    def active_spans(
        self, *, timestamp_ns: int, session_id: str, rank: int | None = None
    ) -> list[PhaseSpan]:
        """The spans of a session's phases that contain a time, of one rank or of all ranks."""
        active = self._replay.active(int(timestamp_ns), session_id, rank)
        return [PhaseSpan(*fields) for fields in active]

    def resolve(
        self,
        *,
        timestamp_ns: int,
        session_id: str | None,
        rank: int | None = None,
        origin_thread_id: int | None = None,
        origin_phase_scope_id: str | None = None,
    ) -> PhaseAttribution | None:
        """The phase of a session and rank at a time; None outside of all phases."""
        return attribution_of(
            self._replay.resolve(
                int(timestamp_ns), session_id, rank, origin_thread_id, origin_phase_scope_id
            )
        )

    def resolve_for_event(self, event: Any) -> PhaseAttribution | None:
        """The phase in which an event happened; None outside of all phases."""
        return attribution_of(self._replay.resolve_event(event))


def resolve_phase_for_event(index: PhaseReplayIndex, event: Any) -> PhaseAttribution | None:
    """The phase in which an event happened; None outside of all phases."""
    return index.resolve_for_event(event)


def parse_phase_boundary(event: Any) -> PhaseBoundaryRecord | None:
    """The start or the end of a phase that an event records; None for any other event."""
    fields = _core.phase_boundary(event)
    if fields is None:
        return None
    attributes = metadata_of(event)[PHASE_SCOPE_METADATA_KEY].get(PHASE_SCOPE_ATTRIBUTES_KEY)
    attributes = dict(attributes) if isinstance(attributes, Mapping) else {}
    return PhaseBoundaryRecord(**fields, attributes=attributes)


def is_phase_boundary_event(event: Any) -> bool:
    """Whether an event enters or leaves a phase."""
    return _core.phase_boundary(event) is not None


def attribute_active_spans(
    spans: Sequence[PhaseSpan],
    *,
    strategy: str = _STRATEGY,
    origin_thread_id: int | None = None,
    origin_phase_scope_id: str | None = None,
) -> PhaseAttribution | None:
    """The phase at a time, chosen from ``spans``, the spans that contain this time."""
    if strategy != _STRATEGY:
        raise InvalidValueError(f"Unsupported phase attribution strategy: {strategy}")
    return attribution_of(
        _core.attribute_phase(list(spans), origin_thread_id, origin_phase_scope_id)
    )


def merge_phase_attributions(
    first: PhaseAttribution | None, second: PhaseAttribution | None
) -> PhaseAttribution | None:
    """Merge the attributions of two events into one. If their phases differ, the result lists the
    phases of both."""
    if first is None or second is None:
        return second if first is None else first
    return attribution_of(_core.merge_phases(first, second))


def phase_attribution_to_payload(attribution: PhaseAttribution | None) -> dict[str, Any] | None:
    """The attribution as the dictionary that reports contain; unknown values are left out."""
    if attribution is None:
        return None
    payload: dict[str, Any] = {
        "phase_resolution": attribution.phase_resolution,
        "phase_paths": [path for path in attribution.phase_paths if path],
    }
    for name in ("phase_source", "phase_path", "scope_id", "thread_id", "thread_name"):
        value = getattr(attribution, name)
        if value is not None:
            payload[name] = value
    summary = attribution.phase_summary
    if summary is not None:
        payload["phase_summary"] = {"phase_path": summary.phase_path, "source": summary.source}
    return payload


def summarize_phase_attribution(attribution: PhaseAttribution | None) -> str | None:
    """The attribution as one line of text."""
    return None if attribution is None else _core.phase_label(attribution)


def summarize_phase_resolution(
    *,
    phase_resolution: str | None,
    phase_path: str | None = None,
    phase_paths: Sequence[str] | None = None,
) -> str | None:
    """How a phase was resolved (``phase_resolution``) and the phases found, as one line of text."""
    if phase_resolution is None:
        return None
    paths = [path for path in phase_paths or () if path]
    return _core.phase_label(PhaseAttribution(phase_resolution, None, phase_path, paths))


def format_phase_path(path: Sequence[str]) -> str:
    """The names of a path of phases as one text, such as ``train / forward``."""
    return " / ".join(name for name in path if name)


def attribution_of(fields: dict[str, Any] | None) -> PhaseAttribution | None:
    """Convert the fields that the Rust core returns to a :class:`PhaseAttribution`."""
    if fields is None:
        return None
    if fields["phase_summary"] is not None:
        fields["phase_summary"] = PhaseSummary(*fields["phase_summary"])
    return PhaseAttribution(**fields)


def resolver_of(phase_resolver: Any) -> Any:
    """The object that the Rust core asks for the phase of an event: the core's own index behind a
    :class:`PhaseReplayIndex`, or the given object itself."""
    ours = type(phase_resolver) is PhaseReplayIndex
    return phase_resolver._replay if ours else phase_resolver
