"""What TensorFlow profiles, tracking results and recorded events say about memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from .._reports import collective_to_dict, gap_finding_to_dict
from ..collective_attribution import (
    CollectiveAttributionResult,
    attribute_collective_memory,
    resolve_collective_attribution_config,
)
from ..gap_analysis import GapFinding, analyze_hidden_memory_gaps
from ..phases import PhaseReplayIndex
from ..utils import format_bytes
from ._advice import GAP_REMEDIATION, priority_actions, recommendations
from ._usage import correlation, pstdev

__all__ = ["GapFinding", "MemoryAnalyzer"]

_FEWEST_FOR_LEAKS = 10
_FEWEST_FOR_PATTERNS = 20
_FEWEST_FOR_TREND = 10
_EDGE = 5
_CHUNKS = 4


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
        if len(usage) < _FEWEST_FOR_LEAKS:
            return []
        return _leaks(usage, getattr(tracking_results, "memory_growth_rate", 0))

    def analyze_fragmentation(self, profile_result: Any) -> dict[str, float]:
        """How much reserved memory the snapshots of a profile leave unused."""
        snapshots = getattr(profile_result, "snapshots", ())
        ratios = []
        if len(snapshots) > 1:
            for snapshot in snapshots:
                reserved = snapshot.gpu_memory_reserved_mb
                if reserved > 0:
                    ratios.append((reserved - snapshot.gpu_memory_mb) / reserved)
        if not ratios:
            return {"fragmentation_score": 0.0, "trend": 0.0}
        long_enough = len(ratios) >= _FEWEST_FOR_TREND
        return {
            "fragmentation_score": fmean(ratios),
            "trend": fmean(ratios[-_EDGE:]) - fmean(ratios[:_EDGE]) if long_enough else 0.0,
            "max_fragmentation": max(ratios),
            "min_fragmentation": min(ratios),
        }

    def detect_patterns(self, tracking_results: Any) -> list[dict[str, Any]]:
        """Whether memory usage repeats, and whether it goes up in steps."""
        usage = list(getattr(tracking_results, "memory_usage", ()))
        if len(usage) < _FEWEST_FOR_PATTERNS:
            return []
        patterns: list[dict[str, Any]] = []
        repeat = _repetition(usage)
        if repeat is not None and repeat > 0.7:
            patterns.append(
                {
                    "type": "periodic_pattern",
                    "correlation": repeat,
                    "description": f"Detected periodic memory pattern (correlation: {repeat:.3f})",
                }
            )
        steps = sum(1 for before, after in zip(usage, usage[1:]) if after > before * 1.2)
        if steps > len(usage) * 0.1:
            patterns.append(
                {
                    "type": "step_pattern",
                    "step_count": steps,
                    "description": f"Detected {steps} sudden memory increases (step pattern)",
                }
            )
        return patterns

    def analyze_efficiency(self, profile_result: Any) -> float:
        """Ten, less what a profile's peak, growth, fragmentation and leaks cost."""
        if not hasattr(profile_result, "peak_memory_mb"):
            return 0.0
        score = 10.0
        score -= _tier(profile_result.peak_memory_mb, (8000, 3.0), (4000, 1.5))
        growth = getattr(profile_result, "memory_growth_rate", 0.0)
        score -= _tier(growth, (200, 2.0), (100, 1.0))
        fragmentation = self.analyze_fragmentation(profile_result)["fragmentation_score"]
        score -= _tier(fragmentation, (0.5, 2.0), (0.3, 1.0))
        snapshots = getattr(profile_result, "snapshots", ())
        if hasattr(profile_result, "memory_usage") and len(snapshots) >= _FEWEST_FOR_LEAKS:
            leaks = _leaks([snapshot.gpu_memory_mb for snapshot in snapshots], 0.0)
            if leaks:
                severe = any(leak["severity"] == "high" for leak in leaks)
                score -= 3.0 if severe else 1.5
        return max(0.0, score)

    def correlate_with_performance(self, profile_result: Any) -> dict[str, Any]:
        """Memory and time per call of every profiled function."""
        profiles = getattr(profile_result, "function_profiles", None) or {}
        efficiency: dict[str, Any] = {}
        advice = []
        for name, profile in profiles.items():
            calls = profile.get("calls", 0)
            if calls <= 0:
                continue
            memory = profile.get("total_memory_used", 0) / calls
            duration = profile.get("total_duration", 0) / calls
            score = (0.5 if memory > 1000 else 1.0) * (0.7 if duration > 1.0 else 1.0)
            efficiency[name] = {
                "avg_memory_per_call": memory,
                "avg_duration_per_call": duration,
                "efficiency_score": score,
                "total_calls": calls,
            }
            if memory > 2000:
                advice.append(
                    f"Function '{name}' uses high memory per call - consider optimization"
                )
            if calls > 100 and duration > 0.1:
                advice.append(
                    f"Function '{name}' called frequently - consider caching or @tf.function"
                )
        return {
            "memory_duration_correlation": 0.0,
            "function_efficiency": efficiency,
            "recommendations": advice,
        }

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
        memory = self.analyze_efficiency(profile_result)
        categories = {"memory_efficiency": memory}
        fragmentation = 5.0
        fragmented = self.analyze_fragmentation(profile_result)["fragmentation_score"]
        if hasattr(profile_result, "snapshots"):
            fragmentation = categories["fragmentation"] = max(0.0, 10.0 - fragmented * 10.0)
        functions = self.correlate_with_performance(profile_result)["function_efficiency"]
        scores = [function["efficiency_score"] for function in functions.values()]
        performance = categories["performance"] = fmean(scores) * 10.0 if scores else 5.0
        report: dict[str, Any] = {
            "overall_score": (memory + fragmentation + performance) / 3,
            "categories": categories,
            "top_recommendations": recommendations(profile_result, fragmented),
            "priority_actions": priority_actions(memory, fragmentation, performance),
        }
        if events is not None:
            resolver = PhaseReplayIndex.from_events(events)
            gaps = self.analyze_memory_gaps(events, phase_resolver=resolver)
            collectives = self.analyze_collective_attribution(events, phase_resolver=resolver)
            report["gap_analysis"] = [gap_finding_to_dict(gap) for gap in gaps]
            report["collective_attribution"] = [collective_to_dict(one) for one in collectives]
        return report


def _leaks(usage: list[float], growth_rate: float) -> list[dict[str, Any]]:
    leaks: list[dict[str, Any]] = []
    if len(usage) < _FEWEST_FOR_LEAKS:
        return leaks
    rising = sum(1 for before, after in zip(usage, usage[1:]) if after > before)
    share = rising / (len(usage) - 1)
    if share > 0.7:
        leaks.append(
            {
                "type": "monotonic_increase",
                "severity": "high" if share > 0.9 else "medium",
                "description": f"Memory shows monotonic increase in {share:.1%} of samples",
                "growth_rate": growth_rate,
            }
        )
    limit = fmean(usage) + 3 * stdev(usage)
    spikes = [value for value in usage if value > limit]
    if spikes:
        leaks.append(
            {
                "type": "memory_spikes",
                "severity": "medium",
                "description": f"Detected {len(spikes)} memory spikes above 3σ",
                "spike_values": spikes,
            }
        )
    first, last = sum(usage[:_EDGE]) / _EDGE, sum(usage[-_EDGE:]) / _EDGE
    if last > first * 1.5:
        times = last / first if first else float("inf")
        leaks.append(
            {
                "type": "insufficient_cleanup",
                "severity": "medium",
                "description": f"Final memory {last:.1f}MB is {times:.1f}x initial memory",
                "initial_avg": first,
                "final_avg": last,
            }
        )
    return leaks


def _repetition(usage: list[float]) -> float | None:
    """How much neighbouring quarters resemble one another; unknown when one is constant."""
    size = len(usage) // _CHUNKS
    chunks = [usage[start : start + size] for start in range(0, size * _CHUNKS, size)]
    likeness = [correlation(one, other) for one, other in zip(chunks, chunks[1:])]
    known = [value for value in likeness if value is not None]
    return fmean(known) if known and pstdev(usage) else None


def _tier(value: float, high: tuple[float, float], low: tuple[float, float]) -> float:
    for limit, cost in (high, low):
        if value > limit:
            return cost
    return 0.0
