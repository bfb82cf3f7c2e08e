"""`stormlog.analyze` and `stormlog.compare`: real dataclasses that read well in notebooks."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

import stormlog
from stormlog.errors import StormlogError
from test_analyze import RUNS, SECOND, lines, record
from test_analyze import stormlog as program
from test_compare import CLEAN, LEAKING, steps

EVIL = "<script>alert(1)</script>"


def test_a_report_is_what_the_command_says() -> None:
    report = stormlog.analyze(LEAKING)
    assert isinstance(report, stormlog.Report)
    assert report.verdict.status == "findings"
    assert "allocator_leak" in report.kinds
    assert report.findings[0].advice
    assert report.findings[0].cause is None
    assert report.runs[0].ranks[0].peak_used_bytes
    assert str(report) == program("analyze", LEAKING).stdout
    assert repr(report).startswith("<Report findings: '")
    assert report.coverage.samples == sum(rank.samples for run in report.runs for rank in run.ranks)


def test_several_paths_and_choices(tmp_path: Path) -> None:
    files = [
        steps(
            tmp_path / f"{rank}.jsonl",
            rank=rank,
            local_rank=rank,
            world_size=2,
            session_id=f"s{rank}",
        )
        for rank in range(2)
    ]
    (run,) = stormlog.analyze(files).runs
    assert [rank.rank for rank in run.ranks] == [0, 1]
    assert stormlog.analyze(tmp_path, rank=1).runs[0].ranks[0].rank == 1
    assert stormlog.analyze(str(tmp_path), session_id="s0").runs[0].session_ids == ("s0",)


def test_a_comparison_is_what_the_command_says(tmp_path: Path) -> None:
    comparison = stormlog.compare(
        CLEAN, LEAKING, max_peak_growth="20%", max_slope="10MB/min", fail_on=["new-findings"]
    )
    assert isinstance(comparison, stormlog.Comparison)
    assert (comparison.status, comparison.passed) == ("higher", False)
    assert {gate.status for gate in comparison.gates} == {"failed"}
    assert "allocator_leak" in {finding.kind for finding in comparison.findings.new}
    assert ("peak_used", "higher") in {
        (metric.metric, metric.verdict) for _, _, metric in comparison.changes()
    }
    flags = ["--max-peak-growth", "20%", "--max-slope", "10MB/min", "--fail-on", "new-findings"]
    assert str(comparison) == program("compare", CLEAN, LEAKING, *flags).stdout
    assert repr(comparison).startswith("<Comparison higher: '")
    baseline = tmp_path / "baseline.json"
    stormlog.save_baseline(CLEAN, baseline)
    again = stormlog.compare(baseline, LEAKING)
    assert again.ranks == comparison.ranks
    assert (again.gates, again.passed) == ((), True)


@pytest.mark.parametrize(
    "made",
    [
        lambda: stormlog.analyze(LEAKING),
        lambda: stormlog.compare(CLEAN, LEAKING, max_peak_growth="1%"),
    ],
)
def test_they_are_real_dataclasses(made: Any) -> None:
    one = made()
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)
    assert dataclasses.replace(one, text="other").text == "other"
    assert dataclasses.asdict(one)["text"] == one.text
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.text = "x"


def test_notebooks_show_names_as_text(tmp_path: Path) -> None:
    records = [record(n * SECOND, host=EVIL, job_id=EVIL, session_id="s") for n in range(100)]
    file = lines(tmp_path / "a.jsonl", records)
    page = stormlog.analyze(file)._repr_html_()
    assert "<table>" in page and "&lt;script&gt;" in page and "<script" not in page
    scope = {"phase_scope": {"name": EVIL}}
    phased = [record(0, event_type="phase_enter", metadata=scope), *records]
    both = lines(tmp_path / "b.jsonl", phased)
    page = stormlog.compare(both, both, max_peak_growth="20%")._repr_html_()
    assert "<table>" in page and "&lt;script&gt;" in page and "<script" not in page


def test_unknown_is_said_in_notebooks(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "a.jsonl", [record(n * SECOND, device_total_bytes=None) for n in range(60)]
    )
    assert "unknown" in stormlog.analyze(file)._repr_html_()


def test_failures_are_ours_and_of_the_type_that_is_caught(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        stormlog.analyze(tmp_path / "nowhere")
    with pytest.raises(StormlogError):
        stormlog.analyze(tmp_path)
    with pytest.raises(ValueError, match="ranks are 0"):
        stormlog.analyze(CLEAN, rank=9)
    with pytest.raises(ValueError, match="session_id not found"):
        stormlog.compare(CLEAN, CLEAN, session_id="other")
    with pytest.raises(ValueError, match="20%"):
        stormlog.compare(CLEAN, CLEAN, max_peak_growth="lots")
    with pytest.raises(ValueError, match="new-findings"):
        stormlog.compare(CLEAN, CLEAN, fail_on=["everything"])
    damaged = tmp_path / "baseline.json"
    stormlog.save_baseline(CLEAN, damaged)
    damaged.write_text(damaged.read_text()[:300])
    with pytest.raises(ValueError, match="damaged baseline"):
        stormlog.compare(damaged, CLEAN)
    empty = lines(tmp_path / "empty.jsonl", [record(1, event_type="start")])
    with pytest.raises(ValueError, match="no samples"):
        stormlog.save_baseline(empty, tmp_path / "b.json")
    assert not (tmp_path / "b.json").exists()


def test_a_folder_of_runs(tmp_path: Path) -> None:
    report = stormlog.analyze([RUNS / "h200_clean_train", RUNS / "h200_leak_graph"])
    assert len(report.runs) == 2
    comparison = stormlog.compare(RUNS / "h200_clean_train", RUNS / "h200_clean_train")
    assert comparison.status == "unchanged"
