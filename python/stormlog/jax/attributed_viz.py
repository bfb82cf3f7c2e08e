"""HTML pages of the functions that hold a device's memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import _core

__all__ = ["format_bytes", "render_jax_attributed_html"]

_UNITS = ("B", "KB", "MB", "GB")


def format_bytes(b: float) -> str:
    """A byte count with two decimals."""
    value = float(b)
    for unit in _UNITS:
        if abs(value) < 1024:
            return f"{value:.2f}{unit}"
        value /= 1024
    return f"{value:.2f}TB"


def render_jax_attributed_html(
    profile_data: dict[str, Any], output_path: str = "jax_memory_graph.html"
) -> str:
    """Write an HTML page of the result of ``parse_jax_memory_profile``, and return its text."""
    samples = [(one["stack"], one["values"]) for one in profile_data.get("samples", [])]
    page = _core.device_profile_page(samples)
    Path(output_path).write_text(page, encoding="utf-8")
    return page
