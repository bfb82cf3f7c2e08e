"""The files that tell of a PyTorch memory snapshot: what was captured, whose it is, as text."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._torch import loaded_torch

ALLOCATION_ATTRIBUTION_FILENAME = "cuda_allocation_attribution.json"
DEBUG_METADATA_FILENAME = "cuda_native_debug_metadata.json"
SEGMENT_SUMMARY_FILENAME = "cuda_allocator_segments.txt"
SNAPSHOT_PICKLE_FILENAME = "cuda_allocator_snapshot.pickle"
TENSOR_ATTRIBUTION_FILENAME = "cuda_tensor_attribution.json"
TRACE_HTML_ANNOTATED_FILENAME = "cuda_allocator_state_history_annotated.html"
TRACE_HTML_FILENAME = "cuda_allocator_state_history.html"
TRACE_SUMMARY_FILENAME = "cuda_allocator_trace.txt"


def write_files(
    folder: Path,
    snapshot: Any,
    tensor_index: dict[str, Any],
    attribution: dict[str, Any],
    *,
    history_recorded: bool,
) -> list[str]:
    """Write everything that can be made of a snapshot; the names, in the order written.

    PyTorch draws the pictures and the texts of its own format, so there are none without it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [
        SNAPSHOT_PICKLE_FILENAME,
        TENSOR_ATTRIBUTION_FILENAME,
        ALLOCATION_ATTRIBUTION_FILENAME,
    ]
    (folder / names[0]).write_bytes(pickle.dumps(snapshot))
    _write_json(folder / names[1], tensor_index)
    _write_json(folder / names[2], attribution)
    warnings: list[str] = []
    drawn = _drawn_by_torch(folder, snapshot, history_recorded, warnings)
    names += drawn
    _write_json(
        folder / DEBUG_METADATA_FILENAME,
        {
            "history_recorded": history_recorded,
            "warning_count": len(warnings),
            "warnings": warnings,
            "trace_html_written": TRACE_HTML_FILENAME in drawn,
            "annotated_trace_html_written": False,
            "storage_pointer_count": attribution["storage_pointer_count"],
            "attributed_allocation_count": attribution["attributed_allocation_count"],
        },
    )
    return [*names, DEBUG_METADATA_FILENAME]


def _drawn_by_torch(
    folder: Path, snapshot: Any, history_recorded: bool, warnings: list[str]
) -> list[str]:
    viz = getattr(getattr(loaded_torch(), "cuda", None), "_memory_viz", None)
    if viz is None:
        warnings.append("PyTorch, which draws a snapshot, is not loaded or has no _memory_viz")
        return []
    wanted: list[tuple[str, Callable[[], object]]] = [
        (SEGMENT_SUMMARY_FILENAME, lambda: viz.segsum(snapshot)),
        (TRACE_SUMMARY_FILENAME, lambda: viz.trace(snapshot)),
    ]
    if history_recorded:
        wanted.append((TRACE_HTML_FILENAME, lambda: viz.trace_plot(snapshot)))
    written = []
    for name, draw in wanted:
        try:
            text = str(draw())
        except Exception as error:
            warnings.append(f"{name}: {error}")
            continue
        (folder / name).write_text(text, encoding="utf-8")
        written.append(name)
    return written


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, default=str), encoding="utf-8")
