"""Facts about the machine, for the system information of ``stormlog.tensorflow`` and
``stormlog.jax``."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from .. import _core
from .._system import percent_used

_GB = 1 << 30
_UNITS = ("B", "KB", "MB", "GB", "TB")


def is_apple_silicon() -> bool:
    """Whether this is a Mac with an Apple GPU."""
    return sys.platform == "darwin" and platform.machine() == "arm64"


def machine_facts(version: tuple[str, str]) -> dict[str, Any]:
    """Facts about the machine, Python and a framework; ``version`` is the key and the value of the
    framework's version."""
    total, available, _ = _core.machine_memory()
    return {
        "platform": platform.platform(),
        "python_version": platform.python_version(),
        version[0]: version[1],
        "cpu_count": os.cpu_count(),
        "total_memory_gb": None if total is None else total / _GB,
        "available_memory_gb": None if available is None else available / _GB,
    }


def memory_percent_used() -> float | None:
    """The used share of the machine's memory in percent; None where it cannot be read."""
    total, available, _ = _core.machine_memory()
    return percent_used(total, available)


def format_memory(bytes_value: int | float | None) -> str:
    """A number of bytes as text, with two decimals and a unit; ``N/A`` for None."""
    if bytes_value is None:
        return "N/A"
    value = float(bytes_value)
    for unit in _UNITS:
        if value < 1024:
            return f"{value:.2f} {unit}"
        value /= 1024
    return f"{value:.2f} PB"


def version_pair(text: str) -> tuple[int, int] | None:
    """The first two numbers of a version; None when the text does not begin with two numbers."""
    parts = text.split(".")[:2]
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    return int(parts[0]), int(parts[1])
