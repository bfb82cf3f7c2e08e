"""`stormlog analyze` on real recordings, labelled traces and bad input."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from json_schema import problems

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "fixtures" / "runs"
SCHEMA = json.loads((ROOT / "docs/schemas/analyze.schema.json").read_text())
SECOND = 10**9


def stormlog(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stormlog", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def report(*arguments: Any) -> dict[str, Any]:
    done = stormlog("analyze", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert list(problems(document, SCHEMA)) == []
    return document


def recording(name: str) -> tuple[dict[str, Any], list[int]]:
    marks = json.loads((RUNS / name / "marks.json").read_text())["marks"]
    wanted = [at for at, mark in marks if mark in ("onset", "spike")]
    return report(RUNS / name / "events.jsonl.gz"), wanted


@pytest.mark.parametrize("name", ["h200_clean_train", "h200_clean_eval_bumps"])
def test_nothing_is_found_where_nothing_is_wrong(name: str) -> None:
    document, _ = recording(name)
    assert document["findings"] == []
    assert document["verdict"]["status"] == "clear"


@pytest.mark.parametrize(
    ("name", "kind", "beside"),
    [
        ("h200_leak_graph", "allocator_leak", set()),
        ("h200_hidden_drift", "hidden_drift", set()),
        ("h200_oom", "oom_risk", {"allocator_leak", "step_change"}),
    ],
)
def test_what_happened_is_found(name: str, kind: str, beside: set[str]) -> None:
    document, marks = recording(name)
    kinds = {finding["kind"] for finding in document["findings"]}
    assert kind in kinds
    assert kinds <= {kind} | beside
    for finding in document["findings"]:
        if finding["kind"] == kind and finding["onset_ns"] is not None:
            assert min(abs(finding["onset_ns"] - mark) for mark in marks) < 2 * SECOND


def test_a_neighbour_on_the_gpu_is_not_blamed() -> None:
    document = report(RUNS / "h200_shared_gpu")
    found = {(finding["kind"], finding["rank"]) for finding in document["findings"]}
    assert found == {("allocator_leak", 1)}
    [leak] = document["findings"]
    assert leak["also"] == ["oom_risk"]
    onset = leak["onset_ns"]
    # The first sample that holds more than the model does.
    assert abs(onset - 1794769539702541556) < SECOND // 4


def test_the_spikes_and_nothing_else() -> None:
    document, marks = recording("h200_spike")
    assert [finding["kind"] for finding in document["findings"]] == ["transient_spike"] * 3
    onsets = sorted(finding["onset_ns"] for finding in document["findings"])
    assert all(
        abs(onset - mark) < 2 * SECOND for onset, mark in zip(onsets, sorted(marks), strict=True)
    )


def test_the_labelled_traces_keep_their_floor(tmp_path: Path) -> None:
    traces = ROOT / "fixtures" / "diagnosis"
    done = subprocess.run(
        [sys.executable, str(ROOT / "benches/diagnosis/score_diagnosis.py"), str(traces), "--predictions", str(tmp_path / "p.json")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    numbers = dict(part.split("=") for part in done.stdout.splitlines()[-1].split())
    assert float(numbers["macro_f1"]) >= 0.9
    assert float(numbers["clean_false_alarm_rate"]) == 0


def test_the_schema_check_can_fail() -> None:
    document = report(RUNS / "h200_leak_graph" / "events.jsonl.gz")
    for change in (
        lambda d: d["findings"][0].pop("advice"),
        lambda d: d["findings"][0].update(confidence=1.5),
        lambda d: d["verdict"].update(status="fine"),
        lambda d: d["coverage"].update(surprise=1),
    ):
        broken = copy.deepcopy(document)
        change(broken)
        assert list(problems(broken, SCHEMA))


def test_fail_on_is_the_only_way_to_exit_2() -> None:
    leaking = RUNS / "h200_leak_graph" / "events.jsonl.gz"
    assert stormlog("analyze", leaking).returncode == 0
    assert stormlog("analyze", leaking, "--fail-on", "allocator_leak").returncode == 2
    assert stormlog("analyze", leaking, "--fail-on", "rank_imbalance").returncode == 0
    usage = stormlog("analyze", leaking, "--fail-on", "leak")
    assert usage.returncode == 1
    assert "allocator_leak" in usage.stderr


def test_json_alone_is_on_standard_output(tmp_path: Path) -> None:
    clean = RUNS / "h200_clean_train" / "events.jsonl.gz"
    json.loads(stormlog("analyze", clean, "--format", "json").stdout)
    written = stormlog("analyze", clean, "--format", "md", "--output", tmp_path / "deep" / "r.md")
    assert (written.returncode, written.stdout) == (0, "")
    assert (tmp_path / "deep" / "r.md").read_text().startswith("**No memory problem found")


def record(at: int, **changes: Any) -> dict[str, Any]:
    base = {
        "schema_version": 3, "session_id": "s", "timestamp_ns": at, "event_type": "sample",
        "collector": "c", "sampling_interval_ms": 100, "pid": 1, "host": "h", "job_id": None,
        "rank": 0, "local_rank": 0, "world_size": 1, "device_id": 0,
        "allocator_allocated_bytes": 1 << 30, "allocator_reserved_bytes": 2 << 30,
        "allocator_active_bytes": None, "allocator_inactive_bytes": None,
        "allocator_change_bytes": 0, "device_used_bytes": 3 << 30, "device_free_bytes": None,
        "device_total_bytes": 16 << 30, "context": None, "metadata": {},
    }  # fmt: skip
    return {**base, **changes}


def lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


BAD_INPUT: dict[str, list[dict[str, Any]]] = {
    "no samples": [record(n, event_type="start") for n in range(5)],
    "one sample": [record(5)],
    "constant": [record(n * SECOND) for n in range(400)],
    "negative gaps": [record(n * SECOND, device_used_bytes=0) for n in range(400)],
    "one timestamp": [record(7, device_used_bytes=n << 24) for n in range(400)],
    "clock jumps back": [record((n if n < 200 else n - 150) * SECOND) for n in range(400)],
    "total unknown": [record(n * SECOND, device_total_bytes=None) for n in range(400)],
    "world sizes disagree": [
        record(
            n * SECOND,
            rank=rank,
            local_rank=rank,
            world_size=rank + 2,
            session_id=f"s{rank}",
            job_id="j",
        )
        for n in range(200)
        for rank in range(3)
    ],
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_answered_without_made_up_findings(name: str, tmp_path: Path) -> None:
    document = report(lines(tmp_path / "events.jsonl", BAD_INPUT[name]))
    assert document["findings"] == []


def test_too_little_is_said_to_be_too_little(tmp_path: Path) -> None:
    document = report(lines(tmp_path / "events.jsonl", BAD_INPUT["one sample"]))
    assert document["verdict"]["status"] == "not_enough_evidence"


def test_an_empty_file_and_a_missing_one(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    done = stormlog("analyze", empty)
    assert done.returncode in (0, 1)
    assert "panicked" not in done.stderr
    missing = stormlog("analyze", tmp_path / "nowhere")
    assert missing.returncode == 1
    assert "nowhere" in missing.stderr


def test_rank_files_of_one_job_are_one_run(tmp_path: Path) -> None:
    for rank in range(3):
        identity = {
            "rank": rank,
            "local_rank": rank,
            "world_size": 4,
            "job_id": "j",
            "session_id": f"s{rank}",
        }
        lines(tmp_path / f"rank{rank}.jsonl", [record(n * SECOND, **identity) for n in range(60)])
    (tmp_path / "notes.json").write_text('{"a": 1}')
    document = report(tmp_path)
    (run,) = document["runs"]
    assert [rank["rank"] for rank in run["ranks"]] == [0, 1, 2]
    assert run["missing_ranks"] == [3]
    only = report(tmp_path, "--rank", "1")
    assert [rank["rank"] for rank in only["runs"][0]["ranks"]] == [1]
    assert stormlog("analyze", tmp_path, "--rank", "9").returncode == 1


def test_damage_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    file = lines(tmp_path / "events.jsonl", [record(n * SECOND) for n in range(100)])
    file.write_text(file.read_text().replace('"pid": 1', '"pid": "x"', 1))
    assert stormlog("analyze", file).returncode == 1
    document = report(file, "--skip-damaged")
    assert document["coverage"]["samples"] == 99
    assert len(document["coverage"]["damage"]) == 1


def test_names_from_a_file_do_not_reach_the_terminal_raw(tmp_path: Path) -> None:
    evil = "\x1b[31mhost\n"
    records = [
        record(n * SECOND, host=evil, rank=rank, local_rank=rank, world_size=2, session_id=f"s{rank}", job_id="j")
        for n in range(60) for rank in range(2)
    ]  # fmt: skip
    done = stormlog("analyze", lines(tmp_path / "events.jsonl", records))
    assert "\x1b" not in done.stdout
    with gzip.open(tmp_path / "events.jsonl.gz", "wt") as out:
        out.write((tmp_path / "events.jsonl").read_text())
    assert stormlog("analyze", tmp_path / "events.jsonl.gz", "--format", "md").returncode == 0


PNG = b"\x89PNG\r\n\x1a\n"


def test_pictures_are_drawn_and_named(tmp_path: Path) -> None:
    leaking, plots = RUNS / "h200_leak_graph" / "events.jsonl.gz", tmp_path / "deep" / "plots"
    done = stormlog("analyze", leaking, "--visualization", "--plot-dir", plots)
    assert done.returncode == 0, done.stderr
    assert f"Pictures: {plots / 'timeline.png'}, {plots / 'timeline.html'}" in done.stdout
    assert (plots / "timeline.png").read_bytes().startswith(PNG)
    assert "leak, 169 MiB/s" in (plots / "timeline.html").read_text()
    document = report(leaking, "--visualization", "--plot-dir", plots)
    assert document["visualizations"] == [str(plots / "timeline.png"), str(plots / "timeline.html")]
    empty = lines(tmp_path / "events.jsonl", [record(1, event_type="start")])
    done = stormlog("analyze", empty, "--visualization", "--plot-dir", tmp_path / "none")
    assert (done.returncode, (tmp_path / "none").exists()) == (0, False)
    assert "no samples to draw" in done.stderr


def gpumemprof(*arguments: Any) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys; from stormlog import _core; sys.exit(_core.main('gpumemprof', sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_gpumemprof_draws_ranks_side_by_side(tmp_path: Path) -> None:
    done = gpumemprof("analyze", RUNS / "two_ranks", "--visualization", "--plot-dir", tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert f"Visualization saved to: {tmp_path / 'cross_rank_timeline.png'}" in done.stdout
    assert (tmp_path / "cross_rank_timeline.png").read_bytes().startswith(PNG)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cross_rank_timeline.png",
        "timeline.html",
        "timeline.png",
    ]
    other = tmp_path / "other.json"
    other.write_text('{"a": 1}')
    skipped = gpumemprof("analyze", other, "--visualization", "--plot-dir", tmp_path / "none")
    assert (skipped.returncode, (tmp_path / "none").exists()) == (0, False)
    assert "Visualization skipped" in skipped.stdout


def test_errors_name_a_file_once(tmp_path: Path) -> None:
    torn = tmp_path / "torn.jsonl"
    torn.write_text('{"a": \n' + json.dumps(record(1)) + "\n")
    (tmp_path / "text.json").write_text("hello")
    for path in (tmp_path / "nowhere", torn, tmp_path / "text.json"):
        errors = stormlog("analyze", path).stderr
        assert errors.count(str(path)) == 1, errors
