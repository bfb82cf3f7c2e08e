"""Events, sessions and issues behave as dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import examples
from stormlog import telemetry
from stormlog.session import SessionSummary

MAKERS = [
    examples.event,
    examples.event_v2,
    examples.event_v4,
    examples.summary,
    examples.projected,
    examples.fingerprint,
    examples.issue,
]
FROZEN = MAKERS[3:]


@pytest.mark.parametrize("make", MAKERS)
def test_copies_are_equal(make: Callable[[], Any]) -> None:
    made = make()
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made
    assert copy.copy(made) == made
    assert dataclasses.replace(made) == made


@pytest.mark.parametrize("make", MAKERS)
def test_fields_and_asdict(make: Callable[[], Any]) -> None:
    made = make()
    names = [field.name for field in dataclasses.fields(made)]
    plain = dataclasses.asdict(made)
    assert list(plain) == names
    assert json.loads(json.dumps(plain)).keys() == plain.keys()


@pytest.mark.parametrize("make", FROZEN)
def test_frozen(make: Callable[[], Any]) -> None:
    made = make()
    name = dataclasses.fields(made)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, name, None)


def test_summaries_are_hashable() -> None:
    assert len({examples.summary(), examples.summary()}) == 1


def test_mappings_of_frozen_classes_are_read_only() -> None:
    for mapping in (
        examples.projected().attributes,
        examples.projected().attributes["loss"][1],
        examples.fingerprint().dimensions,
        pickle.loads(pickle.dumps(examples.fingerprint())).dimensions,
    ):
        for change in (
            lambda m: m.update(a=1),
            lambda m: m.__setitem__("a", 1),
            lambda m: m.pop("a", None),
            lambda m: m.clear(),
        ):
            with pytest.raises(TypeError):
                change(mapping)


def test_replace_validates_events() -> None:
    with pytest.raises(ValueError, match="pid must be >= -1"):
        dataclasses.replace(examples.event(), pid=-2)


def test_events_from_records_are_the_same_as_constructed_ones() -> None:
    made = telemetry.telemetry_event_from_record(examples.RECORD)
    assert made == examples.event()
    assert type(made) is telemetry.TelemetryEventV3
    made.metadata["new"] = 1
    assert "new" not in examples.RECORD["metadata"]


def test_loaded_sessions_have_a_place_for_damage() -> None:
    loaded = telemetry.LoadedTelemetrySession(examples.summary(), [examples.event()])
    assert (loaded.sources_loaded, loaded.warnings, loaded.damage) == ([], [], ())
    assert [row["source_kind"] for row in loaded.resources()] == ["gpu"]
    assert loaded.correlations()[0]["session_id"] == "s"
    assert isinstance(loaded.summary, SessionSummary)
