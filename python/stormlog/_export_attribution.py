"""Reads the native-history files of a bundle and lists the tensor storages that hold memory."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from . import _core
from ._export_values import number, text
from ._snapshot_files import (
    ALLOCATION_ATTRIBUTION_FILENAME,
    DEBUG_METADATA_FILENAME,
    TENSOR_ATTRIBUTION_FILENAME,
    TRACE_HTML_ANNOTATED_FILENAME,
    TRACE_HTML_FILENAME,
)

MOST_ROWS = 200
_MOST_NAMES = 3
_PAGES = (TRACE_HTML_ANNOTATED_FILENAME, TRACE_HTML_FILENAME)
FILES = (
    *_PAGES,
    TENSOR_ATTRIBUTION_FILENAME,
    ALLOCATION_ATTRIBUTION_FILENAME,
    DEBUG_METADATA_FILENAME,
)

COLUMNS = ("name", "storage_ptr", "tensor_count", "total_size_bytes", "shape", "dtype")


class Attribution(NamedTuple):
    """The tensor storages with the most memory, and the names of the files with details."""

    files: list[str]
    # One row per storage, with the cells of `COLUMNS`; at most `MOST_ROWS`, the largest first.
    rows: list[list[Any]]
    # The number of all storages, including storages without a row.
    storages: int
    html_file: str | None
    history_recorded: bool | None

    def page(self) -> str:
        """The rows as a small HTML page. The cells come from an untrusted bundle, so all of them
        are escaped."""
        cells = "".join(
            "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        head = "".join(f"<th>{escape(column)}</th>" for column in COLUMNS)
        return (
            "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>"
            "<title>What holds memory</title><style>"
            "body{font:14px system-ui,sans-serif;margin:1rem}"
            "table{border-collapse:collapse}th,td{padding:.3rem .8rem;text-align:left;"
            "border-bottom:1px solid #8884}</style></head><body><h1>What holds memory</h1>"
            f"<p>{len(self.rows)} of {self.storages} storages, the largest first.</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table></body></html>"
        )


def attribution_of(bundle: Path) -> Attribution | None:
    """List the storages that hold memory, from the native-history files of a bundle; None when the
    bundle has no such files."""
    files = [name for name in FILES if _is_plain_file(bundle / name)]
    if not files:
        return None
    tensors = _core.sendable_document(bundle / TENSOR_ATTRIBUTION_FILENAME)
    storages = tensors.get("attributed_storage_pointers") if isinstance(tensors, Mapping) else None
    known = (
        [one for one in storages if isinstance(one, Mapping)] if isinstance(storages, list) else []
    )
    rows = sorted(map(_row, known), key=lambda row: -row[3])
    metadata = _core.sendable_document(bundle / DEBUG_METADATA_FILENAME)
    recorded = metadata.get("history_recorded") if isinstance(metadata, Mapping) else None
    return Attribution(
        files=files,
        rows=rows[:MOST_ROWS],
        storages=len(rows),
        html_file=next((name for name in _PAGES if name in files), None),
        history_recorded=recorded if isinstance(recorded, bool) else None,
    )


def _row(storage: Mapping[str, Any]) -> list[Any]:
    names = storage.get("names")
    names = [text(name) for name in names[:_MOST_NAMES]] if isinstance(names, list) else []
    tensors = storage.get("tensors")
    tensors = (
        [one for one in tensors if isinstance(one, Mapping)] if isinstance(tensors, list) else []
    )
    first: Mapping[str, Any] = tensors[0] if tensors else {}
    shape = first.get("shape")
    return [
        ", ".join(name for name in names if name) or "<unnamed>",
        text(storage.get("storage_ptr")) or "",
        len(tensors),
        sum(number(one.get("size_bytes")) or 0 for one in tensors),
        str(shape[:16]) if isinstance(shape, list) else text(shape) or "",
        text(first.get("dtype")) or "",
    ]


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
