"""What our own detectors find, as issues: stable, beside stormlog 0.3.9's, the same in `analyze`."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stormlog.query
from json_schema import problems
from stormlog.query import IssueFilter

ROOT = Path(__file__).resolve().parents[2]
NIGHTS = ROOT / "fixtures" / "issues"
ISSUE = json.loads((ROOT / "docs/schemas/issue.schema.json").read_text())
LEAK = "issue:ea5910c726376f0f0c30db7b"


def stormlog_json(*arguments: Any) -> Any:
    command = [sys.executable, "-m", "stormlog", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def recorded(night: str) -> list[dict[str, Any]]:
    with gzip.open(NIGHTS / night / "track.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def write(path: Path, events: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def test_findings_are_listed_only_when_they_are_asked_for() -> None:
    store = stormlog.query.open([NIGHTS / "monday"])
    assert store.list_issues() == []
    assert stormlog_json("query", "issues", NIGHTS / "monday", "--json") == []
    issues = store.list_issues(include_findings=True)
    assert [issue.fingerprint_id for issue in issues] == [LEAK]
    leak = issues[0]
    assert leak.fingerprint.as_dict()["dimensions"] == {
        "backend": "cuda",
        "collector": "stormlog.cuda_tracker",
        "phase": None,
    }
    assert leak.representative_evidence.session_id == "nightly-monday"
    assert leak.representative_evidence.rank == 0
    assert str(leak.representative_evidence.source_path).endswith("track.jsonl.gz")
    assert leak.details["magnitude_bytes"] > 2**31
    assert pickle.loads(pickle.dumps(leak)) == leak
    filtered = store.list_issues(IssueFilter(kind="allocator_leak"), include_findings=True)
    assert filtered == [leak]


def test_the_same_trouble_has_the_same_id(tmp_path: Path) -> None:
    """Another host, size, speed, process and day: another magnitude, one fingerprint."""
    events = recorded("monday")
    start = events[0]["timestamp_ns"]
    for event in events:
        event["timestamp_ns"] = start + 86400 * 10**9 + (event["timestamp_ns"] - start) * 3
        event["host"], event["pid"], event["session_id"] = "other", 7, "another"
        for key in event:
            if key.endswith("_bytes") and event[key] is not None:
                event[key] //= 2
    write(tmp_path / "track.jsonl", events)
    ids = {one["fingerprint_id"] for one in stormlog_json("issues", "list", tmp_path, "--json")}
    assert ids == {LEAK}


def test_sessions_of_one_job_are_one_run(tmp_path: Path) -> None:
    for rank in range(4):
        events = recorded("monday")
        for event in events:
            event.update(rank=rank, local_rank=rank, world_size=4, session_id=f"rank-{rank}")
        write(tmp_path / f"rank{rank}" / "track.jsonl", events)
    (leak,) = stormlog_json("issues", "list", tmp_path, "--kind", "allocator_leak", "--json")
    assert leak["fingerprint_id"] == LEAK
    assert leak["hit_count"] == 1
    assert leak["representative_evidence"]["rank"] is None
    assert leak["affected_sessions"] == [f"rank-{rank}" for rank in range(4)]
    assert "4 of 4 recorded ranks" in leak["details"]["explanation"]


def test_every_attempt_under_one_job_id_counts(tmp_path: Path) -> None:
    """One sink, opened again each night: what was found once does not hide what comes later."""
    nights = [*recorded("monday"), *recorded("tuesday"), *recorded("wednesday")]
    write(tmp_path / "track.jsonl", nights)
    (leak,) = stormlog_json("issues", "list", tmp_path, "--kind", "allocator_leak", "--json")
    assert leak["affected_sessions"] == ["nightly-monday", "nightly-wednesday"]


@pytest.mark.parametrize("is_resolved", [False, True])
def test_analyze_and_issues_share_one_object(tmp_path: Path, is_resolved: bool) -> None:
    for night in ("monday", "tuesday", "wednesday"):
        write(tmp_path / night / "track.jsonl", recorded(night))
    if is_resolved:
        store = stormlog.query.open([tmp_path])
        assert store.issue_state.resolve(LEAK, reason="fixed", by="ana") == "resolved"
    listed = stormlog_json("issues", "list", tmp_path, "--json")
    assert stormlog_json("analyze", tmp_path, "--format", "json")["issues"] == listed
    for issue in listed:
        assert list(problems(issue, ISSUE)) == []
    state = {issue["fingerprint_id"]: issue["state"] for issue in listed}
    assert state == {LEAK: "resolved" if is_resolved else "open"}
    assert ("state_info" in listed[0]) == is_resolved


def test_the_reference_s_issues_fit_the_schema_too() -> None:
    artifacts = ROOT / "tests" / "conformance" / "artifacts"
    issues = stormlog_json("issues", "list", artifacts / "b_multi", "--json")
    assert issues
    for issue in issues:
        assert list(problems(issue, ISSUE)) == []
    del issues[0]["evidence"]
    assert list(problems(issues[0], ISSUE)) == ["$: 'evidence' is a required property"]


def test_a_damaged_sidecar_does_not_keep_analyze_from_its_work(tmp_path: Path) -> None:
    write(tmp_path / "track.jsonl", recorded("monday"))
    (tmp_path / "issues.json").write_text("{")
    command = [sys.executable, "-m", "stormlog", "analyze", str(tmp_path), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "issues.json" in done.stderr
    assert [issue["state"] for issue in json.loads(done.stdout)["issues"]] == ["open"]
