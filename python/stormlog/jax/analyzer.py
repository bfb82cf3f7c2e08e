"""Analyzes the memory use of JAX profiles, tracking results and recorded events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._compat.legacy_names import legacy_names
from .._frameworks.analyzer import FrameworkAnalyzer, FunctionSizes, functions_by_keys
from .._frameworks.sizes import MB
from ..gap_analysis import GapFinding
from ._advice import GAP_REMEDIATION

__all__ = ["GapFinding", "MemoryAnalyzer"]


class MemoryAnalyzer(FrameworkAnalyzer):
    """Analyzes profile results, tracking results and recorded events."""

    _framework = "jax"
    _gap_remediation = GAP_REMEDIATION

    def _usage(self, results: Any) -> list[float]:
        return [used / MB for used in getattr(results, "memory_usage", ())]

    def _snapshots(self, profile_result: Any) -> list[tuple[float, float]]:
        # Without counters the fragmentation is unknown.
        return [
            (snapshot.device_memory_mb, snapshot.device_memory_reserved_mb)
            for snapshot in getattr(profile_result, "snapshots", ())
            if snapshot.device_memory_available
        ]

    def _functions(self, profile_result: Any) -> list[FunctionSizes]:
        return functions_by_keys(profile_result, "total_memory_delta", "peak_memory_bytes", MB)

    def detect_memory_leaks(self, results: Any) -> list[dict[str, Any]]:
        """Detect signs of a leak in the memory use of a tracking result; sizes are in megabytes."""
        return self._leaks(results)

    def detect_patterns(self, results: Any) -> list[dict[str, Any]]:
        """Find repeated patterns and sudden rises in the memory usage of a tracking result."""
        return self._patterns(results)

    def analyze_efficiency(self, profile_result: Any) -> float:
        """The memory efficiency from 0 to 1: 1 minus penalties for peak, growth, fragmentation and
        leaks; 0 for a result without a peak."""
        return self._efficiency(profile_result) / 10


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
