"""Profiles functions and blocks of TensorFlow programs: reads the memory before and after them."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from .._compat.legacy_names import legacy_names
from .._frameworks.profiler import SnapshotProfiler
from .._frameworks.results import Lasting
from .._frameworks.sizes import MB, resident_mb
from ._device import default_device, device_bytes, is_cpu
from .tf_env import require_tensorflow

__all__ = ["MemorySnapshot", "ProfileResult", "TFMemoryProfiler", "TensorTracker"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class MemorySnapshot:
    """The memory of a device and of the process at one moment, in megabytes.

    It is one reading of counters, and not a snapshot in the sense of PyTorch.
    """

    timestamp: float
    name: str
    gpu_memory_mb: float
    cpu_memory_mb: float
    gpu_memory_reserved_mb: float
    gpu_utilization: float
    num_tensors: int
    tensor_sizes: dict[str, Any] = field(default_factory=dict)
    operation_name: str | None = None
    graph_node: str | None = None


@dataclass
class ProfileResult(Lasting):
    """The results of a profiler, with sizes of device memory in megabytes.

    ``total_allocations`` and ``total_deallocations`` are the numbers of snapshots with more and
    with less memory in use than the snapshot before.
    """

    start_time: float
    end_time: float
    peak_memory_mb: float
    average_memory_mb: float
    min_memory_mb: float
    total_allocations: int
    total_deallocations: int
    snapshots: list[MemorySnapshot] = field(default_factory=list)
    function_profiles: dict[str, dict[str, Any]] = field(default_factory=dict)
    tensor_lifecycle: dict[str, Any] = field(default_factory=dict)
    memory_fragmentation: float = 0.0
    efficiency_score: float = 0.0

    @property
    def memory_growth_rate(self) -> float:
        """The mean growth of device memory from the first snapshot to the last, in megabytes per
        second."""
        return self._growth_rate([snapshot.gpu_memory_mb for snapshot in self.snapshots])

    def to_dict(self) -> dict[str, Any]:
        """The results as a dictionary, with all fields by name."""
        return asdict(self)


class TensorTracker:
    """Remembers facts about the tensors that are passed to it, and keeps no tensor alive."""

    def __init__(self) -> None:
        self._seen: dict[int, dict[str, Any]] = {}

    def track_tensor(self, tensor: Any, operation_name: str = "unknown") -> None:
        """Remember operation, shape, type and time of a tensor."""
        self._seen[id(tensor)] = {
            "operation": operation_name,
            "shape": [int(side) for side in tensor.shape],
            "dtype": str(tensor.dtype),
            "timestamp": time.time(),
        }

    def get_active_tensors(self) -> dict[str, Any]:
        """The number of all tensors that Python's garbage collector knows (``count``) and their
        total size in megabytes (``total_mb``)."""
        tensorflow = require_tensorflow()
        kinds = (tensorflow.Tensor, tensorflow.Variable)
        tensors = [item for item in gc.get_objects() if isinstance(item, kinds)]
        return {"count": len(tensors), "total_mb": sum(map(_tensor_bytes, tensors)) / MB}

    def get_tensor_lifecycle(self) -> list[dict[str, Any]]:
        """The tensors that were passed to ``track_tensor``: operation, shape, type and time."""
        return list(self._seen.values())


def _tensor_bytes(tensor: Any) -> int:
    try:
        return int(tensor.shape.num_elements()) * int(tensor.dtype.size)
    except Exception:
        # A symbolic tensor has no size.
        return 0


class TFMemoryProfiler(SnapshotProfiler[MemorySnapshot]):
    """Takes a snapshot (:class:`MemorySnapshot`) before and after each measured function or
    block."""

    def __init__(self, device: str | None = None, enable_tensor_tracking: bool = True) -> None:
        super().__init__("stormlog-tf-profiler")
        require_tensorflow()
        self.device = device or default_device()
        self.enable_tensor_tracking = enable_tensor_tracking
        self.tensor_tracker = TensorTracker() if enable_tensor_tracking else None

    def capture_snapshot(self, name: str = "snapshot") -> MemorySnapshot:
        """Read the counters now. The snapshot is also added to the results."""
        device_mb = 0.0 if is_cpu(self.device) else device_bytes(self.device) / MB
        tensors = {"count": 0, "total_mb": 0.0}
        if self.tensor_tracker is not None:
            tensors = self.tensor_tracker.get_active_tensors()
        snapshot = MemorySnapshot(
            timestamp=time.time(),
            name=name,
            gpu_memory_mb=device_mb,
            cpu_memory_mb=resident_mb(),
            gpu_memory_reserved_mb=device_mb,
            gpu_utilization=0.0,
            num_tensors=int(tensors["count"]),
            tensor_sizes={"total_mb": tensors["total_mb"]},
        )
        self.snapshots.append(snapshot)
        return snapshot

    def _take(self, name: str, operation: str | None) -> MemorySnapshot:
        return self.capture_snapshot(name)

    def _count(
        self, name: str, seconds: float, before: MemorySnapshot, after: MemorySnapshot
    ) -> None:
        profile = self.function_profiles.setdefault(
            name,
            {
                "calls": 0,
                "total_duration": 0.0,
                "total_memory_used": 0.0,
                "peak_memory": 0.0,
                "snapshots": [],
            },
        )
        profile["calls"] += 1
        profile["total_duration"] += seconds
        profile["total_memory_used"] += max(0.0, after.gpu_memory_mb - before.gpu_memory_mb)
        peak = max(before.gpu_memory_mb, after.gpu_memory_mb)
        profile["peak_memory"] = max(profile["peak_memory"], peak)
        profile["snapshots"] += [before, after]

    def profile_function(self, func: F) -> F:
        """The function with every call measured."""
        return self._decorated(func, func.__name__)

    @contextmanager
    def profile_context(self, name: str = "context") -> Iterator[None]:
        """Measure the block of a ``with`` statement."""
        with self._measured(name, "start", "end"):
            yield

    def get_results(self) -> ProfileResult:
        """The results so far."""
        now = time.time()
        usage = [snapshot.gpu_memory_mb for snapshot in self.snapshots]
        steps = list(itertools.pairwise(usage))
        reserved = sum(snapshot.gpu_memory_reserved_mb for snapshot in self.snapshots)
        lifecycle = self.tensor_tracker.get_tensor_lifecycle() if self.tensor_tracker else []
        return ProfileResult(
            start_time=self.snapshots[0].timestamp if self.snapshots else now,
            end_time=self.snapshots[-1].timestamp if self.snapshots else now,
            peak_memory_mb=max(usage, default=0.0),
            average_memory_mb=sum(usage) / len(usage) if usage else 0.0,
            min_memory_mb=min(usage, default=0.0),
            total_allocations=sum(1 for before, after in steps if after > before),
            total_deallocations=sum(1 for before, after in steps if after < before),
            snapshots=list(self.snapshots),
            function_profiles=dict(self.function_profiles),
            tensor_lifecycle={"tensors": lifecycle} if lifecycle else {},
            memory_fragmentation=1 - sum(usage) / reserved if reserved > 0 else 0.0,
        )


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
