"""Loaded events are a list to their users, whatever is underneath."""

from __future__ import annotations

import copy
import json
import pickle
import random
import weakref
from pathlib import Path
from typing import Any

import pytest

import examples
from fixtures import run
from stormlog.telemetry import (
    TelemetryEvents,
    TelemetryEventV3,
    load_telemetry_events,
    telemetry_event_from_record,
    telemetry_event_to_dict,
)


@pytest.fixture
def events() -> TelemetryEvents:
    return load_telemetry_events(run("two_ranks/segment-000002.jsonl"))


def times(events: Any) -> list[int]:
    return [(event.timestamp_ns - 1_794_700_000_000_000_000) // 20_000_000 for event in events]


def test_reading(events: TelemetryEvents) -> None:
    assert len(events) == 8
    assert bool(events) is True
    assert isinstance(events[0], TelemetryEventV3)
    assert times(events) == list(range(8))
    assert times([events[-1], events[-8]]) == [7, 0]
    assert times(reversed(events)) == list(range(7, -1, -1))
    assert events[3] in events
    assert examples.event() not in events
    assert events.index(events[5]) == 5
    assert events.count(events[5]) == 1
    assert (
        times([random.Random(1).choice(events), max(events, key=lambda e: e.timestamp_ns)])[1] == 7
    )
    first, *rest = events
    assert times([first]) == [0]
    assert len(rest) == 7
    assert repr(events) == "<TelemetryEvents: 8 events>"
    for place in (8, -9, 2**70):
        with pytest.raises(IndexError):
            events[place]
    for wrong in ("0", 1.0, None):
        with pytest.raises(TypeError):
            events[wrong]  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        hash(events)


@pytest.mark.parametrize(
    "part",
    [
        slice(None),
        slice(2, 5),
        slice(-3, None),
        slice(None, None, -2),
        slice(6, 1, -1),
        slice(5, 5),
    ],
)
def test_slices(events: TelemetryEvents, part: slice) -> None:
    assert times(events[part]) == list(range(8))[part]
    assert isinstance(events[part], list)
    assert all(a is b for a, b in zip(events[part], list(events)[part]))


def test_an_event_is_the_same_object_at_every_access(events: TelemetryEvents) -> None:
    event = events[2]
    assert events[2] is event
    assert list(events)[2] is event
    event.metadata["mark"] = True
    event.context = "changed"
    assert events[2].metadata["mark"] is True
    events.append(examples.event())
    assert events[2] is event
    assert events.copy()[2] is event
    assert next(e for e in events if e.context == "changed") is event


@pytest.fixture
def many(tmp_path: Path) -> TelemetryEvents:
    """More events than are kept as objects."""
    line = run("two_ranks/segment-000002.jsonl").read_text().splitlines()[0]
    (tmp_path / "many.jsonl").write_text((line + "\n") * 20_000)
    return load_telemetry_events(tmp_path / "many.jsonl")


@pytest.mark.parametrize("loop", ["for", "index"])
def test_a_loop_does_not_keep_every_object(many: TelemetryEvents, loop: str) -> None:
    seen: list[weakref.ref[TelemetryEventV3]] = []
    most = 0
    for event in many if loop == "for" else (many[place] for place in range(len(many))):
        seen.append(weakref.ref(event))
        if len(seen) % 1000 == 0:
            most = max(most, sum(each() is not None for each in seen))
    assert len(seen) == 20_000
    assert most <= 4097


def test_what_is_held_or_changed_stays_through_a_loop(many: TelemetryEvents) -> None:
    held = [many[place] for place in range(0, 20_000, 100)]
    for place, event in enumerate(many):
        if place % 1000 == 1:
            event.context = "changed"
        if place % 1000 == 2:
            event.metadata["nested"] = {"mark": place}
    for _ in many:
        pass
    assert all(many[place] is event for place, event in zip(range(0, 20_000, 100), held))
    assert sum(event.context == "changed" for event in many) == 20
    assert many[1002].metadata["nested"] == {"mark": 1002}
    held[3].context = "changed later"
    del held
    for _ in many:
        pass
    assert many[300].context == "changed later"
    everything = list(many)
    assert all(many[place] is event for place, event in enumerate(everything))


def test_metadata_is_not_shared_between_events() -> None:
    events = load_telemetry_events(run("reference_csv/events.json"))
    events[0].metadata["mark"] = 1
    assert all("mark" not in event.metadata for event in events[1:])


def test_changing(events: TelemetryEvents) -> None:
    extra = examples.event()
    events.append(extra)
    assert events[-1] is extra
    events.insert(0, extra)
    assert events[0] is extra
    assert len(events) == 10
    assert events.pop() is extra
    assert events.pop(0) is extra
    del events[0]
    assert times(events) == list(range(1, 8))
    del events[1:3]
    assert times(events) == [1, 4, 5, 6, 7]
    events[0] = extra
    events[1:2] = [extra, extra]
    assert events.count(extra) == 3
    events.remove(extra)
    assert events.count(extra) == 2
    events.reverse()
    assert times(events)[:3] == [7, 6, 5]
    events.sort(key=lambda event: event.timestamp_ns)
    assert times(events)[-1] == 7
    events.sort(key=lambda event: event.timestamp_ns, reverse=True)
    assert times(events)[0] == 7
    events.extend([extra])
    events.extend(events)
    assert len(events) == 12
    events.clear()
    assert events == []
    assert not events


def test_in_place_operators_keep_the_object(events: TelemetryEvents) -> None:
    same = events
    events += [examples.event()]
    assert events is same
    assert len(same) == 9
    events *= 2
    assert events is same
    assert len(same) == 18
    events *= 0
    assert same == []


def test_operators(events: TelemetryEvents) -> None:
    extra = [examples.event()]
    assert len(events + extra) == len(extra + events) == 9
    assert (extra + events)[0] is extra[0]
    assert len(events + events) == 16
    assert isinstance(events + extra, list)
    assert times(events * 2) == times(2 * events) == [*range(8), *range(8)]
    plain: list[Any] = []
    plain += events
    plain.extend(events)
    plain[0:0] = events
    assert len(plain) == 24
    assert plain[0] is events[0]
    for other in ((), "x", None, 5):
        with pytest.raises(TypeError):
            events + other  # type: ignore[operator]
    assert len(events) == 8


def test_comparing(events: TelemetryEvents) -> None:
    again = load_telemetry_events(run("two_ranks/segment-000002.jsonl"))
    assert events == again
    assert events == list(again)
    assert list(again) == events
    assert events != list(again)[:-1]
    assert events != tuple(again)
    again[0].context = "changed"
    assert events != again


def test_copies(events: TelemetryEvents) -> None:
    for twin in (events.copy(), copy.copy(events)):
        assert isinstance(twin, TelemetryEvents)
        assert twin[0] is events[0]
        twin.pop()
        assert len(events) == 8
    deep = copy.deepcopy(events)
    assert deep == events
    assert deep[0] is not events[0]
    deep[0].metadata["mark"] = True
    assert "mark" not in events[0].metadata
    events[1].context = "changed"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(events, protocol))
        assert isinstance(again, TelemetryEvents)
        assert again == events
        assert again[1].context == "changed"


def test_damage_survives_copies() -> None:
    with pytest.warns(match="torn"):
        events = load_telemetry_events(run("torn_last_line"))
    assert len(events.damage) == 1
    assert pickle.loads(pickle.dumps(events)).damage == events.damage
    assert copy.deepcopy(events).damage == events.copy().damage == events.damage


def test_growing_while_iterating(events: TelemetryEvents) -> None:
    seen = 0
    for event in events:
        seen += 1
        if seen <= 2:
            events.append(event)
    assert seen == 10


def test_json_and_back(events: TelemetryEvents) -> None:
    text = json.dumps([telemetry_event_to_dict(event) for event in events])
    again = [telemetry_event_from_record(record) for record in json.loads(text)]
    assert again == events


def test_empty() -> None:
    events = load_telemetry_events(run("never_flushed"))
    assert len(events) == 0
    assert events == []
    assert list(events) == []
    with pytest.raises(IndexError):
        events[0]
    with pytest.raises(IndexError):
        events.pop()
