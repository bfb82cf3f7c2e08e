"""Diagnose this process: record samples, compute a verdict, write a bundle.

The command ``stormlog diagnose`` diagnoses any process, command or GPU; these functions
diagnose the program that calls them, with PyTorch's own counters when it uses a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _core
from ._compat.legacy_names import legacy_names
from ._frameworks import diagnose as shared
from ._frameworks.diagnose import HIGH_UTILIZATION_RATIO, MANIFEST_VERSION
from ._system import system_info
from ._torch import loaded_torch
from .cpu_profiler import CPUMemoryTracker
from .cuda_native_debug import (
    DEFAULT_TRACE_ALLOC_MAX_ENTRIES,
    capture_cuda_snapshot_artifacts,
    cuda_memory_history,
)
from .errors import InvalidValueError
from .telemetry_sink import TelemetrySinkConfig
from .tracker import MemoryTracker
from .utils import get_gpu_info

__all__ = [
    "FRAGMENTATION_WARNING_RATIO",
    "HIGH_UTILIZATION_RATIO",
    "MANIFEST_VERSION",
    "build_diagnostic_summary",
    "collect_environment",
    "run_diagnose",
    "run_timeline_capture",
]

FRAGMENTATION_WARNING_RATIO = 0.3


class _HostTracker(CPUMemoryTracker):
    session_source = "gpumemprof diagnose"


class _DeviceTracker(MemoryTracker):
    session_source = "gpumemprof diagnose"


def collect_environment(device: int | None = None) -> dict[str, Any]:
    """Facts about the machine, about the GPU that PyTorch uses, and about the memory of that GPU.
    When the program does not use a GPU, ``gpu`` has only the key ``error``."""
    gpu = get_gpu_info(device) if _uses_gpu() else {"error": "CUDA is not available"}
    return {"system": system_info(), "gpu": gpu, "fragmentation": _core.gpu_fragmentation(gpu)}


def run_timeline_capture(
    device: int | None, duration_seconds: float, interval: float
) -> dict[str, list[float]]:
    """Record for a number of seconds. Returns lists of times, allocated bytes and reserved bytes,
    with one entry per ``interval`` (in seconds); with 0 seconds the lists are empty."""
    return shared.timeline(
        partial(_tracker, device),
        duration_seconds,
        interval,
        lambda tracker: tracker.get_memory_timeline(interval),
    )


def build_diagnostic_summary(device: int | None = None) -> tuple[dict[str, Any], bool]:
    """A summary of the current memory use (unknown values are ``None``), and whether there is a
    memory risk."""
    return shared.summary(
        "torch",
        partial(_tracker, device),
        collect_environment(device),
        device=device,
        count_ooms=partial(_count_ooms, device),
    )


def run_diagnose(
    output: str | None,
    device: int | None,
    duration: float,
    interval: float,
    command_line: str,
    native_history: bool = False,
    native_history_max_entries: int = DEFAULT_TRACE_ALLOC_MAX_ENTRIES,
) -> tuple[Path, int]:
    """Record this process for ``duration`` seconds and write a bundle; return its directory and an
    exit code.

    The exit code is that of ``stormlog diagnose``: 0 when no risk was found, 2 on a memory risk,
    and 1 when the recording cannot be read back. Other failures raise an exception. With
    ``native_history`` PyTorch records what its CUDA allocator does meanwhile, and the bundle has a
    snapshot of that allocator.
    """
    capture: Callable[[Path], list[str]] | None = None
    history: AbstractContextManager[None] = nullcontext()
    if native_history:
        if native_history_max_entries <= 0:
            raise InvalidValueError("native_history_max_entries must be > 0")
        capture = partial(capture_cuda_snapshot_artifacts, device=device, history_recorded=True)
        history = cuda_memory_history(device, native_history_max_entries)
    with history:
        directory, code, _, _ = shared.diagnose(
            "torch",
            partial(_tracker, device),
            collect_environment(device),
            output,
            duration,
            interval,
            command_line,
            device=device,
            count_ooms=partial(_count_ooms, device),
            capture=capture,
        )
    return directory, code


def _uses_gpu() -> bool:
    torch: Any = loaded_torch()
    return torch is not None and bool(torch.cuda.is_available())


def _tracker(
    device: int | None, interval: float, sink: TelemetrySinkConfig | None
) -> CPUMemoryTracker | MemoryTracker:
    if _uses_gpu():
        return _DeviceTracker(device=device, sampling_interval=interval, telemetry_sink_config=sink)
    return _HostTracker(sampling_interval=interval, telemetry_sink_config=sink)


def _count_ooms(device: int | None) -> int:
    return int(collect_environment(device)["gpu"].get("memory_stats", {}).get("num_ooms", 0))


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
