"""Loading artifacts: damage, errors, versions, and every fixture."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import examples
from fixtures import RUNS, SESSION, run
from stormlog import errors
from stormlog.telemetry import (
    TelemetryEventV3,
    TelemetryEventV4,
    load_telemetry_events,
    load_telemetry_sessions,
    telemetry_event_from_record,
    telemetry_event_to_dict,
    validate_telemetry_record,
)
from stormlog.telemetry_sink import read_telemetry_sink_manifest

NOT_TELEMETRY = {
    "marks.json",
    "README.md",
    "environment.json",
    "metadata.json",
    "diagnostic_summary.json",
}
BROKEN = {"broken_middle_line", "odd_values/too_big.jsonl"}


def artifacts() -> list[str]:
    """Every file of the fixtures that holds telemetry, and every folder of files."""
    files = [path for path in RUNS.rglob("*") if path.is_file() and path.name not in NOT_TELEMETRY]
    folders = {path.parent for path in files if path.name.startswith(("manifest", "segment"))}
    names = [str(path.relative_to(RUNS)) for path in [*files, *folders]]
    return sorted(name for name in names if not any(name.startswith(bad) for bad in BROKEN))


@pytest.mark.parametrize("name", artifacts())
def test_every_fixture_loads(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.StormlogDamageWarning)
        sessions = load_telemetry_sessions(run(name))
        chosen = load_telemetry_events(str(run(name)))
    assert sessions
    best = max(sessions, key=lambda session: bool(session.events))
    # Not the events themselves: a NaN in their metadata equals nothing.
    assert repr(list(best.events)) == repr(list(chosen))
    for session in sessions:
        for event in session.events:
            record = telemetry_event_to_dict(event)
            validate_telemetry_record(record)
            assert repr(telemetry_event_from_record(record)) == repr(event)


def test_a_torn_line_warns_and_is_listed() -> None:
    with pytest.warns(errors.StormlogDamageWarning, match="segment-000002.jsonl' line 3") as caught:
        events = load_telemetry_events(run("torn_last_line"))
    assert caught[0].filename == __file__
    assert len(events) == 5
    [damage] = events.damage
    path = run("torn_last_line/segment-000002.jsonl")
    assert (damage.file, damage.line, damage.field) == (path, 3, None)
    assert damage.byte_range is not None
    assert damage.byte_range[1] == path.stat().st_size
    assert "incomplete" in damage.reason
    with pytest.warns(errors.StormlogDamageWarning):
        [session] = load_telemetry_sessions(run("torn_last_line"))
    assert session.damage == session.events.damage == events.damage  # type: ignore[attr-defined]
    assert session.warnings == []


def test_a_broken_line_raises_or_is_skipped() -> None:
    path = run("broken_middle_line")
    for load in (load_telemetry_events, load_telemetry_sessions):
        with pytest.raises(errors.InvalidArtifactError, match="segment-000001.jsonl at line 3"):
            load(path)
    with pytest.warns(errors.StormlogDamageWarning, match="and 1 more"):
        events = load_telemetry_events(path, on_error="skip")
    assert len(events) == 4
    assert [(damage.line, damage.field) for damage in events.damage] == [
        (3, None),
        (5, "device_used_bytes"),
    ]
    with pytest.raises(ValueError, match="on_error must be 'raise' or 'skip', not 'ignore'"):
        load_telemetry_events(path, on_error="ignore")  # type: ignore[arg-type]


def test_what_is_lost_belongs_to_its_session() -> None:
    with pytest.warns(errors.StormlogDamageWarning, match="500 events of it are lost"):
        [session] = load_telemetry_sessions(run("missing_segment"))
    assert [damage.file.name for damage in session.damage] == ["segment-000002.jsonl"]
    assert session.warnings == []


def test_damage_with_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(tmp_path, "x.json").write_text(json.dumps([examples.RECORD, 5]))
    monkeypatch.chdir(tmp_path)
    with pytest.warns(errors.StormlogDamageWarning):
        [session] = load_telemetry_sessions("x.json", on_error="skip")
    assert [damage.file for damage in session.damage] == [Path("x.json")]


def test_whole_artifacts_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_telemetry_events(run("two_ranks")).damage == ()


def test_named_sessions() -> None:
    path = run("two_ranks")
    assert [session.summary.rank for session in load_telemetry_sessions(path)] == [0, 1]
    assert len(load_telemetry_events(path, session_id=SESSION)) == 11
    with pytest.raises(ValueError, match="^Requested session_id not found: nobody$"):
        load_telemetry_events(path, session_id="nobody")


def test_the_folder_of_a_run_is_opened_with_the_sinks_below_it(tmp_path: Path) -> None:
    shutil.copytree(run("two_ranks"), tmp_path / "run" / "gpu-0")
    (tmp_path / "run" / "notes.jsonl").write_text('{"author": "ana"}\n')
    expected = load_telemetry_sessions(run("two_ranks"))
    found = load_telemetry_sessions(tmp_path / "run")
    assert [session.summary for session in found] == [session.summary for session in expected]
    assert len(load_telemetry_events(tmp_path / "run", session_id=SESSION)) == 11
    events = load_telemetry_events(tmp_path / "run")
    assert list(events) == list(load_telemetry_events(run("two_ranks")))


def test_a_sink_that_was_never_flushed() -> None:
    [session] = load_telemetry_sessions(run("never_flushed"))
    assert session.summary.status == "running"
    assert session.events == []


def test_unknown_counters_stay_unknown() -> None:
    [event] = load_telemetry_events(run("versions/v4.json"))
    assert type(event) is TelemetryEventV4
    assert event.allocator_allocated_bytes is None
    assert telemetry_event_to_dict(event)["schema_version"] == 4
    mixed = load_telemetry_sessions(run("versions/mixed.jsonl"))
    kinds = {type(event) for session in mixed for event in session.events}
    assert kinds == {TelemetryEventV3, TelemetryEventV4}


def test_numbers_in_manifests_that_no_file_can_have(tmp_path: Path) -> None:
    (tmp_path / "segment-000001.jsonl").write_text(json.dumps(examples.RECORD) + "\n")
    entry = {"filename": "segment-000001.jsonl", "event_count": float("inf")}
    (tmp_path / "manifest.json").write_text(json.dumps({"segments": [entry]}))
    with pytest.warns(errors.StormlogDamageWarning, match="event_count is out of range"):
        assert len(load_telemetry_events(tmp_path)) == 1
    manifest = read_telemetry_sink_manifest(tmp_path)
    assert manifest is not None
    assert manifest.segments == []


@pytest.mark.parametrize(
    ("content", "ours", "theirs"),
    [
        ("", errors.MalformedJSONError, json.JSONDecodeError),
        ("[{]", errors.MalformedJSONError, json.JSONDecodeError),
        ("5", errors.InvalidArtifactError, ValueError),
        ("{}", errors.InvalidArtifactError, ValueError),
        ("[5]", errors.InvalidArtifactError, ValueError),
        (b"\xff", errors.ArtifactEncodingError, UnicodeDecodeError),
        (json.dumps(examples.record(pid=-2)), errors.InvalidRecordError, ValueError),
        (json.dumps(examples.record(pid=2**63)), errors.OutOfRangeError, OverflowError),
        (None, errors.ArtifactNotFoundError, FileNotFoundError),
        (Path, errors.NotAnArtifactError, IsADirectoryError),
    ],
)
def test_errors_are_ours_and_what_users_catch(
    tmp_path: Path, content: Any, ours: type, theirs: type
) -> None:
    path = tmp_path / "x.json"
    if content is Path:
        path.mkdir()
    elif content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(theirs) as raised:
        load_telemetry_events(path)
    assert type(raised.value) is ours
    assert isinstance(raised.value, errors.StormlogError)
    if isinstance(raised.value, OSError):
        assert raised.value.filename == str(path)
        assert raised.value.errno in (2, 21)


def test_every_exception_is_in_the_tree() -> None:
    classes = [item for item in vars(errors).values() if isinstance(item, type)]
    for item in classes:
        if item.__module__ == errors.__name__ and issubclass(item, Exception):
            assert issubclass(item, (errors.StormlogError, Warning)), item


def test_paths_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run("two_ranks"))
    for path in (".", "./", "manifest.json", "segment-000001.jsonl", os.getcwd(), Path(".")):
        assert len(load_telemetry_events(path)) == 11
    odd = tmp_path / "caf\u00e9 \U0001f600.json"
    odd.write_text(json.dumps([examples.RECORD]))
    assert len(load_telemetry_events(odd)) == 1
    with pytest.raises(TypeError):
        load_telemetry_events(5)  # type: ignore[arg-type]


def test_a_pack_is_loaded_and_leaves_nothing(tmp_path: Path) -> None:
    """What a pack is unpacked to goes when the interpreter ends."""
    original = RUNS / "two_ranks"
    pack = tmp_path / "run.stormlog"
    subprocess.run(
        [sys.executable, "-m", "stormlog", "pack", original, "-o", pack],
        check=True,
        capture_output=True,
    )
    script = (
        "import sys; from stormlog.telemetry import load_telemetry_sessions\n"
        "for path in sys.argv[1:]:\n"
        "    loaded = load_telemetry_sessions(path)\n"
        "    print([(one.summary.session_id, len(one.events)) for one in loaded])\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-c", script, str(original), str(pack)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    plain, packed = done.stdout.splitlines()
    assert plain == packed
    assert list(temporary.iterdir()) == []
