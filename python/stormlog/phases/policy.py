"""Finds which phase is active at a time, and describes the phase for reports."""

from __future__ import annotations

from . import (
    PhaseAttribution,
    PhaseSummary,
    attribute_active_spans,
    format_phase_path,
    merge_phase_attributions,
    phase_attribution_to_payload,
    resolve_phase_for_event,
    summarize_phase_attribution,
    summarize_phase_resolution,
)

__all__ = [
    "PhaseAttribution",
    "PhaseSummary",
    "attribute_active_spans",
    "format_phase_path",
    "merge_phase_attributions",
    "phase_attribution_to_payload",
    "resolve_phase_for_event",
    "summarize_phase_attribution",
    "summarize_phase_resolution",
]
