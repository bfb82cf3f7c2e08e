"""Records phases while a program runs."""

from __future__ import annotations

from . import (
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
