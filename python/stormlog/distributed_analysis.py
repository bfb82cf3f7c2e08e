"""Compare the ranks of a run and find the one whose memory rose first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _core
from ._analysis_input import rows_of
from .phases import (
    PhaseAttribution,
    PhaseReplayIndex,
    attribution_of,
    phase_attribution_to_payload,
    resolver_of,
)
from .telemetry import TelemetryEventV2, TelemetryEventV3

__all__ = [
    "CrossRankMergeResult",
    "FirstCauseAnalysisResult",
    "FirstCauseSuspect",
    "RankTimelinePoint",
    "analyze_cross_rank_events",
    "merge_cross_rank_timelines",
    "summarize_cross_rank_analysis",
]


@dataclass
class RankTimelinePoint:
    """A sample of one rank on the common timeline. ``aligned_timestamp_ns`` is its time there."""

    rank: int
    timestamp_ns: int
    aligned_timestamp_ns: int
    device_used_bytes: int
    allocator_reserved_bytes: int
    allocator_allocated_bytes: int
    allocator_change_bytes: int


@dataclass
class CrossRankMergeResult:
    """The samples of all ranks on a common timeline, on which the first samples of all ranks have
    the same time."""

    job_id: str | None
    world_size: int
    participating_ranks: list[int]
    missing_ranks: list[int]
    rank_sample_counts: dict[int, int]
    alignment_offsets_ns: dict[int, int]
    merged_points: list[RankTimelinePoint]
    notes: list[str] = field(default_factory=list)


@dataclass
class FirstCauseSuspect:
    """A rank whose memory may have risen first."""

    rank: int
    first_spike_timestamp_ns: int
    aligned_first_spike_timestamp_ns: int
    peak_delta_bytes: int
    spike_window_samples: int
    lead_over_cluster_onset_ns: int
    confidence: str
    evidence: dict[str, int | str]
    phase_attribution: PhaseAttribution | None = None


@dataclass
class FirstCauseAnalysisResult:
    """The ranks whose memory may have risen first, and the time of the earliest rise."""

    cluster_onset_timestamp_ns: int | None
    suspects: list[FirstCauseSuspect]
    notes: list[str] = field(default_factory=list)


Events = Sequence[TelemetryEventV2 | TelemetryEventV3]


def merge_cross_rank_timelines(events: Events) -> CrossRankMergeResult:
    """Merge the samples of all ranks on a common timeline."""
    merged, _, _ = _core.compare_ranks(rows_of(events), None, True)
    return _merge_result(merged)


def analyze_cross_rank_events(
    events: Events, *, phase_resolver: PhaseReplayIndex | None = None
) -> tuple[CrossRankMergeResult, FirstCauseAnalysisResult]:
    """Merge the samples of all ranks on a common timeline and find the ranks whose memory may have
    risen first."""
    merged, cause, _ = _core.compare_ranks(rows_of(events), resolver_of(phase_resolver), True)
    return _merge_result(merged), FirstCauseAnalysisResult(
        cluster_onset_timestamp_ns=cause["cluster_onset_timestamp_ns"],
        suspects=[_suspect(fields) for fields in cause["suspects"]],
        notes=cause["notes"],
    )


def summarize_cross_rank_analysis(
    events: Events, *, phase_resolver: PhaseReplayIndex | None = None
) -> dict[str, Any]:
    """Compare ranks and return the result as plain data, without the samples themselves."""
    resolver = resolver_of(phase_resolver)
    merged, cause, notes = _core.compare_ranks(rows_of(events), resolver, False)
    del merged["merged_points"], merged["notes"]
    for name in ("rank_sample_counts", "alignment_offsets_ns"):
        merged[name] = {str(rank): value for rank, value in merged[name].items()}
    for suspect in cause["suspects"]:
        phase = attribution_of(suspect["phase_attribution"])
        suspect["phase_attribution"] = phase_attribution_to_payload(phase)
    return {
        **merged,
        "cluster_onset_timestamp_ns": cause["cluster_onset_timestamp_ns"],
        "first_cause_suspects": cause["suspects"],
        "notes": notes,
    }


def _merge_result(fields: dict[str, Any]) -> CrossRankMergeResult:
    fields["merged_points"] = [RankTimelinePoint(*point) for point in fields["merged_points"]]
    return CrossRankMergeResult(**fields)


def _suspect(fields: dict[str, Any]) -> FirstCauseSuspect:
    fields["phase_attribution"] = attribution_of(fields["phase_attribution"])
    return FirstCauseSuspect(**fields)
