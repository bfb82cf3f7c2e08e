"""Measures how functions and blocks change the memory of a CUDA device."""

from __future__ import annotations

import gc
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from . import _core
from ._repeating import Repeating
from ._torch import require_torch
from .errors import InvalidValueError, NoAcceleratorError

if TYPE_CHECKING:
    import torch

__all__ = ["GPUMemoryProfiler", "MemorySnapshot", "ProfileResult", "TensorTracker"]


@dataclass
class MemorySnapshot:
    """One reading of the memory counters of a device, in bytes. It is not a snapshot of PyTorch's
    allocator."""

    timestamp: float
    allocated_memory: int
    reserved_memory: int
    max_memory_allocated: int
    max_memory_reserved: int
    active_memory: int
    inactive_memory: int
    cpu_memory: int
    device_id: int = 0
    operation: str | None = None
    stack_trace: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The reading as a dictionary, with its fields by name."""
        return asdict(self)


@dataclass
class ProfileResult:
    """The memory of a device before and after a function or block, its peak, and the duration in
    seconds."""

    function_name: str
    execution_time: float
    memory_before: MemorySnapshot
    memory_after: MemorySnapshot
    memory_peak: MemorySnapshot
    memory_allocated: int
    memory_freed: int
    tensors_created: int
    tensors_deleted: int
    call_count: int = 1

    def memory_diff(self) -> int:
        """How many bytes the allocated memory has grown during the measurement; negative if it has
        shrunk."""
        return self.memory_after.allocated_memory - self.memory_before.allocated_memory

    def peak_memory_usage(self) -> int:
        """The peak of allocated bytes during the measurement. A measurement inside this one resets
        PyTorch's peak counter, so that the peak covers only the time since then."""
        return self.memory_peak.max_memory_allocated

    def to_dict(self) -> dict[str, Any]:
        """The result as a dictionary, with all its fields by name."""
        return {
            "function_name": self.function_name,
            "execution_time": self.execution_time,
            "memory_before": self.memory_before.to_dict(),
            "memory_after": self.memory_after.to_dict(),
            "memory_peak": self.memory_peak.to_dict(),
            "memory_allocated": self.memory_allocated,
            "memory_freed": self.memory_freed,
            "memory_diff": self.memory_diff(),
            "peak_memory_usage": self.peak_memory_usage(),
            "tensors_created": self.tensors_created,
            "tensors_deleted": self.tensors_deleted,
            "call_count": self.call_count,
        }


class TensorTracker:
    """Counts the PyTorch tensors that are alive."""

    def count_tensors(self) -> int:
        """The number of tensors that Python's garbage collector knows."""
        is_tensor = require_torch().is_tensor
        return sum(1 for item in gc.get_objects() if is_tensor(item))


class GPUMemoryProfiler:
    """Measures functions and blocks on a CUDA device. Before every reading it waits until the
    device has finished its work."""

    def __init__(
        self,
        device: str | int | torch.device | None = None,
        track_tensors: bool = False,
        track_cpu_memory: bool = True,
        collect_stack_traces: bool = False,
        max_snapshots: int = 10000,
    ) -> None:
        if max_snapshots < 1:
            raise InvalidValueError("max_snapshots must be >= 1")
        self._torch = require_torch()
        self.device: torch.device = self._resolve(device)
        self.track_tensors = track_tensors
        self.track_cpu_memory = track_cpu_memory
        self.collect_stack_traces = collect_stack_traces
        self.max_snapshots = max_snapshots
        self.results: list[ProfileResult] = []
        self.snapshots: deque[MemorySnapshot] = deque(maxlen=max_snapshots)
        self.function_stats: defaultdict[str, list[ProfileResult]] = defaultdict(list)
        self._tensors = TensorTracker()
        self._monitor = Repeating("stormlog-gpu-monitor")
        self._baseline = self._take_snapshot("baseline")

    def _resolve(self, device: str | int | torch.device | None) -> torch.device:
        runtime = self._torch
        if not runtime.cuda.is_available():
            raise NoAcceleratorError("CUDA is not available, cannot profile GPU memory")
        place: torch.device = runtime.device("cuda" if device is None else device)
        if place.type != "cuda":
            raise InvalidValueError("Only CUDA devices are supported for GPU memory profiling")
        if place.index is None:
            place = runtime.device("cuda", runtime.cuda.current_device())
        elif place.index >= runtime.cuda.device_count():
            raise InvalidValueError(f"Device {place} is not available")
        return place

    def _take_snapshot(self, operation: str | None = None) -> MemorySnapshot:
        cuda = self._torch.cuda
        cuda.synchronize(self.device)
        stats = cuda.memory_stats(self.device)
        sizes = _core.process_sizes() if self.track_cpu_memory else None
        return MemorySnapshot(
            timestamp=time.time(),
            allocated_memory=cuda.memory_allocated(self.device),
            reserved_memory=cuda.memory_reserved(self.device),
            max_memory_allocated=cuda.max_memory_allocated(self.device),
            max_memory_reserved=cuda.max_memory_reserved(self.device),
            active_memory=stats.get("active_bytes.all.current", 0),
            inactive_memory=stats.get("inactive_split_bytes.all.current", 0),
            cpu_memory=sizes[0] if sizes else 0,
            device_id=self.device.index or 0,
            operation=operation,
            stack_trace="".join(traceback.format_stack()) if self.collect_stack_traces else None,
        )

    @contextmanager
    def _measured(self, name: str) -> Iterator[None]:
        """Measure a ``with`` block; the result is also kept if the block raises an exception."""
        count = self._tensors.count_tensors if self.track_tensors else lambda: 0
        self._torch.cuda.reset_peak_memory_stats(self.device)
        tensors_before = count()
        before = self._take_snapshot(f"before_{name}")
        start = time.time()
        try:
            yield
        finally:
            duration = time.time() - start
            peak = self._take_snapshot(f"peak_{name}")
            after = self._take_snapshot(f"after_{name}")
            change = after.allocated_memory - before.allocated_memory
            tensors = count() - tensors_before
            result = ProfileResult(
                name,
                duration,
                before,
                after,
                peak,
                memory_allocated=max(0, change),
                memory_freed=max(0, -change),
                tensors_created=max(0, tensors),
                tensors_deleted=max(0, -tensors),
            )
            self.results.append(result)
            self.function_stats[name].append(result)

    def profile_function(
        self, func: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> ProfileResult:
        """Call a function and return the measurement; what the function returns is dropped."""
        with self._measured(getattr(func, "__name__", repr(func))):
            func(*args, **kwargs)
        return self.results[-1]

    def profile_context(self, name: str = "context") -> Any:
        """Measure a block: ``with profiler.profile_context("forward"): ...``"""
        return self._measured(name)

    def start_monitoring(self, interval: float = 0.1) -> None:
        """Read the memory counters at an interval in seconds on a background thread."""
        self._monitor.start(lambda: self.snapshots.append(self._take_snapshot("monitor")), interval)

    def stop_monitoring(self) -> None:
        """End what ``start_monitoring`` started."""
        self._monitor.stop()

    def get_summary(self) -> dict[str, Any]:
        """The results in numbers, in total and by function."""
        if not self.results:
            return {"message": "No profiling results available"}
        current = self._torch.cuda.memory_allocated(self.device)
        allocated = sum(result.memory_allocated for result in self.results)
        freed = sum(result.memory_freed for result in self.results)
        return {
            "device": str(self.device),
            "total_functions_profiled": len(self.function_stats),
            "total_function_calls": len(self.results),
            "total_execution_time": sum(result.execution_time for result in self.results),
            "total_memory_allocated": allocated,
            "total_memory_freed": freed,
            "net_memory_change": allocated - freed,
            "peak_memory_usage": max(result.peak_memory_usage() for result in self.results),
            "current_memory_usage": current,
            "baseline_memory_usage": self._baseline.allocated_memory,
            "memory_change_from_baseline": current - self._baseline.allocated_memory,
            "function_summaries": {
                name: _function_summary(calls) for name, calls in self.function_stats.items()
            },
            "monitoring_active": self._monitor.active,
            "snapshots_collected": len(self.snapshots),
        }

    def clear_results(self) -> None:
        """Delete all results and readings; changes count from the memory use now."""
        self.results.clear()
        self.snapshots.clear()
        self.function_stats.clear()
        self._baseline = self._take_snapshot("baseline")

    def __enter__(self) -> GPUMemoryProfiler:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop_monitoring()


def _function_summary(calls: list[ProfileResult]) -> dict[str, Any]:
    count = len(calls)
    total_time = sum(call.execution_time for call in calls)
    allocated = sum(call.memory_allocated for call in calls)
    return {
        "call_count": count,
        "total_time": total_time,
        "avg_time": total_time / count,
        "total_memory_allocated": allocated,
        "avg_memory_allocated": allocated / count,
        "peak_memory": max(call.peak_memory_usage() for call in calls),
    }
