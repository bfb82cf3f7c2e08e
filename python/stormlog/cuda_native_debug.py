"""The history of PyTorch's CUDA allocator, and the tensors that hold its memory.

``stormlog show cuda_allocator_snapshot.pickle`` shows such a snapshot on any machine, without
PyTorch.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import _cuda_history, _tensor_index
from ._snapshot_files import (
    ALLOCATION_ATTRIBUTION_FILENAME,
    DEBUG_METADATA_FILENAME,
    SEGMENT_SUMMARY_FILENAME,
    SNAPSHOT_PICKLE_FILENAME,
    TENSOR_ATTRIBUTION_FILENAME,
    TRACE_HTML_ANNOTATED_FILENAME,
    TRACE_HTML_FILENAME,
    TRACE_SUMMARY_FILENAME,
    write_files,
)
from ._torch import require_torch
from .errors import InvalidTypeError

__all__ = [
    "ALLOCATION_ATTRIBUTION_FILENAME",
    "DEBUG_METADATA_FILENAME",
    "DEFAULT_TRACE_ALLOC_MAX_ENTRIES",
    "SEGMENT_SUMMARY_FILENAME",
    "SNAPSHOT_PICKLE_FILENAME",
    "TENSOR_ATTRIBUTION_FILENAME",
    "TRACE_HTML_ANNOTATED_FILENAME",
    "TRACE_HTML_FILENAME",
    "TRACE_SUMMARY_FILENAME",
    "build_cuda_tensor_attribution_index",
    "build_snapshot_allocation_attribution",
    "capture_cuda_snapshot_artifacts",
    "cuda_memory_history",
    "cuda_memory_history_supported",
    "start_cuda_memory_history",
    "stop_cuda_memory_history",
    "write_cuda_snapshot_artifacts",
]

DEFAULT_TRACE_ALLOC_MAX_ENTRIES = 100_000


def build_snapshot_allocation_attribution(
    snapshot: Any, tensor_index: dict[str, Any]
) -> dict[str, Any]:
    """The allocations of a snapshot that belong to tensors in ``tensor_index``, in order of their
    addresses."""
    pointers = {
        int(entry["storage_ptr_int"]): entry
        for entry in tensor_index.get("attributed_storage_pointers", [])
    }
    found: dict[int, dict[str, Any]] = {}
    for segment in _segments(snapshot):
        for address, size in _allocations(segment):
            if (owner := pointers.get(address)) is not None:
                found[address] = {
                    "storage_ptr": owner["storage_ptr"],
                    "storage_ptr_int": address,
                    "size_bytes": size,
                    "segment_address": hex(int(segment.get("address", 0))),
                    "stream": segment.get("stream"),
                    "names": list(owner.get("names", [])),
                    "tensors": list(owner.get("tensors", [])),
                }
    return {
        "device_index": tensor_index.get("device_index"),
        "storage_pointer_count": len(pointers),
        "attributed_allocation_count": len(found),
        "attributed_allocations": [found[address] for address in sorted(found)],
    }


def _segments(snapshot: Any) -> list[Mapping[str, Any]]:
    if isinstance(snapshot, Mapping):
        return list(snapshot.get("segments", []))
    if isinstance(snapshot, list):
        return list(snapshot)
    raise InvalidTypeError(f"Unsupported snapshot payload type: {type(snapshot).__name__}")


def _allocations(segment: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """The addresses and sizes of the allocations in a segment: those in the history of each block,
    or the block itself if it has no history."""
    for block in segment.get("blocks", []):
        history = block.get("history") or []
        for entry in history:
            if "addr" in entry:
                yield int(entry["addr"]), int(entry.get("real_size", 0))
        if not history and "address" in block:
            yield int(block["address"]), int(block.get("size", 0))


def cuda_memory_history_supported() -> bool:
    """Whether the history of PyTorch's CUDA allocator can be recorded here."""
    return _cuda_history.is_supported()


def build_cuda_tensor_attribution_index(
    device: Any = None, *, skip_gc: bool = False
) -> dict[str, Any]:
    """The live tensors of a CUDA device by the address of their storage, with their names.

    Names are those of module parameters and buffers, their gradients, and the values that an
    optimizer keeps for them. Other tensors are named by the keys of dictionaries that hold them.
    The index contains plain data and keeps no tensor alive.
    """
    _cuda_history.memory_functions()
    if not skip_gc:
        gc.collect()
    return _tensor_index.index_of(_device_index(device))


def start_cuda_memory_history(
    device: Any = None, trace_alloc_max_entries: int = DEFAULT_TRACE_ALLOC_MAX_ENTRIES
) -> None:
    """Start recording the history of PyTorch's CUDA allocator. PyTorch records all devices at once,
    so ``device`` has no effect.

    A history that the program already records continues unchanged.
    """
    _cuda_history.switch_on(trace_alloc_max_entries)


def stop_cuda_memory_history(device: Any = None) -> None:
    """Stop the history that ``start_cuda_memory_history`` started. A history that the program
    started itself continues."""
    _cuda_history.switch_off()


@contextmanager
def cuda_memory_history(
    device: Any = None, trace_alloc_max_entries: int = DEFAULT_TRACE_ALLOC_MAX_ENTRIES
) -> Iterator[None]:
    """Record the history of PyTorch's CUDA allocator during a ``with`` block."""
    start_cuda_memory_history(device, trace_alloc_max_entries)
    try:
        yield
    finally:
        stop_cuda_memory_history(device)


def capture_cuda_snapshot_artifacts(
    output_dir: Path, *, device: Any = None, history_recorded: bool, skip_gc: bool = False
) -> list[str]:
    """Write a snapshot of the allocator and a list of the tensors in it; return the file names.

    With ``skip_gc`` garbage is not collected first. The snapshot then includes tensors that only
    garbage holds, which may be what fills the memory.
    """
    functions = _cuda_history.memory_functions()
    if not skip_gc:
        gc.collect()
    snapshot = functions._snapshot()
    index = _tensor_index.index_of(_device_index(device))
    return write_cuda_snapshot_artifacts(
        output_dir, snapshot, index, history_recorded=history_recorded, device=device
    )


def _device_index(device: Any) -> int:
    torch = require_torch()
    if device is None:
        return int(torch.cuda.current_device())
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return int(torch.cuda.current_device()) if index is None else int(index)


def write_cuda_snapshot_artifacts(
    output_dir: Path,
    snapshot: Any,
    tensor_index: dict[str, Any],
    *,
    history_recorded: bool,
    device: Any = None,
) -> list[str]:
    """Write a given snapshot, summaries of it and its tensors to files; return the file names."""
    attribution = build_snapshot_allocation_attribution(snapshot, tensor_index)
    return write_files(
        Path(output_dir), snapshot, tensor_index, attribution, history_recorded=history_recorded
    )
