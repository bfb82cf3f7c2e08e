"""Draws and exports the results of the JAX profiler and tracker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._compat.legacy_names import legacy_names
from .._frameworks.sizes import MB
from .._frameworks.visualizer import FrameworkVisualizer, Moment, sampled

__all__ = ["MemoryVisualizer"]


class MemoryVisualizer(FrameworkVisualizer):
    """Draws profile results and tracking results, and exports them; needs no plotting library."""

    _total_key, _peak_key, _unit = "total_memory_delta", "peak_memory_bytes", 1

    def _moments(self, results: Any) -> list[Moment]:
        snapshots = getattr(results, "snapshots", ())
        on_device = [one for one in snapshots if one.device_memory_available]
        if on_device:
            return [
                Moment(
                    one.timestamp,
                    one.device_memory_bytes,
                    one.device_memory_reserved_bytes,
                    one.name,
                )
                for one in on_device
            ]
        # Without device counters, the memory of the process is drawn.
        return [
            Moment(one.timestamp, one.cpu_memory_bytes, one.cpu_memory_bytes, one.name)
            for one in snapshots
        ] or sampled(results, 1)

    def _rows(self, results: Any) -> list[dict[str, Any]]:
        return [
            {"timestamp": one.timestamp, "device_memory_mb": one.used / MB}
            for one in self._moments(results)
        ]


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
