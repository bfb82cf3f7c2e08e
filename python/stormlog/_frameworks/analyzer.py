"""Analyzes the memory use in profiles, tracking results and recorded events of any framework."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core
from .._reports import finding_to_dict
from ..collective_attribution import (
    CollectiveAttributionResult,
    attribute_collective_memory,
    resolve_collective_attribution_config,
)
from ..gap_analysis import GapFinding, analyze_hidden_memory_gaps
from ..phases import PhaseReplayIndex
from ..utils import format_bytes

_MOST_RECOMMENDATIONS = 5

# Name, number of calls, total seconds, total megabytes, peak megabytes.
FunctionSizes = tuple[str, int, float, float, float]


class FrameworkAnalyzer(ABC):
    """Analyzes profile results, tracking results and recorded events.

    Sizes in the analyses of profiles and tracking results are in megabytes. A subclass defines how
    to read its framework's results. A snapshot of a profile is one reading of the memory counters.
    """

    _framework: str
    _gap_remediation: Mapping[str, list[str]]

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

    @abstractmethod
    def _usage(self, results: Any) -> list[float]:
        """The megabytes in use at each sample of a tracking result."""

    @abstractmethod
    def _snapshots(self, profile_result: Any) -> list[tuple[float, float]]:
        """The megabytes in use and the megabytes reserved at each snapshot of a profile."""

    @abstractmethod
    def _functions(self, profile_result: Any) -> list[FunctionSizes]:
        """The profiled functions: name, number of calls, total seconds, and megabytes in total (the
        sum of what each call added) and at the peak."""

    def _leaks(self, results: Any) -> list[dict[str, Any]]:
        rate = getattr(results, "memory_growth_rate", 0)
        return _core.framework_leaks(self._usage(results), rate)

    def _patterns(self, results: Any) -> list[dict[str, Any]]:
        return _core.framework_patterns(self._usage(results))

    def analyze_fragmentation(self, profile_result: Any) -> dict[str, float]:
        """The share of reserved memory that is unused in the snapshots of a profile: its mean
        (``fragmentation_score``), its trend and its extremes."""
        return _core.framework_fragmentation(self._snapshots(profile_result), "trend")

    def _efficiency(self, profile_result: Any) -> float:
        """How efficiently the profiled code uses memory, as a score from 0 to 10; 0 for a result
        without a peak."""
        if not hasattr(profile_result, "peak_memory_mb"):
            return 0.0
        usage = None
        if hasattr(profile_result, "memory_usage"):
            usage = [used for used, _ in self._snapshots(profile_result)]
        return _core.framework_efficiency(
            profile_result.peak_memory_mb,
            getattr(profile_result, "memory_growth_rate", 0.0),
            self.analyze_fragmentation(profile_result)["fragmentation_score"],
            usage,
        )

    def correlate_with_performance(self, profile_result: Any) -> dict[str, Any]:
        """Memory and time per call of every profiled function, with recommendations. No correlation
        is computed: ``memory_duration_correlation`` is always 0."""
        return _core.framework_performance(self._framework, self._functions(profile_result))

    def analyze_memory_gaps(
        self, events: Sequence[Any], *, phase_resolver: PhaseReplayIndex | None = None
    ) -> list[GapFinding]:
        """Findings about hidden memory in recorded events."""
        return analyze_hidden_memory_gaps(
            events, self.thresholds, format_bytes, self._gap_remediation, phase_resolver
        )

    def analyze_collective_attribution(
        self, events: Sequence[Any], *, phase_resolver: PhaseReplayIndex | None = None
    ) -> list[CollectiveAttributionResult]:
        """Intervals in which the gap between used and reserved memory of a rank is attributed to a
        collective operation."""
        return attribute_collective_memory(
            events, config=self.collective_attribution_config, phase_resolver=phase_resolver
        )

    def score_optimization(
        self, profile_result: Any, events: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """Scores of a profile from 0 to 10, with suggestions. With events, also findings about
        hidden memory and its attribution to collective operations."""
        fragmentation = self.analyze_fragmentation(profile_result)["fragmentation_score"]
        report = _core.framework_score(
            self._efficiency(profile_result),
            fragmentation if hasattr(profile_result, "snapshots") else None,
            self._functions(profile_result),
            self._suggestions(profile_result)[:_MOST_RECOMMENDATIONS],
        )
        if events is not None:
            resolver = PhaseReplayIndex.from_events(events)
            gaps = self.analyze_memory_gaps(events, phase_resolver=resolver)
            collectives = self.analyze_collective_attribution(events, phase_resolver=resolver)
            report["gap_analysis"] = [finding_to_dict(gap) for gap in gaps]
            report["collective_attribution"] = [finding_to_dict(one) for one in collectives]
        return report

    def _suggestions(self, profile_result: Any) -> list[str]:
        """At most ten suggestions for reducing the memory use of the profiled program."""
        peak = getattr(profile_result, "peak_memory_mb", None)
        if peak is None:
            return []
        return _core.framework_suggestions(
            self._framework,
            peak,
            getattr(profile_result, "memory_growth_rate", 0.0),
            self.analyze_fragmentation(profile_result)["fragmentation_score"],
            self._functions(profile_result),
        )


def functions_by_keys(
    profile_result: Any, total_key: str, peak_key: str, unit: float
) -> list[FunctionSizes]:
    """The profiled functions of a result. ``total_key`` and ``peak_key`` are the keys under which
    the result has the total and the peak memory of a function; both are divided by ``unit``."""
    profiles = getattr(profile_result, "function_profiles", None) or {}
    return [
        (
            str(name),
            profile.get("calls", 0),
            profile.get("total_duration", 0),
            profile.get(total_key, 0) / unit,
            profile.get(peak_key, 0) / unit,
        )
        for name, profile in profiles.items()
    ]
