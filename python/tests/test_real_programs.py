"""Real programs: recordings made on a GPU, and plain Python, NumPy and JAX programs run here.

The programs are those of benches/programs/tuned, judged by the rules of benches/programs/judge.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stormlog import analyze, query

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "fixtures" / "recordings"


def load_judge() -> ModuleType:
    """The module benches/programs/judge.py, which is not part of a package."""
    spec = importlib.util.spec_from_file_location(
        "programs_judge", ROOT / "benches" / "programs" / "judge.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look it up
    spec.loader.exec_module(module)
    return module


def load_programs() -> list[Any]:
    try:
        programs: list[Any] = judge.load_programs()
    except SystemExit as error:  # would end pytest
        raise AssertionError(error) from None
    return programs


judge = load_judge()


# leak_to_oom ended before it reached its memory limit.
SHARED: dict[str, dict[str, Any]] = {
    "clean_gpt": {},
    "clean_serving": {},
    "hf_trainer": {},
    "outputs_list": {"expect": ["allocator_leak"]},
    "kv_cache": {"expect": ["allocator_leak"]},
    "leak_to_oom": {"expect": ["allocator_leak"]},
    "host_leak": {"expect": ["host_leak"]},
    "native_malloc": {"expect": ["hidden_drift"]},
    "rank_leak": {"expect": ["allocator_leak"], "rank": 1},
}

PROGRAMS = {program.name: program for program in load_programs()}
RECORDED = sorted(path.name for path in RECORDINGS.iterdir() if path.is_dir())
EXPECTED = PROGRAMS | {
    f"shared_{name}": judge.Program(f"shared_{name}", "", ["torch-cpu", "cuda"], **fields)
    for name, fields in SHARED.items()
}
CLEAN = [name for name in RECORDED if name in EXPECTED and not EXPECTED[name].expect]
FAULTY = [name for name in RECORDED if name in EXPECTED and EXPECTED[name].expect]

# Faults that are not reported as a warning, and what is reported of their kind.
KNOWN_MISSES = {
    "spawned_actor_leak": "info",
    "pinned_leak": "info",
    "graph_per_shape": None,
}


def judged(name: str) -> tuple[Any, list[dict[str, Any]]]:
    """The judgement on a recording, and the findings."""
    document: Any = analyze(RECORDINGS / name).document
    # All of these ran on a GPU; their exit codes were checked when they were recorded.
    return judge.judge(EXPECTED[name], judge.Recording(name, "cuda", None), document), document[
        "findings"
    ]


def test_every_recording_has_an_expectation() -> None:
    assert set(RECORDED) <= set(EXPECTED)
    assert {f"shared_{name}" for name in SHARED} <= set(RECORDED)
    assert set(KNOWN_MISSES) <= set(FAULTY)
    assert len(CLEAN) >= 30 and len(FAULTY) >= 32


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_program_is_silent(name: str) -> None:
    judgement, findings = judged(name)
    loud = [finding["explanation"] for finding in findings if finding["severity"] in judge.LOUD]
    assert loud == []
    assert judgement.wrong == []


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_program_has_no_issue(name: str) -> None:
    issues = query.open([RECORDINGS / name]).list_issues(include_findings=True)
    assert [issue.title for issue in issues if issue.severity in judge.LOUD] == []


@pytest.mark.parametrize("name", [name for name in FAULTY if name not in KNOWN_MISSES])
def test_a_fault_is_reported_and_nothing_else(name: str) -> None:
    judgement, findings = judged(name)
    assert judgement.wrong == [], [finding["explanation"] for finding in findings]
    assert judgement.named


@pytest.mark.parametrize("name", KNOWN_MISSES)
def test_a_known_miss_is_still_missed(name: str) -> None:
    judgement, findings = judged(name)
    assert judgement.wrong == ["missed"], "not missed any more: remove it from KNOWN_MISSES"
    expected = EXPECTED[name].expected("cuda")
    severities = {finding["severity"] for finding in findings if judge.kind_of(finding) in expected}
    known = KNOWN_MISSES[name]
    assert severities == ({known} if known else set())


# Programs that the whole command runs here, and for how many steps results are compared.
RUN_HERE = {
    "np_fork_shared": 20,
    "py_worker_pool": 8,
    "np_memmap_dataset": 20,
    "py_exec_restart": 20,
    "imports_only": 1,
    "py_spawn_leak": 20,
    "py_memory_error": 1,
    "np_memory_error": 5,
    "jax_imports_only": 1,
    "jax_train": 20,
    "jax_length_buckets": 20,
    "jax_history_leak": 20,
}
LIBRARIES = ("numpy", "jax")
SECONDS = 6.0
STORMLOG = [
    sys.executable,
    "-c",
    "import sys; from stormlog import entrypoint; sys.exit(entrypoint.main())",
]


@dataclass
class Runs:
    """The results of one program, as they become available."""

    recording: Future[Any]
    same_results: Future[Any]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


def have() -> set[str]:
    return {"python"} | {name for name in LIBRARIES if importlib.util.find_spec(name)}


def arguments(out: Path, steps: int, seconds: float = SECONDS) -> argparse.Namespace:
    return argparse.Namespace(
        out=out, stormlog=STORMLOG, python=sys.executable, seconds=seconds, steps=steps, device=None
    )


@pytest.fixture(scope="module")
def runs(out: Path) -> Iterator[dict[str, Runs]]:
    """All programs, two at a time: most of them wait most of the time."""
    libraries = have()
    with ThreadPoolExecutor(2) as pool:
        begun = {}
        for name, steps in RUN_HERE.items():
            program = PROGRAMS[name]
            if set(program.needs) <= libraries:
                recording = pool.submit(judge.record, program, arguments(out, steps), libraries)
                same = pool.submit(judge.same_results, program, arguments(out, steps))
                begun[name] = Runs(recording, same)
        yield begun
        pool.shutdown(cancel_futures=True)


def started(runs: dict[str, Runs], name: str) -> Runs:
    for library in set(LIBRARIES) & set(PROGRAMS[name].needs):
        pytest.importorskip(library)
    return runs[name]


@pytest.mark.parametrize("name", RUN_HERE)
def test_a_program_is_run_and_judged(name: str, runs: dict[str, Runs], out: Path) -> None:
    program, made = PROGRAMS[name], started(runs, name).recording.result()
    assert made.exit == program.exit, made.stderr_tail
    report = judge.analyze(out / name, STORMLOG)
    if "host_leak" in program.expected("cpu"):
        # In so short a time it could be a buffer that fills up: a note is enough.
        program = replace(program, severity="info")
    judgement = judge.judge(program, made, report)
    if judgement.wrong == ["missed"]:
        # On a busy machine a program may grow in fits within its few seconds. A false finding gets
        # no second try.
        again = out / "again"
        made = judge.record(program, arguments(again, RUN_HERE[name], 2 * SECONDS), have())
        report = judge.analyze(again / name, STORMLOG)
        judgement = judge.judge(program, made, report)
    assert judgement.wrong == [], (report, made.stderr_tail)
    if "oom" in program.expect:
        severities = {
            found["severity"] for found in report["findings"] if judge.kind_of(found) == "oom"
        }
        assert severities == {"critical"}


@pytest.mark.parametrize("name", RUN_HERE)
def test_a_program_prints_the_same_without_stormlog(name: str, runs: dict[str, Runs]) -> None:
    judgement = started(runs, name).same_results.result()
    assert judgement.wrong == [], judgement.headline
