"""The schemas under docs/schemas describe what we write."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import examples
from fixtures import RUNS, run
from json_schema import DOCUMENTS, validator
from stormlog import _core
from stormlog.errors import StormlogDamageWarning
from stormlog.session import session_summary_to_dict
from stormlog.telemetry import (
    load_telemetry_sessions,
    telemetry_event_to_dict,
    validate_telemetry_record,
)

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = [
    "two_ranks",
    "never_flushed",
    "missing_segment",
    "versions/mixed.jsonl",
    "reference_csv/events.csv",
    "odd_values/odd.jsonl",
    "diagnose_bundle",
    "oom_bundle/oom_dump_20261115T070544Z_962_cuda_1",
]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    _core.main("stormlog", list(arguments))
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schemas_are_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENTS[name])
    assert DOCUMENTS[name]["$id"] == name
    assert DOCUMENTS[name]["title"]


@pytest.mark.parametrize("name", ARTIFACTS)
def test_events_and_sessions(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StormlogDamageWarning)
        sessions = load_telemetry_sessions(run(name))
    for session in sessions:
        validator("session-summary").validate(session_summary_to_dict(session.summary))
        for event in session.events:
            record = telemetry_event_to_dict(event)
            validator(f"telemetry-event-v{event.schema_version}").validate(record)


@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_converted_records(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("versions/mixed.jsonl", "two_ranks", "odd_values/odd.jsonl"):
        _core.main("stormlog", ["convert", str(run(name)), "-", "--to", format])
        text = capsys.readouterr().out
        records = json.loads(text) if format == "json" else map(json.loads, text.splitlines())
        for record in records:
            validator(f"telemetry-event-v{record['schema_version']}").validate(record)


# Changes of a valid record. The rules in the code and the schema must both accept the result, or
# both refuse it.
CHANGES: list[dict[str, Any]] = [
    {},
    *(
        {key: value}
        for key in examples.RECORD
        for value in (None, True, -2, "", " ", "x", 1.5, [], 2**63)
    ),
    {"unknown": 1},
    {"job_id": "j", "rank": 3, "local_rank": 1, "world_size": 4},
    {"metadata": {"anything": [1, {"at": "all"}]}},
]
# Rules between fields, and a total that is smaller than its parts, are beyond a schema.
BETWEEN_FIELDS = ("world_size", "cannot exceed")


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_schema_and_rules_agree(change: dict[str, Any]) -> None:
    record = examples.record(**change)
    try:
        validate_telemetry_record(record)
        problem = ""
    except ValueError as error:
        problem = str(error)
    if any(words in problem for words in BETWEEN_FIELDS) and "must be >=" not in problem:
        return
    # A whole number with a fraction of zero is an integer to JSON Schema, not to us.
    assert validator("telemetry-event-v3").is_valid(record) == (not problem), problem


@pytest.mark.parametrize("key", list(examples.RECORD))
def test_required_keys_agree(key: str) -> None:
    record = examples.record()
    del record[key]
    try:
        validate_telemetry_record(record)
        valid = True
    except ValueError:
        valid = False
    assert validator("telemetry-event-v3").is_valid(record) == valid


def test_version_4() -> None:
    check = validator("telemetry-event-v4")
    record = telemetry_event_to_dict(examples.event_v4())
    check.validate(record)
    assert not check.is_valid({**record, "metadata": {}})
    odd = {"memory_capabilities": {"device_used_bytes": 1}}
    assert not check.is_valid({**record, "metadata": odd})


def test_manifests_of_sinks() -> None:
    manifests = [path for path in RUNS.rglob("manifest.json") if '"segments"' in path.read_text()]
    assert len(manifests) > 4
    for path in manifests:
        if "segment_outside_sink" not in str(path):
            validator("sink-manifest").validate(json.loads(path.read_text()))


def test_show_and_validate(capsys: pytest.CaptureFixture[str]) -> None:
    for name in [*ARTIFACTS, "torn_last_line", "compressed/truncated.jsonl.gz"]:
        validator("show").validate(printed(capsys, "show", "--json", str(run(name))))
    skipped = printed(capsys, "show", "--json", "--skip-damaged", str(run("broken_middle_line")))
    validator("show").validate(skipped)
    paths = [
        str(run(name)) for name in ("broken_middle_line", "two_ranks", "segment_outside_sink/sink")
    ]
    answer = printed(capsys, "validate", "--json", *paths, "no/such/path")
    validator("validate").validate(answer)
    assert not answer["valid"]


def test_issues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = str(ROOT / "tests" / "conformance" / "artifacts" / "b_issues")
    sidecar = ["--sidecar", str(tmp_path / "issues.json")]
    _core.main("stormlog", ["issues", "resolve", "876c", story, *sidecar])
    capsys.readouterr()
    issues = printed(capsys, "issues", "list", story, "--json", *sidecar)
    assert len(issues) > 5 and "resolved" in {issue["state"] for issue in issues}
    for issue in issues:
        validator("issue").validate(issue)
    assert not validator("issue").is_valid({**issues[0], "surprise": True})


def test_snapshots_of_an_allocator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = ROOT / "fixtures" / "snapshots" / "h200_train" / "cuda_allocator_snapshot.pickle"
    # Older versions of PyTorch give a list: here one segment, with a block of which nothing is known.
    bare = tmp_path / "bare.pickle"
    bare.write_bytes(b"\x80\x04]}\x8c\x06blocks]}asa.")
    for path in (real, bare):
        shown = printed(capsys, "show", "--json", str(path))
        validator("show-allocator-snapshot").validate(shown)
        shown["devices"][0]["surprise"] = True
        assert not validator("show-allocator-snapshot").is_valid(shown)
