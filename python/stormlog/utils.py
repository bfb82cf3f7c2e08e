"""Convert and format byte counts; information about the machine and the memory of a CUDA device."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ._system import system_info
from ._torch import require_torch
from .errors import InvalidValueError

if TYPE_CHECKING:
    import torch

__all__ = [
    "MemoryContext",
    "check_memory_fragmentation",
    "convert_bytes",
    "format_bytes",
    "get_gpu_info",
    "get_system_info",
    "memory_summary",
    "suggest_memory_optimization",
]

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_CONVERTIBLE = _UNITS[:-1]


def format_bytes(bytes_value: int, precision: int = 2) -> str:
    """A byte count as text, in the largest unit (up to PB) of which it is at least one. Units are
    powers of 1024."""
    if bytes_value == 0:
        return "0 B"
    sign = "-" if bytes_value < 0 else ""
    value = float(abs(bytes_value))
    for unit in _UNITS:
        if not value >= 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{sign}{value:.{precision}f} {unit}"


def convert_bytes(value: int | float, from_unit: str, to_unit: str) -> float:
    """Convert a size between units: B, KB, MB, GB or TB, powers of 1024."""
    if from_unit not in _CONVERTIBLE or to_unit not in _CONVERTIBLE:
        raise InvalidValueError(f"Invalid unit. Must be one of: {list(_CONVERTIBLE)}")
    return value * _bytes_in(from_unit) / _bytes_in(to_unit)


def _bytes_in(unit: str) -> int:
    return 1 << 10 * _UNITS.index(unit)


def get_system_info() -> dict[str, Any]:
    """Facts about the machine, Python and PyTorch. PyTorch is imported if it is installed."""
    # If PyTorch cannot be imported, the result states that no device is available.
    with contextlib.suppress(Exception):
        require_torch()
    return system_info()


def get_gpu_info(device: str | int | torch.device | None = None) -> dict[str, Any]:
    """What PyTorch reports about a CUDA device and its memory. When CUDA is not available, the
    result is a dictionary with the only key ``error``."""
    torch = require_torch()
    if not torch.cuda.is_available():
        return {"error": "CUDA is not available"}
    place = torch.device("cuda" if device is None else device)
    index = torch.cuda.current_device() if place.index is None else place.index
    if place.type != "cuda":
        return {"device_name": place.type, "pytorch_version": torch.__version__}
    properties = torch.cuda.get_device_properties(index)
    stats = torch.cuda.memory_stats(index)
    return {
        "device_id": index,
        "device_name": properties.name,
        "device_capability": (properties.major, properties.minor),
        "total_memory": properties.total_memory,
        "multiprocessor_count": properties.multi_processor_count,
        "cuda_version": torch.version.cuda,
        "pytorch_version": torch.__version__,
        "allocated_memory": torch.cuda.memory_allocated(index),
        "reserved_memory": torch.cuda.memory_reserved(index),
        "max_memory_allocated": torch.cuda.max_memory_allocated(index),
        "max_memory_reserved": torch.cuda.max_memory_reserved(index),
        "memory_stats": {
            "active_bytes": stats.get("active_bytes.all.current", 0),
            "inactive_bytes": stats.get("inactive_split_bytes.all.current", 0),
            "reserved_bytes": stats.get("reserved_bytes.all.current", 0),
            "num_alloc_retries": stats.get("num_alloc_retries", 0),
            "num_ooms": stats.get("num_ooms", 0),
        },
    }


def check_memory_fragmentation(device: str | int | torch.device | None = None) -> dict[str, Any]:
    """How much memory of a CUDA device PyTorch's allocator has reserved, uses and leaves unused: in
    bytes, as text, and as shares. When CUDA is not available, the only key is ``error``."""
    torch = require_torch()
    if not torch.cuda.is_available():
        return {"error": "CUDA is not available"}
    place = torch.device("cuda" if device is None else device)
    index = torch.cuda.current_device() if place.index is None else place.index
    stats = torch.cuda.memory_stats(index)
    total = torch.cuda.get_device_properties(index).total_memory
    allocated, reserved, active, inactive = (
        stats.get(f"{name}.all.current", 0)
        for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes")
    )
    sizes = {
        "total_memory": total,
        "allocated_memory": allocated,
        "reserved_memory": reserved,
        "active_memory": active,
        "inactive_memory": inactive,
        "free_memory": total - reserved,
    }
    return {
        "device_id": index,
        **sizes,
        "fragmentation_ratio": inactive / reserved if reserved else 0,
        "utilization_ratio": allocated / total,
        "reservation_ratio": reserved / total,
        "waste_ratio": (reserved - allocated) / total if reserved else 0,
        **{f"{name}_formatted": format_bytes(size) for name, size in sizes.items()},
    }


_GENERAL_ADVICE = (
    "Use torch.no_grad() context for inference to reduce memory usage.",
    "Consider using mixed precision training (torch.cuda.amp) to reduce memory footprint.",
    "Profile memory usage at different points in your code to identify bottlenecks.",
    "Use del statement to explicitly delete large tensors when no longer needed.",
)


def suggest_memory_optimization(fragmentation_info: dict[str, Any]) -> list[str]:
    """Suggestions for using less memory, from the result of :func:`check_memory_fragmentation`."""
    fragmented, used, wasted = (
        fragmentation_info.get(f"{name}_ratio", 0)
        for name in ("fragmentation", "utilization", "waste")
    )
    advice = []
    if fragmented > 0.3:
        advice.append(
            "High memory fragmentation detected. Consider calling torch.cuda.empty_cache()"
            " periodically or restructuring your code to reduce fragmentation."
        )
    if used < 0.3:
        advice.append(
            "Low GPU memory utilization. Consider increasing batch size or using a larger model"
            " to better utilize available memory."
        )
    elif used > 0.9:
        advice.append(
            "Very high GPU memory utilization. Consider reducing batch size, using gradient"
            " checkpointing, or model parallelism."
        )
    if wasted > 0.2:
        advice.append(
            "Significant memory waste detected. Review memory allocation patterns and consider"
            " using more efficient data structures."
        )
    return [*advice, *_GENERAL_ADVICE]


def memory_summary(device: str | int | torch.device | None = None) -> str:
    """The memory of a CUDA device as text of several lines, with suggestions for using less."""
    gpu, memory = get_gpu_info(device), check_memory_fragmentation(device)

    def size(name: str) -> str:
        return format_bytes(memory.get(f"{name}_memory", 0))

    def share(name: str) -> str:
        return f"{memory.get(f'{name}_ratio', 0) * 100:.1f}%"

    advice = suggest_memory_optimization(memory)
    lines = [
        "=" * 60,
        "GPU MEMORY SUMMARY",
        "=" * 60,
        f"Device: {gpu.get('device_name', 'Unknown')} (cuda:{gpu.get('device_id', 0)})",
        f"Total Memory: {size('total')}",
        "",
        "Current Memory Usage:",
        f"  Allocated: {size('allocated')}",
        f"  Reserved:  {size('reserved')}",
        f"  Free:      {size('free')}",
        "",
        "Memory Ratios:",
        f"  Utilization: {share('utilization')}",
        f"  Reservation: {share('reservation')}",
        f"  Fragmentation: {share('fragmentation')}",
        f"  Waste: {share('waste')}",
        "",
        "Optimization Suggestions:",
        *(f"  {number}. {text}" for number, text in enumerate(advice, 1)),
        "",
        "=" * 60,
    ]
    return "\n".join(lines)


class MemoryContext:
    """Measures the allocated memory of a CUDA device around a ``with`` block. PyTorch's peak
    counter is reset at the start of the block."""

    def __init__(
        self,
        name: str = "memory_context",
        device: str | int | torch.device | None = None,
    ) -> None:
        self.name = name
        self.device = device
        self.start_memory: int | None = None
        self.end_memory: int | None = None
        self.peak_memory: int | None = None

    def __enter__(self) -> MemoryContext:
        cuda = require_torch().cuda
        cuda.reset_peak_memory_stats(self.device)
        self.start_memory = cuda.memory_allocated(self.device)
        return self

    def __exit__(self, *exception: object) -> None:
        cuda = require_torch().cuda
        cuda.synchronize(self.device)
        self.end_memory = cuda.memory_allocated(self.device)
        self.peak_memory = cuda.max_memory_allocated(self.device)

    def get_summary(self) -> dict[str, Any]:
        """The memory before and after the block, its peak and its change, in bytes and as text."""
        start, end, peak = self.start_memory, self.end_memory, self.peak_memory
        if start is None or end is None or peak is None:
            return {"error": "Context not properly initialized"}
        sizes = {
            "start_memory": start,
            "end_memory": end,
            "peak_memory": peak,
            "memory_diff": end - start,
            "peak_memory_usage": peak - start,
        }
        words = {f"{name}_formatted": format_bytes(size) for name, size in sizes.items()}
        return {"name": self.name, **sizes, **words}
