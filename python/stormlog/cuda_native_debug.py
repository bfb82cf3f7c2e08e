"""Which tensors hold which allocations of a PyTorch memory snapshot.

Attribution works on data that was captured before; recording allocator history is not
supported yet and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
from .errors import InvalidTypeError, NotSupportedError

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
    """The allocations of a snapshot that tensors of the index point to, by address."""
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
    """Addresses and sizes in a segment: what a block's history names, else the block itself."""
    for block in segment.get("blocks", []):
        history = block.get("history") or []
        for entry in history:
            if "addr" in entry:
                yield int(entry["addr"]), int(entry.get("real_size", 0))
        if not history and "address" in block:
            yield int(block["address"]), int(block.get("size", 0))


def cuda_memory_history_supported() -> bool:
    """Whether allocator history can be recorded."""
    return False


def build_cuda_tensor_attribution_index(
    device: Any = None, *, skip_gc: bool = False
) -> dict[str, Any]:
    """Index live CUDA tensors by storage; not supported yet."""
    raise _not_supported()


def start_cuda_memory_history(
    device: Any = None, trace_alloc_max_entries: int = DEFAULT_TRACE_ALLOC_MAX_ENTRIES
) -> None:
    """Start recording allocator history; not supported yet."""
    raise _not_supported()


def stop_cuda_memory_history(device: Any = None) -> None:
    """Stop recording allocator history; not supported yet."""
    raise _not_supported()


@contextmanager
def cuda_memory_history(
    device: Any = None, trace_alloc_max_entries: int = DEFAULT_TRACE_ALLOC_MAX_ENTRIES
) -> Iterator[None]:
    """Record allocator history around a block; not supported yet."""
    raise _not_supported()
    yield


def capture_cuda_snapshot_artifacts(
    output_dir: Path, *, device: Any = None, history_recorded: bool
) -> list[str]:
    """Write a snapshot and its attribution; not supported yet."""
    raise _not_supported()


def write_cuda_snapshot_artifacts(
    output_dir: Path,
    snapshot: Any,
    tensor_index: dict[str, Any],
    *,
    history_recorded: bool,
    device: Any = None,
) -> list[str]:
    """Write a snapshot that was captured before, and what it shows; the names of the files."""
    attribution = build_snapshot_allocation_attribution(snapshot, tensor_index)
    return write_files(
        Path(output_dir), snapshot, tensor_index, attribution, history_recorded=history_recorded
    )


def _not_supported() -> NotSupportedError:
    return NotSupportedError(
        "native CUDA memory history is not supported yet; take a snapshot with "
        "torch.cuda.memory._snapshot() and attribute it with build_snapshot_allocation_attribution"
    )
