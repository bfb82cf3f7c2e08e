"""`stormlog compare`: what changed, gates and their exit codes, baselines, bad input."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest

from json_schema import problems
from stormlog import compare as stormlog_compare
from test_analyze import BAD_INPUT, RUNS, SECOND, lines, record, stormlog

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
COMPARE = json.loads((SCHEMAS / "compare.schema.json").read_text())
BASELINE = json.loads((SCHEMAS / "baseline.schema.json").read_text())
GIB = 1 << 30
CLEAN = RUNS / "h200_clean_train" / "events.jsonl.gz"
LEAKING = RUNS / "h200_leak_graph" / "events.jsonl.gz"


def steps(
    path: Path,
    factor: float = 1.0,
    grows: int = 0,
    seed: int = 0,
    ranks: int = 1,
    count: int = 400,
    **changes: Any,
) -> Path:
    """A run of training steps between a floor and a peak, with a little noise."""
    records = []
    for rank in range(ranks):
        for n in range(count):
            noise = math.sin(n * 12.9898 + seed * 78.233 + rank) * 2e7
            swing = (0, 0.3, 0.7, 1, 0.6, 0.2)[n % 6]
            allocated = int((4 + 4 * swing) * GIB * factor + noise) + grows * n
            reserved = int(8.5 * GIB * factor) + grows * n
            identity = {
                "rank": rank,
                "local_rank": rank,
                "world_size": ranks,
                "session_id": f"s{rank}",
                "job_id": "j",
            }
            records.append(
                record(
                    n * SECOND,
                    allocator_allocated_bytes=allocated,
                    allocator_reserved_bytes=max(reserved, allocated),
                    device_used_bytes=max(reserved, allocated) + GIB,
                    device_total_bytes=80 * GIB,
                    **{**identity, **changes},
                )
            )
    return lines(path, records)


def compared(*arguments: Any, code: int = 0) -> dict[str, Any]:
    done = stormlog("compare", *arguments, "--format", "json")
    assert done.returncode == code, done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    assert list(problems(document, COMPARE)) == []
    return document


def metrics(document: dict[str, Any], rank: int = 0) -> dict[str, dict[str, Any]]:
    (found,) = (one for one in document["ranks"] if one["rank"] == rank)
    return {metric["metric"]: metric for metric in found["metrics"]}


def test_the_same_job_twice_differs_within_the_noise(tmp_path: Path) -> None:
    base, new = steps(tmp_path / "a.jsonl", seed=1), steps(tmp_path / "b.jsonl", seed=2)
    gates = [
        "--max-peak-growth",
        "1%",
        "--max-slope",
        "10MB/min",
        "--max-gap-growth",
        "64MiB",
        "--fail-on",
        "new-findings,higher",
    ]
    document = compared(base, new, *gates)
    assert document["verdict"]["status"] == "within_noise"
    assert document["verdict"]["passed"]
    assert [gate["status"] for gate in document["gates"]] == ["passed"] * 5


def test_a_peak_regression_fails_its_gate(tmp_path: Path) -> None:
    base, new = steps(tmp_path / "a.jsonl"), steps(tmp_path / "b.jsonl", factor=1.25)
    document = compared(base, new, "--max-peak-growth", "20%", code=2)
    (gate,) = document["gates"]
    assert gate["status"] == "failed"
    assert any("peak allocated of rank 0" in reason for reason in gate["reasons"])
    assert metrics(document)["peak_allocated"]["verdict"] == "higher"
    assert metrics(document)["gap"]["verdict"] == "unchanged"
    compared(base, new, "--max-peak-growth", "30%")
    compared(base, new, "--max-peak-growth", "3GiB")
    compared(base, new, "--max-peak-growth", "1GiB", code=2)
    back = compared(new, base, "--max-peak-growth", "0%")
    assert back["verdict"]["status"] == "lower"


def test_growth_fails_the_slope_gate(tmp_path: Path) -> None:
    base, new = steps(tmp_path / "a.jsonl"), steps(tmp_path / "b.jsonl", grows=4 << 20)
    document = compared(base, new, "--max-slope", "100MB/min", code=2)
    assert metrics(document)["allocated_slope"]["new"] == pytest.approx(4 << 20, rel=0.05)
    compared(base, new, "--max-slope", "300MB/min")
    # The slope is that of the new run, whatever the old one did.
    compared(new, base, "--max-slope", "100MB/min")


def test_only_the_rank_that_grew_is_named(tmp_path: Path) -> None:
    base = steps(tmp_path / "a.jsonl", ranks=4)
    steps(tmp_path / "b.jsonl", ranks=3)
    grown = steps(tmp_path / "c.jsonl", factor=1.5, count=400)
    records = [json.loads(line) for line in grown.read_text().splitlines()]
    for one in records:
        one.update(rank=5, local_rank=5, world_size=6, session_id="s5")
    both = lines(
        tmp_path / "d.jsonl",
        [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()] + records,
    )
    document = compared(base, both, "--max-peak-growth", "20%")
    assert [one["rank"] for one in document["ranks"]] == [0, 1, 2]
    assert document["ranks_only_in_base"] == [{"rank": 3, "device_id": 0}]
    assert document["ranks_only_in_new"] == [{"rank": 5, "device_id": 0}]
    only = compared(base, both, "--rank", "1")
    assert [one["rank"] for one in only["ranks"]] == [1]


def test_new_findings_fail_and_gone_ones_do_not() -> None:
    document = compared(CLEAN, LEAKING, "--fail-on", "new-findings", code=2)
    assert "allocator_leak" in {finding["kind"] for finding in document["findings"]["new"]}
    healed = compared(LEAKING, CLEAN, "--fail-on", "new-findings")
    assert "allocator_leak" in {finding["kind"] for finding in healed["findings"]["gone"]}
    short = compared(LEAKING, RUNS / "two_ranks")
    assert not short["findings"]["gone"]
    assert "allocator_leak" in {finding["kind"] for finding in short["findings"]["unanswered"]}
    same = compared(LEAKING, LEAKING, "--fail-on", "new-findings")
    assert "allocator_leak" in {finding["kind"] for finding in same["findings"]["shared"]}


def in_phases(path: Path, peak: int) -> Path:
    records = []
    for n in range(400):
        evaluates = n % 40 < 10
        if n % 40 in (0, 10):
            kind = "phase_enter" if evaluates else "phase_exit"
            records.append(
                record(
                    n * SECOND, event_type=kind, metadata={"phase_scope": {"name": "evaluation"}}
                )
            )
        noise = int(math.sin(n * 12.9898) * 1e7)
        extra = peak if evaluates else 0
        records.append(
            record(
                n * SECOND + 1,
                allocator_allocated_bytes=2 * GIB + noise + extra,
                allocator_reserved_bytes=6 * GIB,
                device_used_bytes=7 * GIB,
            )
        )
    return lines(path, records)


def test_phases_are_compared_by_name(tmp_path: Path) -> None:
    base, new = in_phases(tmp_path / "a.jsonl", GIB), in_phases(tmp_path / "b.jsonl", 3 * GIB)
    document = compared(base, new)
    (phase,) = document["ranks"][0]["phases"]
    assert phase["name"] == "evaluation"
    changed = {metric["metric"]: metric["verdict"] for metric in phase["metrics"]}
    assert changed["peak_allocated"] == "higher"
    assert changed["steady_allocated"] == "higher"
    assert changed["peak_used"] == "unchanged"
    without = compared(base, steps(tmp_path / "c.jsonl"))
    assert without["ranks"][0]["phases_only_in_base"] == ["evaluation"]


def test_a_gate_without_data_is_a_failure_that_is_told(tmp_path: Path) -> None:
    base = steps(tmp_path / "a.jsonl")
    short = lines(tmp_path / "short.jsonl", [record(n * SECOND) for n in range(3)])
    other = steps(tmp_path / "other.jsonl", rank=7, local_rank=0, world_size=8)
    empty = lines(tmp_path / "starts.jsonl", [record(n, event_type="start") for n in range(3)])
    for new in (short, other, empty):
        done = stormlog("compare", base, new, "--max-peak-growth", "20%")
        assert done.returncode == 1, new
        assert "error: cannot evaluate --max-peak-growth 20%" in done.stderr
        assert "cannot be evaluated" in done.stdout
    for flag in (
        ["--max-slope", "10MB/min"],
        ["--fail-on", "new-findings"],
        ["--fail-on", "higher"],
        ["--max-gap-growth", "1GB"],
        ["--max-leak-per-step", "1MB"],
    ):
        document = compared(base, short, *flag, code=1)
        assert document["gates"][0]["status"] == "not_judged"
        assert not document["verdict"]["passed"]


def with_steps(path: Path, kept: int) -> Path:
    """A run whose samples are at the ends of steps, each of which keeps some bytes."""
    records = [
        record(
            n * SECOND,
            allocator_allocated_bytes=4 * GIB + n * kept,
            metadata={"step": n, "step_count": n, "optimizer": 0},
        )
        for n in range(300)
    ]
    return lines(path, records)


def test_a_leak_per_step_fails_its_gate(tmp_path: Path) -> None:
    still, leaks = (
        with_steps(tmp_path / "still.jsonl", 0),
        with_steps(tmp_path / "leaks.jsonl", 1 << 20),
    )
    gate = ["--max-leak-per-step", "64KiB/step"]
    assert compared(still, still, *gate)["gates"][0]["status"] == "passed"
    assert compared(leaks, still, *gate)["gates"][0]["status"] == "passed"
    failed = compared(still, leaks, *gate, code=2)["gates"][0]
    assert (failed["gate"], failed["limit"], failed["status"]) == (
        "max_leak_per_step",
        "64KiB/step",
        "failed",
    )
    assert failed["reasons"] == ["leak per step of rank 0: 1.00 MiB/step"]
    assert not stormlog_compare(still, leaks, max_leak_per_step="64KiB/step").passed
    # Without steps the gate cannot be evaluated.
    assert (
        compared(steps(tmp_path / "a.jsonl"), steps(tmp_path / "b.jsonl"), *gate, code=1)["gates"][
            0
        ]["status"]
        == "not_judged"
    )


def test_a_baseline_of_0_4_0_is_compared() -> None:
    saved = RUNS.parent / "baselines" / "v040_leak_graph.json"
    gates = ["--max-peak-growth", "1%", "--max-gap-growth", "16MiB", "--fail-on", "new-findings"]
    document = compared(saved, LEAKING, *gates)
    assert {gate["status"] for gate in document["gates"]} == {"passed"}
    known = metrics(document)
    assert known["peak_allocated"]["base"] == 6741512704
    assert known["peak_allocated"]["verdict"] == "unchanged"
    # Numbers that 0.4.0 did not save are unknown, not zero.
    assert all(
        known[name]["base"] is None
        for name in ("step_floor", "leak_per_step", "host_peak")
        if name in known
    )
    assert compared(saved, CLEAN)["verdict"]["status"] == "lower"


def test_unknown_is_never_zero(tmp_path: Path) -> None:
    capabilities = {"memory_capabilities": {"supports_device_total": False}}
    unknown = [
        record(
            n * SECOND, schema_version=4, metadata=capabilities,
            allocator_reserved_bytes=None, device_used_bytes=None, device_total_bytes=None,
        )
        for n in range(200)
    ]  # fmt: skip
    document = compared(steps(tmp_path / "a.jsonl"), lines(tmp_path / "u.jsonl", unknown))
    used = metrics(document)["peak_used"]
    assert (used["new"], used["change"], used["verdict"]) == (None, None, "not_enough_evidence")
    text = stormlog("compare", tmp_path / "a.jsonl", tmp_path / "u.jsonl").stdout
    assert "unknown" in text


def test_a_baseline_stands_for_its_run(tmp_path: Path) -> None:
    base, new = (
        steps(tmp_path / "a.jsonl", ranks=2),
        steps(tmp_path / "b.jsonl", factor=1.25, ranks=2),
    )
    file = tmp_path / "deep" / "baseline.json"
    saved = stormlog("compare", base, "--save-baseline", file)
    assert (saved.returncode, saved.stdout) == (0, ""), saved.stderr
    assert list(problems(json.loads(file.read_text()), BASELINE)) == []
    direct, through = compared(base, new), compared(file, new)
    assert through["base"].pop("source") == str(base)
    direct["base"].pop("source")
    assert direct == through
    assert [path.name for path in file.parent.iterdir()] == ["baseline.json"]
    only = compared(file, new, "--rank", "1")
    assert [one["rank"] for one in only["ranks"]] == [1]


def test_a_failed_gate_does_not_move_the_baseline(tmp_path: Path) -> None:
    base, new = steps(tmp_path / "a.jsonl"), steps(tmp_path / "b.jsonl", factor=1.25)
    file = tmp_path / "baseline.json"
    stormlog("compare", base, "--save-baseline", file)
    before = file.read_text()
    failed = stormlog("compare", file, new, "--max-peak-growth", "20%", "--save-baseline", file)
    assert failed.returncode == 2
    assert file.read_text() == before
    assert "not written" in failed.stderr
    passed = stormlog("compare", file, new, "--max-peak-growth", "30%", "--save-baseline", file)
    assert passed.returncode == 0
    assert json.loads(file.read_text())["source"] == str(new)


def test_a_damaged_baseline_is_named(tmp_path: Path) -> None:
    run, file = steps(tmp_path / "a.jsonl"), tmp_path / "baseline.json"
    stormlog("compare", run, "--save-baseline", file)
    good = file.read_text()
    later = json.loads(good)
    later["surprise"] = {"a": 1}
    file.write_text(json.dumps(later))
    assert stormlog("compare", file, run).returncode == 0
    cases = [
        (good[: len(good) // 2], "damaged baseline"),
        (good.replace('"schema_version": 1', '"schema_version": 99'), "version 99"),
        (good.replace('"samples": 400', '"samples": "many"'), "'ranks.samples' must be an integer"),
    ]
    for text, reason in cases:
        file.write_text(text)
        done = stormlog("compare", file, run)
        assert done.returncode == 1
        assert "baseline.json" in done.stderr and reason in done.stderr and "hint:" in done.stderr
    file.write_text("")
    assert stormlog("compare", file, run).returncode == 1


def with_neighbour(path: Path, others: int) -> Path:
    """A run of a process that uses 5 GiB of a device on which other processes use some bytes."""
    records = [
        record(
            n * SECOND,
            allocator_allocated_bytes=3 * GIB,
            allocator_reserved_bytes=4 * GIB,
            device_used_bytes=5 * GIB + (others if n > 100 else 0),
            device_total_bytes=80 * GIB,
            metadata={"process_device_used_bytes": 5 * GIB},
        )
        for n in range(300)
    ]
    return lines(path, records)


def test_another_process_on_the_device_fails_no_gate(tmp_path: Path) -> None:
    alone = with_neighbour(tmp_path / "alone.jsonl", 0)
    shared = with_neighbour(tmp_path / "shared.jsonl", 20 * GIB)
    document = compared(alone, shared, "--max-peak-growth", "1%", "--fail-on", "higher")
    assert metrics(document)["peak_own"]["verdict"] == "unchanged"
    assert "peak_used" not in metrics(document)
    assert document["verdict"]["status"] == "unchanged"
    # Where the share of the process is not recorded, the metric names all processes.
    unknown = steps(tmp_path / "unknown.jsonl")
    text = stormlog("compare", unknown, unknown).stdout
    assert "peak used (all processes)" in text
    assert "the share of this process was not recorded" in text


def test_what_is_new_comes_first() -> None:
    text = stormlog("compare", CLEAN, LEAKING).stdout
    places = [text.index(part) for part in ("1 finding new", "  new: ", "base  ", "Rank 0")]
    assert places == sorted(places)
    assert "unchanged" not in text.split("slope of allocated")[1].split("steady")[0]


def test_annotations_and_markdown(tmp_path: Path) -> None:
    base, new = (
        steps(tmp_path / "a.jsonl"),
        steps(tmp_path / "b.jsonl", factor=1.25, job_id="x\n::error::|y|"),
    )
    done = stormlog("compare", base, new, "--max-peak-growth", "20%", "--format", "github")
    assert done.returncode == 2
    annotations = done.stdout.splitlines()
    assert annotations[0].startswith(
        "::error title=--max-peak-growth 20%25 failed::peak used (all processes) of rank 0: "
    )
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in annotations)
    page = stormlog("compare", base, new, "--format", "md", "--output", tmp_path / "out.md")
    assert (page.returncode, page.stdout) == (0, "")
    text = (tmp_path / "out.md").read_text()
    assert text.startswith("**")
    assert "\\|y\\|" in text
    assert len(text) < 65_536
    shown = stormlog("compare", base, new)
    assert "\n::error" not in shown.stdout


def test_a_run_of_many_ranks_fits_a_comment(tmp_path: Path) -> None:
    base, new = (
        steps(tmp_path / "a.jsonl", ranks=200, count=20),
        steps(tmp_path / "b.jsonl", ranks=200, count=20, factor=2),
    )
    done = stormlog("compare", base, new, "--format", "md", "--max-peak-growth", "20%")
    assert done.returncode == 2
    assert len(done.stdout) < 65_536
    shown = stormlog("compare", base, new).stdout
    assert "and 184 more ranks" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["a", "b", "--max-peak-growth", "lots"],
        ["a", "b", "--max-slope", "10MB"],
        ["a", "b", "--fail-on", "everything"],
        ["a"],
        [],
        ["a", "--save-baseline", "b", "--max-peak-growth", "20%"],
    ],
)
def test_bad_usage_ends_with_1(arguments: list[str]) -> None:
    done = stormlog("compare", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stdout == ""


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_changes_nothing(name: str, tmp_path: Path) -> None:
    file = lines(tmp_path / "events.jsonl", BAD_INPUT[name])
    document = compared(file, file)
    assert document["findings"] == {"new": [], "gone": [], "unanswered": [], "shared": []}
    verdicts = {metric["verdict"] for rank in document["ranks"] for metric in rank["metrics"]}
    assert verdicts <= {"unchanged", "not_enough_evidence"}
    against = compared(file, steps(tmp_path / "b.jsonl"))
    assert against["findings"]["new"] == []


def test_the_schema_checks_can_fail(tmp_path: Path) -> None:
    document = compared(
        steps(tmp_path / "a.jsonl"),
        steps(tmp_path / "b.jsonl", factor=2),
        "--max-peak-growth",
        "500%",
    )
    for change in (
        lambda d: d["verdict"].update(status="fine"),
        lambda d: d["ranks"][0]["metrics"][0].pop("verdict"),
        lambda d: d["gates"][0].update(surprise=1),
    ):
        broken = copy.deepcopy(document)
        change(broken)
        assert list(problems(broken, COMPARE))
