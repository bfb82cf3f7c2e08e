"""Analyze the memory use of profiled calls and recorded events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from . import _core
from ._compat.legacy_names import legacy_names
from ._reports import TORCH_REMEDIATION, finding_to_dict, recommendations
from .collective_attribution import (
    CollectiveAttributionResult,
    attribute_collective_memory,
    resolve_collective_attribution_config,
)
from .distributed_analysis import summarize_cross_rank_analysis
from .gap_analysis import GapFinding, analyze_hidden_memory_gaps
from .phases import PhaseReplayIndex
from .utils import format_bytes

__all__ = ["GapFinding", "MemoryAnalyzer", "MemoryPattern", "PerformanceInsight"]

_PROFILE_THRESHOLDS = (
    "memory_leak_ratio",
    "fragmentation_ratio",
    "inefficient_allocation_ratio",
    "slow_function_percentile",
    "high_memory_percentile",
    "min_calls_for_analysis",
)


@dataclass
class MemoryPattern:
    """A pattern of wasted memory in profiled calls, such as a leak or fragmentation."""

    pattern_type: str
    description: str
    severity: str
    affected_functions: list[str]
    metrics: dict[str, Any]
    suggestions: list[str]


@dataclass
class PerformanceInsight:
    """An observation about the time or memory of profiled calls, such as a slow function."""

    category: str
    title: str
    description: str
    impact: str
    confidence: float
    data: dict[str, Any]
    recommendations: list[str]


class MemoryAnalyzer:
    """Analyzes the results of a profiler and recorded events."""

    def __init__(
        self,
        profiler: Any = None,
        collective_sensitivity: str = "medium",
        collective_threshold_overrides: Mapping[str, Any] | None = None,
    ) -> None:
        self.profiler = profiler
        self.collective_attribution_config = resolve_collective_attribution_config(
            collective_sensitivity, collective_threshold_overrides
        )
        self.thresholds: dict[str, float] = {
            "memory_leak_ratio": 0.7,
            "fragmentation_ratio": 0.3,
            "inefficient_allocation_ratio": 0.5,
            "slow_function_percentile": 0.9,
            "high_memory_percentile": 0.9,
            "min_calls_for_analysis": 3,
            "gap_ratio_threshold": 0.05,
            "gap_spike_zscore": 2.0,
            "gap_drift_r_squared": 0.6,
            "gap_fragmentation_ratio": 0.3,
        }

    def analyze_memory_patterns(self, results: Sequence[Any] | None = None) -> list[MemoryPattern]:
        """The patterns of wasted memory in ``results``, by default the results of the profiler."""
        calls = self._calls(results)
        return [MemoryPattern(**fields) for fields in _core.profile_patterns(calls, self._limits())]

    def generate_performance_insights(
        self, results: Sequence[Any] | None = None
    ) -> list[PerformanceInsight]:
        """Observations about time and memory in ``results``, by default the results of the
        profiler: slow functions, varying durations, high and growing memory use."""
        calls = self._calls(results)
        insights = []
        for fields in _core.profile_insights(calls, self._limits()):
            if "highest_variance" in fields["data"]:
                fields["data"]["highest_variance"] = tuple(fields["data"]["highest_variance"])
            insights.append(PerformanceInsight(**fields))
        return insights

    def analyze_memory_gaps(
        self, events: Sequence[Any], *, phase_resolver: PhaseReplayIndex | None = None
    ) -> list[GapFinding]:
        """Findings about the gap between used and reserved device memory, most severe first."""
        return analyze_hidden_memory_gaps(
            events, self.thresholds, format_bytes, TORCH_REMEDIATION, phase_resolver
        )

    def analyze_cross_rank_timeline(
        self, events: Sequence[Any], *, phase_resolver: PhaseReplayIndex | None = None
    ) -> dict[str, Any]:
        """Compare ranks and return the result as plain data, without the samples themselves."""
        return summarize_cross_rank_analysis(events, phase_resolver=phase_resolver)

    def analyze_collective_attribution(
        self, events: Sequence[Any], *, phase_resolver: PhaseReplayIndex | None = None
    ) -> list[CollectiveAttributionResult]:
        """Intervals in which the gap between used and reserved memory of a rank is attributed to a
        collective operation."""
        return attribute_collective_memory(
            events, config=self.collective_attribution_config, phase_resolver=phase_resolver
        )

    def generate_optimization_report(
        self, results: Sequence[Any] | None = None, events: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """The results of all analyses as plain data; recorded events are analyzed only if given."""
        patterns = self.analyze_memory_patterns(results)
        insights = self.generate_performance_insights(results)
        report: dict[str, Any] = {
            "summary": _core.profile_summary(self._calls(results)),
            "critical_issues": [asdict(p) for p in patterns if p.severity == "critical"],
            "high_impact_insights": [asdict(i) for i in insights if i.impact == "high"],
            "all_patterns": [asdict(pattern) for pattern in patterns],
            "all_insights": [asdict(insight) for insight in insights],
            "recommendations": recommendations(patterns, insights),
            "optimization_score": _core.optimization_score(
                [pattern.severity for pattern in patterns], [insight.impact for insight in insights]
            ),
        }
        if events is not None:
            resolver = PhaseReplayIndex.from_events(events)
            gaps = self.analyze_memory_gaps(events, phase_resolver=resolver)
            collectives = self.analyze_collective_attribution(events, phase_resolver=resolver)
            report["gap_analysis"] = [finding_to_dict(gap) for gap in gaps]
            report["collective_attribution"] = [finding_to_dict(one) for one in collectives]
            if len({event.rank for event in events}) >= 2:
                report["cross_rank_analysis"] = self.analyze_cross_rank_timeline(
                    events, phase_resolver=resolver
                )
        return report

    def _calls(self, results: Sequence[Any] | None) -> list[_core._ProfiledCall]:
        if results is None:
            results = getattr(self.profiler, "results", None) or ()
        return [
            (
                result.function_name,
                result.execution_time,
                result.memory_before.timestamp,
                result.memory_after.timestamp,
                result.memory_before.allocated_memory,
                result.memory_after.allocated_memory,
                result.memory_after.reserved_memory,
                result.memory_peak.allocated_memory,
                result.memory_allocated,
                result.memory_diff(),
            )
            for result in results
        ]

    def _limits(self) -> list[float]:
        return [self.thresholds[name] for name in _PROFILE_THRESHOLDS]


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
