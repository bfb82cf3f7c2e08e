"""Collects facts about the machine, Python and PyTorch, without importing a framework."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from . import _core
from ._installed import is_installed
from ._torch import loaded_torch


def system_info() -> dict[str, Any]:
    """Facts about the machine and Python, and about PyTorch if the program has imported it. Memory
    is in bytes. The facts contain no environment variable."""
    total, available, limit = _core.machine_memory()
    torch = loaded_torch()
    info: dict[str, Any] = {
        "platform": platform.system(),
        "architecture": platform.machine(),
        "python_version": sys.version,
        "torch_available": is_installed("torch"),
        **_torch_info(torch),
        "cpu_count": os.cpu_count(),
        "cpu_count_logical": os.cpu_count(),
        "memory_total": total,
        "memory_available": available,
        "memory_percent": percent_used(total, available),
    }
    if limit is not None:
        info["memory_limit"] = limit
    return info


def percent_used(total: int | None, available: int | None) -> float | None:
    """The used share of the machine's memory in percent; None where it cannot be read."""
    if not total or available is None:
        return None
    return round((total - available) / total * 100, 1)


def _torch_info(torch: Any) -> dict[str, Any]:
    info: dict[str, Any] = {
        "cuda_available": False,
        "rocm_available": False,
        "rocm_version": None,
        "mps_available": False,
        "mps_built": False,
        "detected_backend": "cpu",
    }
    if torch is None:
        return info
    try:
        hip = getattr(torch.version, "hip", None)
        cuda = bool(torch.cuda.is_available())
        mps = getattr(torch.backends, "mps", None)
        info["cuda_available"] = cuda
        info["rocm_available"] = cuda and hip is not None
        info["rocm_version"] = hip
        info["mps_available"] = mps is not None and bool(mps.is_available())
        info["mps_built"] = mps is not None and bool(mps.is_built())
        if cuda:
            info["detected_backend"] = "cuda" if hip is None else "rocm"
            info["cuda_device_count"] = torch.cuda.device_count()
            info["cuda_version"] = torch.version.cuda
            cudnn = getattr(torch.backends, "cudnn", None)
            info["cudnn_version"] = None if cudnn is None else cudnn.version()
            info["current_device"] = torch.cuda.current_device()
        elif info["mps_available"]:
            info["detected_backend"] = "mps"
    except Exception as error:
        # This is often called when the framework has problems. The facts known so far are kept.
        info["runtime_error"] = str(error)
    return info
