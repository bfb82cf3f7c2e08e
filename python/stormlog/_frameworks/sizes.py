"""Sizes of this process, and the megabyte of the TensorFlow and JAX packages (1024 * 1024
bytes)."""

from __future__ import annotations

from .. import _core
from ..errors import RecorderError

MB = 1024 * 1024


def resident_bytes() -> int | None:
    """The resident size of this process in bytes; None where it cannot be read."""
    sizes = _core.process_sizes()
    return sizes[0] if sizes else None


def read_process_sizes() -> tuple[int, int]:
    """The resident and the virtual size of this process in bytes. Raises ``RecorderError`` where
    they cannot be read."""
    sizes = _core.process_sizes()
    if sizes is None:
        raise RecorderError("cannot read the size of this process from '/proc/self/statm'")
    return sizes


def resident_mb() -> float:
    """The resident size of this process in megabytes; 0 where it cannot be read, as in stormlog
    0.3.9."""
    return (resident_bytes() or 0) / MB
