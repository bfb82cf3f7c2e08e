"""Draws and exports the results of the TensorFlow profiler and tracker."""

from __future__ import annotations

from typing import Any

from .._frameworks.sizes import MB
from .._frameworks.visualizer import FrameworkVisualizer, Moment, sampled

__all__ = ["MemoryVisualizer"]

_COLUMNS = ("timestamp", "name", "gpu_memory_mb", "cpu_memory_mb", "num_tensors")


class MemoryVisualizer(FrameworkVisualizer):
    """Draws profile results and tracking results, and exports them; needs no plotting library."""

    _total_key, _peak_key, _unit = "total_memory_used", "peak_memory", MB

    def _moments(self, results: Any) -> list[Moment]:
        snapshots = getattr(results, "snapshots", ())
        # Without a GPU, the memory of the process is drawn.
        on_gpu = any(snapshot.gpu_memory_mb for snapshot in snapshots)
        return [
            Moment(
                snapshot.timestamp,
                (snapshot.gpu_memory_mb if on_gpu else snapshot.cpu_memory_mb) * MB,
                (snapshot.gpu_memory_reserved_mb if on_gpu else snapshot.cpu_memory_mb) * MB,
                snapshot.name,
            )
            for snapshot in snapshots
        ] or sampled(results)

    def _rows(self, results: Any) -> list[dict[str, Any]]:
        snapshots = getattr(results, "snapshots", ())
        return [{name: getattr(one, name) for name in _COLUMNS} for one in snapshots] or [
            {"timestamp": one.timestamp, "memory_mb": one.used / MB} for one in sampled(results)
        ]

    def _document(self, results: Any, rows: list[dict[str, Any]]) -> Any:
        peak = getattr(results, "peak_memory_mb", getattr(results, "peak_memory", 0))
        average = getattr(results, "average_memory_mb", getattr(results, "average_memory", 0))
        return {
            "peak_memory_mb": peak,
            "average_memory_mb": average,
            "total_allocations": getattr(results, "total_allocations", 0),
            "snapshots": rows,
        }
