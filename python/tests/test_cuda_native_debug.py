"""Attribution of a snapshot that was captured before."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from stormlog import cuda_native_debug as native


def index(*pointers: int) -> dict[str, Any]:
    return {
        "device_index": 3,
        "attributed_storage_pointers": [
            {
                "storage_ptr": hex(pointer),
                "storage_ptr_int": pointer,
                "names": [f"p{pointer}"],
                "tensors": [],
            }
            for pointer in pointers
        ],
    }


def sizes(blocks: list[dict[str, Any]], *pointers: int) -> list[tuple[int, int]]:
    snapshot = {"segments": [{"address": 4096, "stream": 1, "blocks": blocks}]}
    report = native.build_snapshot_allocation_attribution(snapshot, index(*pointers))
    assert report["attributed_allocation_count"] == len(report["attributed_allocations"])
    return [(a["storage_ptr_int"], a["size_bytes"]) for a in report["attributed_allocations"]]


def test_blocks_are_matched_by_address_and_listed_by_it() -> None:
    blocks = [{"address": 768, "size": 1}, {"address": 256, "size": 2}, {"address": 9, "size": 3}]
    assert sizes(blocks, 768, 256) == [(256, 2), (768, 1)]


def test_a_blocks_history_takes_its_place() -> None:
    history = [{"addr": 300, "real_size": 77}, {"addr": 256}]
    assert sizes([{"address": 256, "size": 512, "history": history}], 256, 300) == [
        (256, 0),
        (300, 77),
    ]


def test_the_whole_entry() -> None:
    snapshot = [{"address": 4096, "blocks": [{"address": 256, "size": 1}]}]
    report = native.build_snapshot_allocation_attribution(snapshot, index(256))
    assert report == {
        "device_index": 3,
        "storage_pointer_count": 1,
        "attributed_allocation_count": 1,
        "attributed_allocations": [
            {
                "storage_ptr": "0x100",
                "storage_ptr_int": 256,
                "size_bytes": 1,
                "segment_address": "0x1000",
                "stream": None,
                "names": ["p256"],
                "tensors": [],
            }
        ],
    }


def test_what_is_no_snapshot() -> None:
    with pytest.raises(TypeError, match="Unsupported snapshot payload type: NoneType"):
        native.build_snapshot_allocation_attribution(None, index())


def test_the_files_of_a_snapshot(tmp_path: Path) -> None:
    snapshot = {"segments": [{"address": 4096, "blocks": [{"address": 256, "size": 8}]}]}
    names = native.write_cuda_snapshot_artifacts(
        tmp_path / "out", snapshot, index(256), history_recorded=True
    )
    assert sorted(names) == sorted(path.name for path in (tmp_path / "out").iterdir())
    stored = (tmp_path / "out" / native.SNAPSHOT_PICKLE_FILENAME).read_bytes()
    assert pickle.loads(stored) == snapshot
    metadata = json.loads((tmp_path / "out" / native.DEBUG_METADATA_FILENAME).read_text())
    assert metadata["attributed_allocation_count"] == 1 and metadata["history_recorded"]
    # PyTorch's own page needs PyTorch, and the metadata records that; ours does not.
    assert not metadata["trace_html_written"] and "PyTorch" in metadata["warnings"][0]
    assert metadata["annotated_trace_html_written"]
    page = (tmp_path / "out" / native.TRACE_HTML_ANNOTATED_FILENAME).read_text()
    assert "p256" in page and "cuda:3" in page
