"""Tables for notebooks. Everything in them is escaped; nothing from a file becomes markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of texts; empty when there are no rows."""
    body = "".join(_row("td", row) for row in rows)
    return f"<table><thead>{_row('th', headings)}</thead><tbody>{body}</tbody></table>" if body else ""


def page(headline: str, *parts: str) -> str:
    """HTML with a headline and, below it, the given parts, which are HTML already."""
    return f"<div><p><strong>{escape(headline)}</strong></p>{''.join(parts)}</div>"


def heading(text: str) -> str:
    """A heading between tables."""
    return f"<p>{escape(text)}</p>"


def _row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"


def amount(value: float | None, unit: str = "bytes") -> str:
    """``1.50 GiB`` or ``3.00 MiB/min``; an unknown value is written as unknown."""
    if value is None:
        return "unknown"
    if unit == "bytes_per_s":
        return f"{amount(value * 60)}/min"
    for name in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or name == "TiB":
            break
        value /= 1024
    return f"{value:.0f} B" if name == "B" else f"{value:.2f} {name}"
