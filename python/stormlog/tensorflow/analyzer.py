"""Analyzes the memory use of TensorFlow profiles, tracking results and recorded events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._compat.legacy_names import legacy_names
from .._frameworks.analyzer import FrameworkAnalyzer, FunctionSizes, functions_by_keys
from ..gap_analysis import GapFinding
from ._advice import GAP_REMEDIATION

__all__ = ["GapFinding", "MemoryAnalyzer"]


class MemoryAnalyzer(FrameworkAnalyzer):
    """Analyzes profile results, tracking results and recorded events."""

    _framework = "tensorflow"
    _gap_remediation = GAP_REMEDIATION

    def _usage(self, results: Any) -> list[float]:
        return list(getattr(results, "memory_usage", ()))

    def _snapshots(self, profile_result: Any) -> list[tuple[float, float]]:
        snapshots = getattr(profile_result, "snapshots", ())
        return [(snapshot.gpu_memory_mb, snapshot.gpu_memory_reserved_mb) for snapshot in snapshots]

    def _functions(self, profile_result: Any) -> list[FunctionSizes]:
        return functions_by_keys(profile_result, "total_memory_used", "peak_memory", 1.0)

    def detect_memory_leaks(self, tracking_results: Any) -> list[dict[str, Any]]:
        """Detect signs of a leak in the memory use of a tracking result; sizes are in megabytes."""
        return self._leaks(tracking_results)

    def detect_patterns(self, tracking_results: Any) -> list[dict[str, Any]]:
        """Find repeated patterns and sudden rises in the memory usage of a tracking result."""
        return self._patterns(tracking_results)

    def analyze_efficiency(self, profile_result: Any) -> float:
        """The memory efficiency from 0 to 10: 10 minus penalties for peak, growth, fragmentation
        and leaks; 0 for a result without a peak."""
        return self._efficiency(profile_result)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
