"""Where records differ from stormlog 0.3.9's on purpose, and the types of errors."""

from __future__ import annotations

import math
from typing import Any

import pytest

import examples
from stormlog import errors, session, telemetry


def test_errors_are_ours_and_the_built_in_type() -> None:
    with pytest.raises(errors.InvalidRecordError) as raised:
        telemetry.validate_telemetry_record(examples.record(pid=-2))
    assert isinstance(raised.value, (errors.StormlogError, ValueError))
    with pytest.raises(errors.InvalidTypeError) as wrong:
        session.create_session_summary(source="s", pid=[])  # type: ignore[arg-type]
    assert isinstance(wrong.value, TypeError)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_integers_beyond_64_bits_are_a_clear_error(number: int) -> None:
    message = "timestamp_ns must fit a signed 64-bit integer"
    with pytest.raises(errors.OutOfRangeError, match=message) as raised:
        telemetry.telemetry_event_from_record(examples.record(timestamp_ns=number))
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, OverflowError)


def test_not_a_number_may_stand_in_metadata() -> None:
    event = telemetry.telemetry_event_from_record(examples.record(metadata={"loss": math.nan}))
    assert math.isnan(event.metadata["loss"])
    assert telemetry.project_telemetry_event(event).record_id.startswith("telemetry-")


def test_version_4_keeps_unknown_counters_unknown() -> None:
    event = examples.event_v4()
    record = telemetry.telemetry_event_to_dict(event)
    telemetry.validate_telemetry_record(record)
    again = telemetry.telemetry_event_from_record(record)
    assert type(again) is telemetry.TelemetryEventV4
    assert again.device_used_bytes is None
    assert telemetry.telemetry_event_to_dict(again) == record


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "metadata.memory_capabilities must be an object in a version 4 record"),
        (
            {"memory_capabilities": {"supports_device_total": 1}},
            "metadata.memory_capabilities.supports_device_total must be true or false",
        ),
    ],
)
def test_version_4_says_what_its_collector_can_know(metadata: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        telemetry.validate_telemetry_record(examples.record(schema_version=4, metadata=metadata))


def test_only_plain_digits_name_a_device() -> None:
    event = telemetry.telemetry_event_from_record({"timestamp": 1, "device": "cuda:²"})
    assert event.device_id == -1


def test_keys_of_any_type_stay_in_metadata() -> None:
    metadata = {1: "one", "1": "text", None: ()}
    event = telemetry.telemetry_event_from_record(examples.record(metadata=metadata))
    assert event.metadata == metadata


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    nested: Any = {}
    for _ in range(5000):
        nested = {"k": nested}
    with pytest.raises(ValueError, match="nested deeper"):
        telemetry.project_telemetry_event(examples.record(metadata=nested))
