"""Questions over artifacts: rows, laziness, states of issues."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import shutil
import threading
from pathlib import Path

import pytest

import stormlog.query
import stormlog.telemetry
from stormlog.errors import InvalidValueError, IssueSidecarError, StormlogError
from stormlog.query import (
    CorrelationFilter,
    EventFilter,
    IssueFilter,
    QueryStore,
    SessionFilter,
    SessionRow,
)
from stormlog.telemetry_rollups import build_telemetry_rollups, write_telemetry_rollups
from stormlog.telemetry_sink import read_telemetry_sink_manifest

ARTIFACTS = Path(__file__).parents[2] / "tests" / "conformance" / "artifacts"
STORY = Path(__file__).parents[2] / "fixtures" / "issues"
RUNS = Path(__file__).parents[2] / "fixtures" / "runs"


@pytest.fixture
def store() -> QueryStore:
    return stormlog.query.open([ARTIFACTS / "b_multi"])


def test_rows_are_real_dataclasses(tmp_path: Path) -> None:
    shutil.copytree(ARTIFACTS / "b_multi", tmp_path, dirs_exist_ok=True)
    for file in tmp_path.rglob("*"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    row = stormlog.query.open([tmp_path]).list_sessions(SessionFilter(status="running"))[0]
    assert dataclasses.replace(row, status="completed").status == "completed"
    assert SessionRow(**dataclasses.asdict(row)) == row
    assert pickle.loads(pickle.dumps(row)) == copy.deepcopy(row) == row
    # A session of another host, silent for long: the stored status stays, the effective one differs.
    assert (row.status, row.effective_status) == ("running", "interrupted")


def test_event_rows_behave_as_a_list(store: QueryStore) -> None:
    rows = store.query_events()
    assert rows == list(rows)
    assert rows[-1] == list(rows)[-1]
    assert rows[2:5] == list(rows)[2:5]
    assert pickle.loads(pickle.dumps(rows)) == list(rows)
    with pytest.raises(IndexError):
        rows[len(rows)]
    assert rows[0].as_dict()["source_kind"] == "sink"


def test_what_makes_no_sense_is_an_error(store: QueryStore) -> None:
    for question in (
        lambda: store.query_events(EventFilter(limit=-2)),
        lambda: store.summarize("alert_count", group_by="nothing"),  # type: ignore[arg-type]
        lambda: store.summarize("nothing"),  # type: ignore[arg-type]
        lambda: store.correlate(CorrelationFilter()),
        lambda: store.list_issues(state_overrides={"issue:x": "odd"}),
    ):
        with pytest.raises(ValueError) as caught:
            question()
        assert isinstance(caught.value, StormlogError)


def test_rollups_are_no_link_out_of_their_sink(tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    shutil.copytree(ARTIFACTS / "b_multi", sink)
    peak = "peak_device_used_bytes"
    (sink / "rollups.json").unlink(missing_ok=True)
    rows = stormlog.query.open([sink]).summarize(peak)
    sessions = stormlog.telemetry.load_telemetry_sessions(sink)
    manifest = read_telemetry_sink_manifest(sink)
    write_telemetry_rollups(sink, build_telemetry_rollups(sessions, manifest))
    lies = (sink / "rollups.json").read_text().replace(str(rows[0].value), "1")
    (sink / "rollups.json").write_text(lies)
    assert stormlog.query.open([sink]).summarize(peak) != rows, "rollups are believed"
    (sink / "rollups.json").rename(tmp_path / "elsewhere.json")
    (sink / "rollups.json").symlink_to(tmp_path / "elsewhere.json")
    assert stormlog.query.open([sink]).summarize(peak) == rows


def test_one_path_need_not_be_a_list() -> None:
    one = stormlog.query.open(str(ARTIFACTS / "b_one"))  # type: ignore[arg-type]
    assert len(one.list_sessions()) == 1


def test_warnings_come_with_the_questions(tmp_path: Path) -> None:
    for file in (RUNS / "broken_middle_line").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    store = stormlog.query.open([tmp_path])
    assert store.catalog.warnings == []
    assert len(store.query_events()) > 0
    warnings = store.catalog.warnings
    assert {one.path for one in warnings} == {str(tmp_path / "segment-000001.jsonl")}
    assert all(one.message.startswith("line ") for one in warnings)


def test_states_last(tmp_path: Path) -> None:
    def add(day: str) -> QueryStore:
        for file in (STORY / day).iterdir():
            (tmp_path / day).mkdir(exist_ok=True)
            (tmp_path / day / file.name).write_bytes(file.read_bytes())
        return stormlog.query.open([tmp_path])

    store = add("monday")
    assert store.list_issues() == []
    (leak,) = store.list_issues(include_findings=True)
    assert leak.kind == "allocator_leak"
    states = store.issue_state
    assert states[leak.fingerprint_id] == "open"
    assert states.resolve(leak.fingerprint_id, reason="bounded", by="ana") == "resolved"
    assert json.loads((tmp_path / "issues.json").read_text())["format"] == "stormlog.issues"
    # The sidecar changes nothing unless it is asked for.
    assert store.list_issues(include_findings=True)[0].state == "open"
    assert add("tuesday").issue_state[leak.fingerprint_id] == "resolved"
    store = add("wednesday")
    listed = store.list_issues(
        IssueFilter(state="regressed"),
        state_overrides=store.issue_state.all(),
        include_findings=True,
    )
    assert [one.fingerprint_id for one in listed] == [leak.fingerprint_id]
    assert store.issue_state.ignore(leak.fingerprint_id, until_ns=1) == "open"
    assert store.issue_state.ignore(leak.fingerprint_id) == "ignored"
    assert store.issue_state.reopen(leak.fingerprint_id) == "open"
    with pytest.raises(InvalidValueError, match="no issue has"):
        store.issue_state.resolve("issue:nothing")


def test_a_damaged_sidecar_is_named(tmp_path: Path) -> None:
    for file in (STORY / "monday").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "issues.json").write_text("{")
    store = stormlog.query.open([tmp_path])
    issue = store.list_issues(include_findings=True)[0]
    with pytest.raises(IssueSidecarError, match="issues.json"):
        store.issue_state.all()
    with pytest.raises(IssueSidecarError, match="issues.json"):
        store.issue_state.resolve(issue.fingerprint_id)


def test_a_store_may_be_asked_from_many_threads() -> None:
    store = stormlog.query.open([ARTIFACTS / "b_multi", ARTIFACTS / "b_flat"])
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(len(store.query_events()))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and len(set(answers)) == 1
    messages = [warning.message for warning in store.catalog.warnings]
    assert len(messages) == len(set(messages))


def test_run_envelopes_are_read_as_files_are() -> None:
    from stormlog.run_catalog import is_run_envelope, run_envelope_from_payload

    path = ARTIFACTS / "b_runs" / "stormlog_run.json"
    payload = json.loads(path.read_text())
    assert is_run_envelope(payload)
    envelope = run_envelope_from_payload(payload, path)
    assert envelope is not None
    (known,) = (
        one for one in stormlog.query.open([path]).catalog.run_envelopes if one.run_id == "exp-1"
    )
    assert envelope == known
    assert run_envelope_from_payload({**payload, "surprise": 1}, path) is None
