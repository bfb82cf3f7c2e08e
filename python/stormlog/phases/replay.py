"""Reconstructs phases from recorded events."""

from __future__ import annotations

from . import (
    PHASE_ENTER_EVENT,
    PHASE_EXIT_EVENT,
    PHASE_SCOPE_ATTRIBUTES_KEY,
    PHASE_SCOPE_METADATA_KEY,
    PhaseBoundaryRecord,
    PhaseReplayIndex,
    PhaseSpan,
    is_phase_boundary_event,
    parse_phase_boundary,
)

__all__ = [
    "PHASE_ENTER_EVENT",
    "PHASE_EXIT_EVENT",
    "PHASE_SCOPE_ATTRIBUTES_KEY",
    "PHASE_SCOPE_METADATA_KEY",
    "PhaseBoundaryRecord",
    "PhaseReplayIndex",
    "PhaseSpan",
    "is_phase_boundary_event",
    "parse_phase_boundary",
]
