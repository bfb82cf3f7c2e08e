"""Writes files about a snapshot of PyTorch's allocator: the snapshot itself, a list of the tensors
that own its memory, summaries as text, and HTML pages."""

from __future__ import annotations

import importlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _core
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
    """Write all files that can be made from a snapshot; return their names in the order of writing.

    PyTorch itself makes the texts and one of the pages, so these are missing when the program has
    not loaded PyTorch. The page of PyTorch also needs a recorded history. Each file is written
    under a temporary name and then renamed, so a file with its final name is complete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = _Files(folder)
    stored = pickle.dumps(snapshot, protocol=4)
    index = _json(tensor_index)
    files.put(SNAPSHOT_PICKLE_FILENAME, stored)
    files.put(TENSOR_ATTRIBUTION_FILENAME, index)
    files.put(ALLOCATION_ATTRIBUTION_FILENAME, _json(attribution))
    viz = _torch_viz(files.warnings)
    if viz is not None:
        files.try_to_put(SEGMENT_SUMMARY_FILENAME, lambda: viz.segsum(snapshot))
        files.try_to_put(TRACE_SUMMARY_FILENAME, lambda: viz.trace(snapshot))
        if history_recorded:
            files.try_to_put(TRACE_HTML_FILENAME, lambda: viz.trace_plot(snapshot))
    device = tensor_index.get("device_index")
    files.try_to_put(
        TRACE_HTML_ANNOTATED_FILENAME,
        lambda: _core.allocator_snapshot_page(stored, index.decode(), int(device or 0)),
    )
    files.put(
        DEBUG_METADATA_FILENAME,
        _json(
            {
                "history_recorded": history_recorded,
                "warning_count": len(files.warnings),
                "warnings": files.warnings,
                "trace_html_written": TRACE_HTML_FILENAME in files.names,
                "annotated_trace_html_written": TRACE_HTML_ANNOTATED_FILENAME in files.names,
                "storage_pointer_count": attribution["storage_pointer_count"],
                "attributed_allocation_count": attribution["attributed_allocation_count"],
            }
        ),
    )
    return files.names


class _Files:
    """Writes files to a folder; keeps their names, and the reasons for missing files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.names: list[str] = []
        self.warnings: list[str] = []

    def put(self, name: str, content: bytes) -> None:
        unfinished = self._folder / f"{name}.tmp"
        try:
            unfinished.write_bytes(content)
            os.replace(unfinished, self._folder / name)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        self.names.append(name)

    def try_to_put(self, name: str, draw: Callable[[], object]) -> None:
        try:
            content = str(draw()).encode("utf-8", "replace")
        except Exception as error:
            self.warnings.append(f"{name}: {error}")
            return
        self.put(name, content)


def _torch_viz(warnings: list[str]) -> Any:
    """PyTorch's module that draws snapshots. None, with the reason added to ``warnings``, when the
    program has not loaded PyTorch or the module cannot be imported."""
    if loaded_torch() is None:
        warnings.append("PyTorch, which draws its own format, is not loaded")
        return None
    try:
        return importlib.import_module("torch.cuda._memory_viz")
    except Exception as error:
        warnings.append(f"PyTorch draws no snapshots: {error}")
        return None


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=2, default=str).encode()
