"""Labels of derived traces say what was put into the samples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHES = Path(__file__).parents[2] / "benches" / "diagnosis"
sys.path.insert(0, str(BENCHES))

from derive.anomalies import with_anomalies  # noqa: E402
from derive.decoys import with_decoys  # noqa: E402
from derive.sets import Trace, Unsuitable, read_set, write_set  # noqa: E402
from derive.thinning import thinned  # noqa: E402

GIB = 2**30
SECOND = 10**9
COUNT = 160
LASTING = {
    "allocator_leak": ("allocated",),
    "hidden_drift": ("hidden",),
    "fragmentation": ("reserved",),
    "step_change": ("allocated", "hidden"),
}


def a_trace(**labels: Any) -> Trace:
    """A clean run: a load, then steps of eight samples."""
    events = [
        {
            "event_type": "sample",
            "timestamp_ns": second * SECOND,
            "rank": 0,
            "session_id": "only",
            "device_id": 0,
            "allocator_allocated_bytes": (0 if second < 10 else 20 + second % 8) * GIB,
            "allocator_reserved_bytes": (0 if second < 10 else 29) * GIB,
            "device_used_bytes": (1 if second < 10 else 30) * GIB,
            "device_free_bytes": None,
            "device_total_bytes": 80 * GIB,
            "metadata": {},
        }
        for second in range(COUNT)
    ]
    info = {
        "findings": [],
        "optional": [],
        "decoys": [],
        "scenario": "clean",
        "difficulty": "easy",
        "clean": True,
        "world_size": 1,
        "start_ns": 0,
        "end_ns": (COUNT - 1) * SECOND,
        "sample_interval_ns": SECOND,
    }
    return Trace("run", events, {**info, **labels}, 1.0)


def columns(trace: Trace) -> dict[str, Any]:
    held = np.array(
        [
            [event[f"allocator_{name}_bytes"] for name in ("allocated", "reserved")]
            + [event["device_used_bytes"]]
            for event in trace.events
            if event["event_type"] == "sample"
        ],
        dtype=float,
    )
    return {"allocated": held[:, 0], "reserved": held[:, 1], "hidden": held[:, 2] - held[:, 1]}


def derived(change: Any, seeds: int = 60) -> list[Trace]:
    """What becomes of the trace with each seed that suits it."""
    made = []
    for seed in range(seeds):
        try:
            made.append(change(a_trace(), np.random.default_rng(seed)))
        except Unsuitable:
            continue
    return made


def test_samples_change_where_the_label_of_an_anomaly_says() -> None:
    before, seen = columns(a_trace()), set()
    for trace in derived(with_anomalies):
        after = columns(trace)
        moved = {name: after[name] - before[name] for name in before}
        labels = [label for label in trace.info["findings"] if label["onset_ns"] is not None]
        seen.update(label["kind"] for label in trace.info["findings"])
        first = -(-min(label["onset_ns"] for label in labels) // SECOND)
        assert not any(np.any(change[:first]) for change in moved.values())
        if len(labels) == 1 and labels[0]["kind"] in LASTING:
            (label,) = labels
            begun = label.get("onset_last_ns", label["onset_ns"]) // SECOND + 2
            least = 0.9 if label["kind"] == "step_change" else 0.08
            assert (
                max(moved[name][begun] for name in LASTING[label["kind"]])
                >= least * label["magnitude"]
            )
            assert (
                max(moved[name][-1] for name in LASTING[label["kind"]]) >= 0.99 * label["magnitude"]
            )
    assert seen == {*LASTING, "transient_spike", "oom_risk"}


def test_a_spike_is_as_high_as_its_label_says_and_goes_back() -> None:
    before = columns(a_trace())
    for trace in derived(with_anomalies):
        if {label["kind"] for label in trace.info["findings"]} != {"transient_spike"}:
            continue
        after = columns(trace)
        for label in trace.info["findings"]:
            first = label["onset_ns"] // SECOND
            rises = [
                after[name][first : first + 2] - before[name].max()
                for name in ("allocated", "hidden")
            ]
            assert max(rise.min() for rise in rises) >= 0.9 * label["magnitude"]
        assert after["allocated"][-1] == before["allocated"][-1]
        assert after["hidden"][-1] == before["hidden"][-1]


def test_ordinary_behaviour_leaves_a_trace_clean_and_within_its_device() -> None:
    before = columns(a_trace())
    for trace in derived(with_decoys):
        after = columns(trace)
        assert trace.info["findings"] == [] and trace.info["decoys"]
        assert any(np.any(after[name] != before[name]) for name in before)
        assert np.all(after["allocated"] <= after["reserved"])
        assert np.all(after["reserved"] + after["hidden"] <= 80 * GIB)


@pytest.mark.parametrize(("lasts", "kept"), [(2, False), (4, True)])
def test_a_spike_that_is_left_with_one_sample_is_optional(lasts: int, kept: bool) -> None:
    label = {
        "kind": "transient_spike",
        "rank": None,
        "onset_ns": 101 * SECOND,
        "magnitude": 20 * GIB,
    }
    trace = a_trace(findings=[label], clean=False)
    for event in trace.events[101 : 101 + lasts]:
        event["allocator_allocated_bytes"] = 47 * GIB
    half = thinned(trace, lambda count: np.arange(count) % 2 == 0, samples_per_kept=2)
    assert len(half.events) == COUNT / 2
    assert half.info["findings"] == ([{**label, "onset_ns": 102 * SECOND}] if kept else [])
    assert half.info["optional"] == ([] if kept else [label])


def test_a_set_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert write_set(tmp_path, [a_trace()]) == 1
    assert list(read_set(tmp_path)) == [a_trace()]
