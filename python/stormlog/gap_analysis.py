"""Findings about the gap: the device memory in use minus what the allocator has reserved. This is
the hidden gap of stormlog 0.3.9."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core
from ._analysis_input import rows_of
from ._compat.legacy_names import legacy_names
from .phases import PhaseAttribution, PhaseReplayIndex
from .telemetry import TelemetryEventV2, TelemetryEventV3

__all__ = ["GapFinding", "analyze_hidden_memory_gaps"]

_THRESHOLDS = (
    "gap_ratio_threshold",
    "gap_spike_zscore",
    "gap_drift_r_squared",
    "gap_fragmentation_ratio",
)


@dataclass
class GapFinding:
    """A finding about the gap between used and reserved memory."""

    classification: str
    severity: str
    confidence: float
    evidence: dict[str, Any]
    description: str
    remediation: list[str]
    evidence_timestamp_ns: int | None = None
    phase_attribution: PhaseAttribution | None = None


def analyze_hidden_memory_gaps(
    events: Sequence[TelemetryEventV2 | TelemetryEventV3],
    thresholds: Mapping[str, float],
    format_memory: Callable[[int], str],
    remediation_by_classification: Mapping[str, list[str]],
    phase_resolver: PhaseReplayIndex | None = None,
) -> list[GapFinding]:
    """Findings about the gap between used and reserved memory, most severe first."""
    if not events:
        return []
    limits = [float(thresholds[name]) for name in _THRESHOLDS]
    findings = []
    for found in _core.gap_findings(rows_of(events), limits, format_memory):
        kind, severity, confidence, evidence, description, at_ns, place = found
        phase = None if phase_resolver is None else phase_resolver.resolve_for_event(events[place])
        remediation = list(remediation_by_classification.get(kind, ()))
        findings.append(
            GapFinding(kind, severity, confidence, evidence, description, remediation, at_ns, phase)
        )
    return findings


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
