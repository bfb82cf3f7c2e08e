"""Draws HTML pages of the functions that allocated the memory in use on a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import _core

__all__ = ["format_bytes", "render_jax_attributed_html"]

_UNITS = ("B", "KB", "MB", "GB")


def format_bytes(b: float) -> str:
    """A number of bytes as text, with two decimals and a unit, such as ``1.50MB``."""
    value = float(b)
    for unit in _UNITS:
        if abs(value) < 1024:
            return f"{value:.2f}{unit}"
        value /= 1024
    return f"{value:.2f}TB"


def render_jax_attributed_html(
    profile_data: dict[str, Any], output_path: str = "jax_memory_graph.html"
) -> str:
    """Write an HTML page of ``profile_data``, which ``parse_jax_memory_profile`` returns, and
    return the text of the page."""
    samples = [(one["stack"], one["values"]) for one in profile_data.get("samples", [])]
    page = _core.device_profile_page(samples)
    Path(output_path).write_text(page, encoding="utf-8")
    return page
