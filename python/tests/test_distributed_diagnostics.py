"""Ranks of many artifacts on one page: here and in stormlog 0.3.9."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from examples import event_v4
from fixtures import RUNS
from stormlog.errors import StormlogError
from stormlog.tui.distributed_diagnostics import (
    build_distributed_model,
    load_distributed_artifacts,
    parse_rank_filter,
)
from test_query_parity import difference

SCRIPT = Path(__file__).parent / "parity" / "distributed_sets.py"
SETS = 60
SEED = 20261115


def run(python: str, *arguments: object) -> str:
    environment = {**os.environ, "PYTHONPATH": "", "PYTHONHASHSEED": "0"}
    command = [python, str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd="/"
    )
    return done.stdout


def test_the_same_as_the_reference(reference_python: str, tmp_path: Path) -> None:
    folder = tmp_path / "sets"
    run(sys.executable, "make", folder, SEED, SETS)
    theirs = run(reference_python, "ask", folder).splitlines()
    ours = run(sys.executable, "ask", folder).splitlines()
    assert len(theirs) == len(ours) == SETS
    found = [
        difference(json.loads(one), json.loads(other), f"set {number}")
        for number, (one, other) in enumerate(zip(theirs, ours))
    ]
    assert not any(found), "\n".join(text for text in found if text)


def test_two_ranks_side_by_side() -> None:
    loaded = load_distributed_artifacts([RUNS / "two_ranks"])
    model = build_distributed_model(loaded.events)
    assert model.present_ranks == [row.rank for row in model.rows if row.availability == "present"]
    assert {len(lists["gap"]) for lists in model.per_rank_timelines.values()} == {
        row.samples for row in model.rows if row.rank in model.per_rank_timelines
    }
    assert loaded.selected_session_id == loaded.events[0].session_id


def test_results_are_plain_dataclasses() -> None:
    loaded = load_distributed_artifacts([RUNS / "two_ranks"])
    model = build_distributed_model(loaded.events)
    assert pickle.loads(pickle.dumps(model)) == model == copy.deepcopy(model)
    assert replace(model.rows[0], rank=7).rank == 7
    assert asdict(model)["warnings"] == []


def test_unknown_bytes_stay_unknown() -> None:
    unknown = replace(event_v4(), event_type="sample", allocator_reserved_bytes=None)
    (row,) = build_distributed_model([unknown]).rows
    assert row.samples == 1 and row.reserved_delta_bytes is None
    assert row.hidden_gap_latest_bytes is None


def test_a_timeline_with_points_that_are_no_numbers(tmp_path: Path) -> None:
    payload = {"timestamps": [1, 2, 3], "allocated": [5, None, 7], "reserved": [5, 6, -1]}
    (tmp_path / "telemetry_timeline.json").write_text(json.dumps(payload))
    loaded = load_distributed_artifacts([tmp_path])
    assert [event.allocator_allocated_bytes for event in loaded.events] == [5]
    assert any("Left out 2 points" in warning for warning in loaded.warnings)


def test_errors_are_ours_and_the_reference_s() -> None:
    for call in (
        lambda: load_distributed_artifacts([RUNS / "two_ranks"], "nobody"),
        lambda: parse_rank_filter("3-1", [1, 2, 3]),
    ):
        with pytest.raises(StormlogError) as caught:
            call()
        assert isinstance(caught.value, ValueError)
