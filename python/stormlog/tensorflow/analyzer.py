"""What TensorFlow profiles, tracking results and recorded events say about memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core
from .._reports import collective_to_dict, gap_finding_to_dict
from ..collective_attribution import (
    CollectiveAttributionResult,
    attribute_collective_memory,
    resolve_collective_attribution_config,
)
from ..gap_analysis import GapFinding, analyze_hidden_memory_gaps
from ..phases import PhaseReplayIndex
from ..utils import format_bytes
from ._advice import GAP_REMEDIATION

__all__ = ["GapFinding", "MemoryAnalyzer"]

_MOST_RECOMMENDATIONS = 5


class MemoryAnalyzer:
    """Analyses profile results, tracking results and recorded events."""

    def __init__(
        self,
        sensitivity: float = 0.05,
        collective_sensitivity: str = "medium",
        collective_threshold_overrides: Mapping[str, Any] | None = None,
    ) -> None:
        self.sensitivity = sensitivity
        self.collective_attribution_config = resolve_collective_attribution_config(
            collective_sensitivity, collective_threshold_overrides
        )
        self.thresholds: dict[str, float] = {
            "gap_ratio_threshold": 0.05,
            "gap_spike_zscore": 2.0,
            "gap_drift_r_squared": 0.6,
            "gap_fragmentation_ratio": 0.3,
        }

    def detect_memory_leaks(self, tracking_results: Any) -> list[dict[str, Any]]:
        """What a tracking result's memory usage shows of leaks."""
        usage = list(getattr(tracking_results, "memory_usage", ()))
        return _core.tensorflow_leaks(usage, getattr(tracking_results, "memory_growth_rate", 0))

    def analyze_fragmentation(self, profile_result: Any) -> dict[str, float]:
        """How much reserved memory the snapshots of a profile leave unused."""
        return _core.tensorflow_fragmentation(snapshot_sizes(profile_result), "trend")

    def detect_patterns(self, tracking_results: Any) -> list[dict[str, Any]]:
        """Whether memory usage repeats, and whether it goes up in steps."""
        return _core.tensorflow_patterns(list(getattr(tracking_results, "memory_usage", ())))

    def analyze_efficiency(self, profile_result: Any) -> float:
        """Ten, less what a profile's peak, growth, fragmentation and leaks cost."""
        if not hasattr(profile_result, "peak_memory_mb"):
            return 0.0
        usage = None
        if hasattr(profile_result, "memory_usage"):
            usage = [used for used, _ in snapshot_sizes(profile_result)]
        return _core.tensorflow_efficiency(
            profile_result.peak_memory_mb,
            getattr(profile_result, "memory_growth_rate", 0.0),
            self.analyze_fragmentation(profile_result)["fragmentation_score"],
            usage,
        )

    def correlate_with_performance(self, profile_result: Any) -> dict[str, Any]:
        """Memory and time per call of every profiled function."""
        return _core.tensorflow_performance(function_sizes(profile_result))

    def analyze_memory_gaps(
        self, events: Sequence[Any], *, phase_resolver: PhaseReplayIndex | None = None
    ) -> list[GapFinding]:
        """Findings about memory that the device uses and the allocator does not hold."""
        return analyze_hidden_memory_gaps(
            events, self.thresholds, format_bytes, GAP_REMEDIATION, phase_resolver
        )

    def analyze_collective_attribution(
        self, events: Sequence[Any], *, phase_resolver: PhaseReplayIndex | None = None
    ) -> list[CollectiveAttributionResult]:
        """Times in which the gap of a rank is put down to a collective."""
        return attribute_collective_memory(
            events, config=self.collective_attribution_config, phase_resolver=phase_resolver
        )

    def score_optimization(
        self, profile_result: Any, events: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """Scores from 0 to 10, with what to do; events add the findings about gaps."""
        fragmentation = self.analyze_fragmentation(profile_result)["fragmentation_score"]
        report = _core.tensorflow_score(
            self.analyze_efficiency(profile_result),
            fragmentation if hasattr(profile_result, "snapshots") else None,
            function_sizes(profile_result),
            suggestions(profile_result)[:_MOST_RECOMMENDATIONS],
        )
        if events is not None:
            resolver = PhaseReplayIndex.from_events(events)
            gaps = self.analyze_memory_gaps(events, phase_resolver=resolver)
            collectives = self.analyze_collective_attribution(events, phase_resolver=resolver)
            report["gap_analysis"] = [gap_finding_to_dict(gap) for gap in gaps]
            report["collective_attribution"] = [collective_to_dict(one) for one in collectives]
        return report


def snapshot_sizes(profile_result: Any) -> list[tuple[float, float]]:
    """Megabytes in use and reserved at each snapshot of a profile."""
    snapshots = getattr(profile_result, "snapshots", ())
    return [(snapshot.gpu_memory_mb, snapshot.gpu_memory_reserved_mb) for snapshot in snapshots]


def function_sizes(profile_result: Any) -> list[tuple[str, int, float, float, float]]:
    """The profiled functions: name, calls, seconds, megabytes in all and at most."""
    profiles = getattr(profile_result, "function_profiles", None) or {}
    return [
        (
            str(name),
            profile.get("calls", 0),
            profile.get("total_duration", 0),
            profile.get("total_memory_used", 0),
            profile.get("peak_memory", 0),
        )
        for name, profile in profiles.items()
    ]


def suggestions(profile_result: Any) -> list[str]:
    """What to do about a profile."""
    peak = getattr(profile_result, "peak_memory_mb", None)
    if peak is None:
        return []
    sizes = _core.tensorflow_fragmentation(snapshot_sizes(profile_result), "trend")
    return _core.tensorflow_suggestions(
        peak,
        getattr(profile_result, "memory_growth_rate", 0.0),
        sizes["fragmentation_score"],
        function_sizes(profile_result),
    )
