"""Diagnoses this process with TensorFlow's own counters.

The command ``tfmemprof diagnose`` diagnoses any process, command or GPU from outside.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._compat.legacy_names import legacy_names
from .._frameworks import diagnose as shared
from .._frameworks.diagnose import HIGH_UTILIZATION_RATIO, MANIFEST_VERSION
from .tracker import MemoryTracker
from .utils import get_backend_info, get_gpu_info, get_system_info

__all__ = [
    "HIGH_UTILIZATION_RATIO",
    "MANIFEST_VERSION",
    "build_diagnostic_summary",
    "collect_environment",
    "run_diagnose",
    "run_timeline_capture",
]


class _Tracker(MemoryTracker):
    session_source = "tfmemprof diagnose"


def _maker(device: str | None) -> shared.MakeTracker:
    return shared.making(_Tracker, device=device)


def collect_environment(device: str | None = None) -> dict[str, Any]:
    """The machine, TensorFlow, and the GPUs that it sees."""
    return {
        "system": get_system_info(),
        "backend": get_backend_info(),
        "gpu": get_gpu_info(),
        "device": device,
        "fragmentation": {"note": "TensorFlow does not report what its allocator reserves"},
    }


def run_timeline_capture(
    device: str | None, duration_seconds: float, interval: float
) -> dict[str, list[float]]:
    """Record for a number of seconds. Returns the times, allocated bytes and reserved bytes as
    lists; with 0 seconds the lists are empty."""
    return shared.timeline(_maker(device), duration_seconds, interval)


def build_diagnostic_summary(device: str | None = None) -> tuple[dict[str, Any], bool]:
    """The current state of memory (unknown values are ``None``), and whether there is a memory
    risk."""
    return shared.summary("tensorflow", _maker(device), collect_environment(device))


def run_diagnose(
    output: str | None, device: str | None, duration: float, interval: float, command_line: str
) -> tuple[Path, int]:
    """Record this process for ``duration`` seconds and write a bundle; returns its directory and
    the exit code.

    The exit code is 0 when no memory risk was found, 2 when one was found, and 1 on failure.
    """
    environment = collect_environment(device)
    make = _maker(device)
    directory, code, _, _ = shared.diagnose(
        "tensorflow", make, environment, output, duration, interval, command_line
    )
    return directory, code


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
