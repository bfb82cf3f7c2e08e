"""Diagnoses this process with JAX's own counters.

The command ``jaxmemprof diagnose`` diagnoses any process, command or GPU from outside.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._compat.legacy_names import legacy_names
from .._frameworks import diagnose as shared
from .._frameworks.diagnose import HIGH_UTILIZATION_RATIO, MANIFEST_VERSION
from .._frameworks.sizes import resident_bytes
from .tracker import MemoryTracker
from .utils import get_backend_info, get_device_info, get_system_info

__all__ = [
    "HIGH_UTILIZATION_RATIO",
    "MANIFEST_VERSION",
    "build_diagnostic_summary",
    "collect_environment",
    "run_diagnose",
    "run_timeline_capture",
]


class _Tracker(MemoryTracker):
    session_source = "jaxmemprof diagnose"


def _maker(device_index: int | str) -> shared.MakeTracker:
    return shared.making(_Tracker, device_index=device_index)


def collect_environment(device_index: int | str = 0) -> dict[str, Any]:
    """The machine, JAX, and the device with its counters."""
    return {
        "system": get_system_info(),
        "backend": get_backend_info(),
        "device": get_device_info(device_index),
        "fragmentation": {"note": "JAX does not report the fragmentation of its allocator"},
    }


def run_timeline_capture(
    device_index: int | str, duration_seconds: float, interval: float
) -> dict[str, Any]:
    """Record for a number of seconds. Returns the times, allocated bytes and reserved bytes as
    lists (empty with 0 seconds), and whether JAX reports the memory of the device."""
    device = get_device_info(device_index)
    known = device["memory_stats_available"]
    captured: dict[str, Any] = dict(
        shared.timeline(_maker(device_index), duration_seconds, interval)
    )
    captured["device_memory_available"] = known
    if not known:
        captured["device_memory_unavailable_reason"] = device["memory_stats_error"]
        captured["process_memory_bytes"] = resident_bytes()
    return captured


def build_diagnostic_summary(device_index: int | str = 0) -> tuple[dict[str, Any], bool]:
    """The current state of memory (unknown values are ``None``), and whether there is a memory
    risk."""
    return shared.summary("jax", _maker(device_index), collect_environment(device_index))


def run_diagnose(
    output: str | None, device_index: int | str, duration: float, interval: float, command_line: str
) -> tuple[Path, int]:
    """Record this process for ``duration`` seconds and write a bundle; returns its directory and
    the exit code.

    The exit code is 0 when no memory risk was found, 2 when one was found, and 1 on failure.
    """
    environment = collect_environment(device_index)
    make = _maker(device_index)
    directory, code, _, _ = shared.diagnose(
        "jax", make, environment, output, duration, interval, command_line
    )
    return directory, code


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
