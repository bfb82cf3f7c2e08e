"""The columns through the Arrow PyCapsule interface."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import examples
from fixtures import run
from stormlog.telemetry import load_telemetry_events, telemetry_event_to_dict

pa = pytest.importorskip("pyarrow")


def rows(table: Any) -> list[dict[str, Any]]:
    """An Arrow table as records, metadata parsed."""
    made: list[dict[str, Any]] = table.to_pylist()
    return [{**row, "metadata": json.loads(row["metadata"])} for row in made]


@pytest.mark.parametrize(
    "name",
    [
        "two_ranks",
        "reference_csv/events.csv",
        "versions/v4.json",
        "diagnose_bundle",
        "compressed/events.csv.zst",
    ],
)
def test_pyarrow_sees_every_event(name: str) -> None:
    events = load_telemetry_events(run(name))
    table = pa.table(events)
    assert rows(table) == [telemetry_event_to_dict(event) for event in events]
    assert table.column_names == list(telemetry_event_to_dict(events[0]))
    assert pa.schema(events) == table.schema


def test_unknown_is_null_not_zero() -> None:
    table = pa.table(load_telemetry_events(run("versions/v4.json")))
    assert table["allocator_allocated_bytes"].to_pylist() == [None]
    assert table["allocator_allocated_bytes"].null_count == 1


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    events = load_telemetry_events(run("reference_csv/events.csv"))
    frame = polars.DataFrame(events)
    assert frame.height == len(events)
    assert frame["allocator_allocated_bytes"].max() == max(
        e.allocator_allocated_bytes for e in events
    )
    assert frame["event_type"].cast(polars.String).to_list() == [e.event_type for e in events]
    assert json.loads(frame["metadata"][3]) == events[3].metadata


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    events = load_telemetry_events(run("two_ranks"))
    frame = pa.table(events).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["timestamp_ns"]) == [event.timestamp_ns for event in events]
    assert list(frame["event_type"]) == [event.event_type for event in events]


def test_metadata_of_different_shapes(tmp_path: Path) -> None:
    shapes: list[dict[str, Any]] = [
        {},
        {"a": 1},
        {"a": "x", "b": [1, {"c": None}]},
        {"a": {"deep": [[]]}},
    ]
    records = [examples.record(timestamp_ns=n, metadata=shape) for n, shape in enumerate(shapes)]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(records))
    events = load_telemetry_events(path)
    assert [row["metadata"] for row in rows(pa.table(events))] == shapes
    polars = pytest.importorskip("polars")
    assert [json.loads(text) for text in polars.DataFrame(events)["metadata"]] == shapes


def test_changes_to_events_are_seen(tmp_path: Path) -> None:
    events = load_telemetry_events(run("two_ranks"))
    events[1].context = "changed"
    assert pa.table(events)["context"].to_pylist()[1] == "changed"
    events.append(examples.event())
    del events[0]
    table = pa.table(events)
    assert table.num_rows == 11
    assert rows(table) == [telemetry_event_to_dict(event) for event in events]


def test_odd_values() -> None:
    events = load_telemetry_events(run("odd_values/odd.jsonl"))
    table = pa.table(events)
    assert table.num_rows == 6
    assert math.isnan(json.loads(table["metadata"][0].as_py())["loss"])
    assert json.loads(table["metadata"][1].as_py())["big"] == 2**70


def test_nothing() -> None:
    table = pa.table(load_telemetry_events(run("never_flushed")))
    assert table.num_rows == 0
    assert table.num_columns == 23
