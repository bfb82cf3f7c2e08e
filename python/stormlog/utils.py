"""Small helpers for people who read byte counts, and what machine this is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._system import system_info
from ._torch import require_torch
from .errors import InvalidValueError

if TYPE_CHECKING:
    import torch

__all__ = ["convert_bytes", "format_bytes", "get_gpu_info", "get_system_info"]

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_CONVERTIBLE = _UNITS[:-1]


def format_bytes(bytes_value: int, precision: int = 2) -> str:
    """A byte count in the largest unit that keeps it at least one; units are powers of 1024."""
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
    """A size in another unit: B, KB, MB, GB or TB, powers of 1024."""
    if from_unit not in _CONVERTIBLE or to_unit not in _CONVERTIBLE:
        raise InvalidValueError(f"Invalid unit. Must be one of: {list(_CONVERTIBLE)}")
    return value * _bytes_in(from_unit) / _bytes_in(to_unit)


def _bytes_in(unit: str) -> int:
    return 1 << 10 * _UNITS.index(unit)


def get_system_info() -> dict[str, Any]:
    """The machine, Python, and PyTorch when the program uses it."""
    return system_info()


def get_gpu_info(device: str | int | torch.device | None = None) -> dict[str, Any]:
    """What PyTorch knows of a device; ``{"error": ...}`` when there is none."""
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
