"""Makes HTML tables for notebooks. All texts in them are escaped, so no text of a file becomes
markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table of texts; an empty string when there are no rows."""
    body = "".join(_row("td", row) for row in rows)
    return (
        f"<table><thead>{_row('th', headings)}</thead><tbody>{body}</tbody></table>" if body else ""
    )


def page(headline: str, *parts: str) -> str:
    """HTML with a headline and, below it, the given parts. The parts must be HTML; they are not
    escaped."""
    return f"<div><p><strong>{escape(headline)}</strong></p>{''.join(parts)}</div>"


def heading(text: str) -> str:
    """A heading between tables, as HTML."""
    return f"<p>{escape(text)}</p>"


def _row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"


def amount(value: float | None, unit: str = "bytes") -> str:
    """A number of bytes as text, such as ``1.50 GiB``; None becomes ``unknown``. With the unit
    ``bytes_per_s``, the value is a rate per second and is shown per minute, as ``3.00 MiB/min``."""
    if value is None:
        return "unknown"
    if unit == "bytes_per_s":
        return f"{amount(value * 60)}/min"
    for name in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or name == "TiB":
            break
        value /= 1024
    return f"{value:.0f} B" if name == "B" else f"{value:.2f} {name}"
