"""Sizes in megabytes, the unit of the TensorFlow and JAX packages."""

from __future__ import annotations

from .. import _core

MB = 1024 * 1024


def resident_bytes() -> int | None:
    """The resident size of this process; None where it cannot be read."""
    sizes = _core.process_sizes()
    return sizes[0] if sizes else None


def resident_mb() -> float:
    """The resident size of this process in megabytes; 0 where it cannot be read."""
    return (resident_bytes() or 0) / MB
