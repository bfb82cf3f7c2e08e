"""Snapshots of PyTorch's allocator do not bring the program's garbage collections closer."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterator
from typing import Any

import pytest

from stormlog import _core

BLOCKS = 20_000


def snapshot(_pool: None) -> dict[str, Any]:
    """As many blocks as start dozens of collections when they are made."""
    blocks = [
        {"address": at, "size": 512, "state": "active_allocated", "frames": []}
        for at in range(BLOCKS)
    ]
    return {
        "segments": [
            {
                "device": 0,
                "blocks": blocks,
                "total_size": 0,
                "allocated_size": 0,
                "segment_pool_id": (0, 0),
            }
        ]
    }


@pytest.fixture
def collections() -> Iterator[list[int]]:
    found: list[int] = []

    def noticed(phase: str, facts: dict[str, int]) -> None:
        if phase == "start":
            found.append(facts["generation"])

    gc.callbacks.append(noticed)
    was_on = gc.isenabled()
    gc.enable()
    yield found
    gc.callbacks.remove(noticed)
    if not was_on:
        gc.disable()


@pytest.mark.parametrize("read", ["live_blocks", "pool_sizes"])
def test_a_snapshot_collects_no_garbage(collections: list[int], read: str) -> None:
    torch = types.ModuleType("torch")
    arguments = (torch, snapshot) if read == "live_blocks" else (torch, snapshot, 0)
    snapshot(None)
    assert collections, "the snapshot is too small to show anything"
    collections.clear()
    gc.collect()
    collections.clear()
    getattr(_core, read)(*arguments)
    assert len(collections) <= 1
    assert gc.isenabled()


def test_a_collector_that_the_program_disabled_stays_off(collections: list[int]) -> None:
    gc.disable()
    _core.live_blocks(types.ModuleType("torch"), snapshot)
    assert not gc.isenabled()


def test_a_snapshot_that_fails_leaves_the_collector_on(collections: list[int]) -> None:
    def fails(_pool: None) -> None:
        raise RuntimeError("no snapshot")

    with pytest.raises(RuntimeError, match="no snapshot"):
        _core.live_blocks(types.ModuleType("torch"), fails)
    assert gc.isenabled()
