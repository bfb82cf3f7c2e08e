"""Reads device memory profiles of JAX."""

from __future__ import annotations

from typing import Any

from .. import _core

__all__ = ["parse_jax_memory_profile"]


def parse_jax_memory_profile(file_path: str) -> dict[str, Any]:
    """The allocations of a device memory profile. Each has its ``stack``, with the outermost
    function first, and its ``values``: a count and a number of bytes."""
    samples = _core.read_device_profile(file_path)
    return {"samples": [{"stack": stack, "values": values} for stack, values in samples]}
