"""Diagnosis of real processes: exit codes, bundles, interruptions, full disks, the CI page."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from json_schema import problems
from stormlog import CPUMemoryTracker, diagnose, query
from stormlog.telemetry import load_telemetry_events, load_telemetry_sessions
from test_capture_commands import program, run
from waiting import FOR_PROGRAMS, PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    "environment.json",
    "telemetry_timeline.json",
    "diagnostic_summary.json",
    "report.json",
    "manifest.json",
]
SCHEMAS = {
    "manifest.json": "diagnose-manifest",
    "diagnostic_summary.json": "diagnostic-summary",
    "telemetry_timeline.json": "diagnose-timeline",
    "report.json": "analyze",
}
CALM = "import time; kept = bytearray(b'x') * (40 << 20); time.sleep({seconds})"
LEAK = """
import time
print("leaking", flush=True)
kept = []
for _ in range({steps}):
    kept.append(bytearray(b"x") * (2 << 20))
    time.sleep(0.02)
"""


@pytest.fixture
def calm() -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds some memory and does nothing."""
    hold = "kept = bytearray(b'x') * (40 << 20); print(flush=True); import time; time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"\n"
    yield process
    process.kill()
    process.wait()


def document(bundle: Path, name: str) -> Any:
    content = json.loads((bundle / name).read_text())
    if name in SCHEMAS:
        schema = json.loads((ROOT / "docs/schemas" / f"{SCHEMAS[name]}.schema.json").read_text())
        assert list(problems(content, schema)) == []
    return content


def whole(bundle: Path) -> dict[str, Any]:
    """Every file of a finished bundle, checked against its schema."""
    manifest = document(bundle, "manifest.json")
    assert manifest["files"] == FILES
    return {name: document(bundle, name) for name in FILES}


def test_a_clean_process_is_fine(tmp_path: Path, calm: subprocess.Popen[bytes]) -> None:
    arguments = ("--pid", calm.pid, "--duration", "1", "--interval", "0.05")
    result = run("diagnose", *arguments, "--output", tmp_path / "out")
    assert result.returncode == 0, result
    assert result.stdout.splitlines()[:3] == [
        f"Artifact: {tmp_path / 'out'}",
        "Status: OK (exit_code=0)",
        "Findings: no memory risk detected",
    ]
    files = whole(tmp_path / "out")
    summary = files["diagnostic_summary.json"]
    assert summary["backend"] == "cpu" and summary["allocated_bytes"] > 40 << 20
    assert summary["peak_bytes"] >= summary["allocated_bytes"] and summary["num_ooms"] == 0
    assert not any(summary["risk_flags"].values())
    assert summary["fragmentation_ratio"] is None
    assert len(files["telemetry_timeline.json"]["allocated"]) == summary["samples"] > 1
    session = files["manifest.json"]["session"]
    assert (session["pid"], session["status"]) == (calm.pid, "completed")
    (loaded,) = load_telemetry_sessions(tmp_path / "out")
    assert loaded.summary.session_id == session["session_id"]
    assert {event.event_type for event in load_telemetry_events(tmp_path / "out")} >= {"sample"}


def test_near_its_limit_is_a_risk(tmp_path: Path, calm: subprocess.Popen[bytes]) -> None:
    arguments = ("--pid", calm.pid, "--duration", "0.3", "--interval", "0.1", "--limit", "48MiB")
    result = run("diagnose", *arguments, "--output", tmp_path / "out", "--json")
    assert result.returncode == 2, result
    printed = json.loads(result.stdout)
    schema = json.loads((ROOT / "docs/schemas/diagnose.schema.json").read_text())
    assert list(problems(printed, schema)) == []
    assert printed["raised"] == ["high_utilization"]
    assert whole(tmp_path / "out")["manifest.json"]["risk_detected"] is True


def test_a_leak_is_a_risk(tmp_path: Path) -> None:
    leak = subprocess.Popen([sys.executable, "-c", LEAK.format(steps=2000)], stdout=subprocess.PIPE)
    assert leak.stdout is not None and leak.stdout.readline() == b"leaking\n"
    try:
        arguments = ("--pid", leak.pid, "--duration", "6", "--interval", "0.05", "--limit", "8GiB")
        result = run("diagnose", *arguments, "--output", tmp_path / "out", name="gpumemprof")
    finally:
        leak.kill()
        leak.wait()
    assert result.returncode == 2, result
    files = whole(tmp_path / "out")
    assert "allocator_leak" in files["report.json"]["verdict"]["kinds"]
    assert files["diagnostic_summary.json"]["risk_flags"]["memory_finding"] is True
    assert files["diagnostic_summary.json"]["suggestions"]


def test_the_verdict_is_that_of_analyze(tmp_path: Path, calm: subprocess.Popen[bytes]) -> None:
    arguments = ("--pid", calm.pid, "--duration", "0.5", "--interval", "0.05")
    assert run("diagnose", *arguments, "--output", tmp_path / "out").returncode == 0
    analyzed = json.loads(run("analyze", tmp_path / "out", "--format", "json").stdout)
    report = document(tmp_path / "out", "report.json")
    assert (analyzed["verdict"], analyzed["findings"]) == (report["verdict"], report["findings"])


def test_a_missing_process_leaves_nothing(tmp_path: Path) -> None:
    result = run("diagnose", "--pid", "999999999", "--output", tmp_path / "out")
    assert result.returncode == 1 and "process 999999999 not found" in result.stderr
    assert not (tmp_path / "out").exists()


def test_bad_usage_is_a_failure_and_no_risk(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, message in (
        (("--duration", "-1"), "--duration must be >= 0"),
        (("--interval", "0"), "--interval must be > 0"),
        (("--native-history-max-entries", "0"), "--native-history-max-entries must be > 0"),
        (("--output", tmp_path / "file"), "cannot create the output directory"),
        (("--device", "77"), "GPU"),
        (("--limit", "lots"), "a size such as 512MiB"),
        (("--nonsense",), "--nonsense"),
    ):
        for name in ("main", "gpumemprof"):
            result = run("diagnose", *arguments, name=name)
            assert result.returncode == 1 and message in result.stderr, (arguments, result)


def test_an_existing_directory_gets_a_bundle_inside(tmp_path: Path) -> None:
    for name, prefix in (
        ("gpumemprof", "stormlog-diagnose"),
        ("tfmemprof", "stormlog-tensorflow-diagnose"),
    ):
        (tmp_path / name).mkdir()
        for _ in range(2):
            result = run("diagnose", "--output", tmp_path / name, "--duration", "0", name=name)
            assert result.returncode == 0, result
        bundles = sorted((tmp_path / name).iterdir())
        assert len(bundles) == 2
        assert all(re.match(rf"{prefix}-\d{{8}}-\d{{6}}(-\d+)?$", path.name) for path in bundles)
        files = whole(bundles[0])
        assert files["telemetry_timeline.json"] == {
            "timestamps": [],
            "allocated": [],
            "reserved": [],
        }
        assert files["diagnostic_summary.json"]["allocated_bytes"] > 0
        assert ("native_history_enabled" in files["manifest.json"]) == (name == "gpumemprof")


def test_a_command_is_diagnosed_to_its_end(tmp_path: Path) -> None:
    script = "import sys; wait_for_events(sys.argv[1], 4); print('trained'); raise SystemExit(3)"
    script = FOR_PROGRAMS + "kept = bytearray(b'x') * (40 << 20)\n" + script
    command = (sys.executable, "-c", script, tmp_path / "out")
    result = run("diagnose", "--output", tmp_path / "out", "--", *command)
    # The program failed and memory was not the reason.
    assert result.returncode == 1 and result.stdout.startswith("trained\n")
    manifest = whole(tmp_path / "out")["manifest.json"]
    assert "exit code 3" in manifest["error"] and manifest["risk_detected"] is False
    assert len(load_telemetry_events(tmp_path / "out")) > 3
    # The bundle holds the sink that it was made from: one session, listed once.
    [session] = query.open([tmp_path / "out"]).list_sessions()
    assert session.source_kind == "diagnose_bundle"
    assert session.event_count is not None and session.event_count > 3


def test_a_memory_error_is_counted(tmp_path: Path) -> None:
    script = "import time; time.sleep(0.3); bytearray(1 << 60)"
    result = run("diagnose", "--output", tmp_path / "out", "--", sys.executable, "-c", script)
    assert result.returncode == 2, result
    summary = whole(tmp_path / "out")["diagnostic_summary.json"]
    assert summary["num_ooms"] == 1 and summary["risk_flags"]["oom_occurred"] is True


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_bundle_is_whole(
    tmp_path: Path, calm: subprocess.Popen[bytes], ending: signal.Signals
) -> None:
    out = tmp_path / "out"
    arguments = ["diagnose", "--pid", str(calm.pid), "--duration", "600", "--interval", "0.05"]
    process = subprocess.Popen(
        [*program("main"), *arguments, "--output", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_samples(out, process)
    process.send_signal(ending)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1 and ending.name in errors
    manifest = whole(out)["manifest.json"]
    assert manifest["session_status"] == "interrupted" and ending.name in manifest["error"]
    (session,) = load_telemetry_sessions(out)
    assert session.summary.status == "interrupted" and len(session.events) > 3
    assert run("show", out).returncode == 0


def test_a_killed_diagnosis_leaves_what_it_recorded(
    tmp_path: Path, calm: subprocess.Popen[bytes]
) -> None:
    out = tmp_path / "out"
    arguments = ["diagnose", "--pid", str(calm.pid), "--duration", "600", "--interval", "0.05"]
    process = subprocess.Popen([*program("main"), *arguments, "--output", str(out)])
    wait_for_samples(out, process)
    process.kill()
    process.wait()
    manifest = document(out, "manifest.json")
    assert manifest["exit_code"] is None and "killed" in manifest["error"]
    assert manifest["session_status"] == "running"
    assert len(load_telemetry_events(out)) > 3
    assert not [path.name for path in out.iterdir() if path.name.startswith(".tmp")]


def wait_for_samples(out: Path, process: subprocess.Popen[Any]) -> None:
    segment = out / "telemetry" / "segment-000001.jsonl"

    def is_recording() -> bool:
        assert process.poll() is None
        return segment.exists() and segment.read_text().count('"sample"') > 5

    wait_until(is_recording)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def fill(disk: Path, while_running: subprocess.Popen[Any] | None = None) -> None:
    """Take all the room, and go on taking what becomes free while a process runs."""
    with (disk / "filler").open("ab", buffering=0) as filler:
        while True:
            try:
                filler.write(b"x" * 4096)
            except OSError:
                if while_running is None or while_running.poll() is not None:
                    return
                time.sleep(0.0005)


def test_a_disk_that_is_full_from_the_start(
    small_disk: Path, calm: subprocess.Popen[bytes]
) -> None:
    fill(small_disk)
    result = run("diagnose", "--pid", calm.pid, "--duration", "0", "--output", small_disk / "out")
    assert result.returncode == 1 and "No space left" in result.stderr, result
    assert not (small_disk / "out").exists()


def test_a_disk_that_fills_up_meanwhile(small_disk: Path, calm: subprocess.Popen[bytes]) -> None:
    out = small_disk / "out"
    command = [*program("main"), "diagnose", "--pid", str(calm.pid), "--output", str(out)]
    process = subprocess.Popen(
        [*command, "--duration", "4", "--interval", "0.01"], stderr=subprocess.PIPE, text=True
    )
    wait_for_samples(out, process)
    fill(small_disk, process)
    _, errors = process.communicate(timeout=PATIENCE_S)
    if process.returncode == 0:
        # The space that the sink had reserved for its end was enough to finish the bundle.
        assert whole(out)["manifest.json"]["session_status"] in ("completed", "incomplete")
    else:
        assert process.returncode == 1 and "No space left" in errors, errors
        assert document(out, "manifest.json")["error"]
    assert len(load_telemetry_events(out)) > 3


def test_the_reference_reads_our_bundles(
    tmp_path: Path, calm: subprocess.Popen[bytes], reference_python: str
) -> None:
    out = tmp_path / "out"
    arguments = ("--pid", calm.pid, "--duration", "0.5", "--interval", "0.05", "--output", out)
    assert run("diagnose", *arguments).returncode == 0
    read = """
import json, sys
from pathlib import Path
from stormlog.tui.distributed_diagnostics import load_distributed_artifacts
loaded = load_distributed_artifacts([Path(sys.argv[1])])
print(json.dumps([loaded.selected_session_id, len(loaded.events), loaded.sessions[0].summary.status]))
"""
    done = subprocess.run([reference_python, "-c", read, str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    session_id, events, status = json.loads(done.stdout)
    manifest, timeline = (
        document(out, name) for name in ("manifest.json", "telemetry_timeline.json")
    )
    assert (session_id, status) == (manifest["session_id"], "completed")
    assert events == len(timeline["timestamps"])


def test_this_process_from_python(tmp_path: Path) -> None:
    directory, code = diagnose.run_diagnose(str(tmp_path / "out"), None, 0.3, 0.05, "my program")
    assert (directory, code) == (tmp_path / "out", 0)
    files = whole(directory)
    assert files["manifest.json"]["command_line"] == "my program"
    assert files["manifest.json"]["session"]["pid"] == os.getpid()
    assert set(files["environment.json"]) == {"system", "gpu", "fragmentation"}
    summary, is_risk = diagnose.build_diagnostic_summary()
    assert summary["backend"] == "cpu" and summary["allocated_bytes"] > 0 and not is_risk
    timeline = diagnose.run_timeline_capture(None, 1, 0.05)
    assert len(timeline["timestamps"]) == len(timeline["allocated"]) > 1
    assert diagnose.run_timeline_capture(None, 0, 0.05) == {
        "timestamps": [],
        "allocated": [],
        "reserved": [],
    }


def test_a_nearly_full_gpu_from_python(torch: ModuleType, tmp_path: Path) -> None:
    torch.STATE.update(allocated=900 << 20, reserved=950 << 20)
    try:
        directory, code = diagnose.run_diagnose(str(tmp_path / "out"), None, 0.2, 0.05, "x")
    finally:
        torch.STATE.update(allocated=50 << 20, reserved=60 << 20)
    assert code == 2
    summary = whole(directory)["diagnostic_summary.json"]
    assert summary["backend"] == "cuda" and summary["total_bytes"] == 1000 << 20
    assert summary["allocator_gap_bytes"] == 50 << 20
    fragmentation = document(directory, "environment.json")["fragmentation"]
    assert fragmentation["reservation_ratio"] == 0.95
    assert fragmentation["reserved_memory_formatted"] == "950.00 MB"


def test_a_gpu_that_is_lost_is_not_waited_for_for_ever(
    torch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = diagnose._tracker

    def failing(*arguments: Any) -> Any:
        made = tracker(*arguments)
        torch.STATE["core_error"] = "the device is lost"
        return made

    monkeypatch.setattr(diagnose, "_tracker", failing)
    with pytest.raises(RuntimeError, match="the device is lost"):
        diagnose.run_diagnose(str(tmp_path / "out"), None, 0, 0.05, "x")
    assert document(tmp_path / "out", "manifest.json")["error"]


def test_a_device_that_cannot_be_tracked_is_the_error_of_the_bundle(
    torch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: Any) -> Any:
        raise ValueError("no such device")

    monkeypatch.setattr(diagnose, "_tracker", failing)
    with pytest.raises(ValueError, match="no such device"):
        diagnose.run_diagnose(str(tmp_path / "out"), None, 0, 0.05, "x")
    assert "no such device" in document(tmp_path / "out", "manifest.json")["error"]


def test_a_tracker_that_cannot_be_stopped_is_the_error_of_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = CPUMemoryTracker.stop_tracking

    def failing(tracker: CPUMemoryTracker) -> None:
        original(tracker)
        raise RuntimeError("no thread ended")

    monkeypatch.setattr(CPUMemoryTracker, "stop_tracking", failing)
    with pytest.raises(RuntimeError, match="no thread ended"):
        diagnose.run_diagnose(str(tmp_path / "out"), None, 0, 0.05, "x")
    assert "no thread ended" in document(tmp_path / "out", "manifest.json")["error"]


BLOCK = re.compile(r"<!-- test: (\w+) -->\n```sh\n(.*?)```", re.DOTALL)
TRAIN = {
    "clean": CALM.format(seconds=0.5),
    "leaky": LEAK.format(steps=350),
    "oom": "import time; time.sleep(0.3); bytearray(1 << 60)",
    "regression": CALM.format(seconds=2),
}
EXPECTED = {
    "clean": (0, ""),
    "leaky": (1, "risk:"),
    "oom": (1, "out of memory: 1"),
    "regression": (1, "the peak grew by more than 20 %"),
}


def commands(folder: Path) -> dict[str, str]:
    """An environment in which `stormlog` and `python` are the ones under test."""
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    (folder / "stormlog").write_text(
        f"#!{sys.executable}\nimport sys\nfrom stormlog import entrypoint\nsys.exit(entrypoint.main())\n"
    )
    (folder / "stormlog").chmod((folder / "stormlog").stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


BLOCKS = dict(BLOCK.findall((ROOT / "docs/ci.md").read_text()))


@pytest.mark.parametrize("name", list(EXPECTED))
def test_the_ci_page_works_as_it_stands(name: str, tmp_path: Path) -> None:
    environment = commands(tmp_path / "bin")
    if name == "regression":
        small = "import time; kept = bytearray(b'x') * (4 << 20); time.sleep(2)"
        options = ("--dir", tmp_path / "base", "--interval", "0.02", "--quiet")
        assert run("run", *options, "--", sys.executable, "-c", small).returncode == 0
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAIN[name]))
    done = subprocess.run(
        ["sh", "-c", BLOCKS[name]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    code, words = EXPECTED[name]
    assert done.returncode == code and words in done.stdout, done


def test_every_block_of_the_ci_page_is_run() -> None:
    page = (ROOT / "docs/ci.md").read_text()
    assert page.count("```sh") == len(BLOCKS) == len(EXPECTED)
