"""What we record, stormlog 0.3.9 reads: exports, sinks and bundles."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from conftest import FAKE_TORCH
from stormlog.cpu_profiler import CPUMemoryTracker
from stormlog.telemetry_sink import TelemetrySinkConfig
from stormlog.tracker import MemoryTracker
from test_capture_commands import run
from waiting import FOR_PROGRAMS

READ = """
import json, sys
from stormlog.telemetry import load_telemetry_sessions
rows = []
for path in sys.argv[1:]:
    for session in load_telemetry_sessions(path):
        rows.append([session.summary.status, len(session.events)])
print(json.dumps(rows))
"""


def read_with(python: str, *paths: Path) -> list[list[object]]:
    command = [python, "-c", READ, *map(str, paths)]
    environment = {**os.environ, "PYTHONPATH": ""}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    rows: list[list[object]] = json.loads(result.stdout)
    return rows


def test_exports_and_sinks_of_both_trackers(
    torch: ModuleType, tmp_path: Path, wait_until, reference_python: str
) -> None:
    counts, paths = [], []
    for name, kind in (("cpu", CPUMemoryTracker), ("gpu", MemoryTracker)):
        sink = TelemetrySinkConfig(root_dir=tmp_path / name)
        tracker = kind(sampling_interval=0.01, telemetry_sink_config=sink)
        with tracker, tracker.phase("train"):
            wait_until(lambda: len(tracker.get_events("sample")) > 3)
        tracker.export_events(str(tmp_path / f"{name}.json"), "json")
        counts.append(tracker.get_statistics()["total_events"])
        paths += [tmp_path / name, tmp_path / f"{name}.json"]
    expected = [["completed", count] for count in counts for _ in range(2)]
    assert read_with(reference_python, *paths) == expected


def test_the_events_of_a_bundle(torch: ModuleType, tmp_path: Path, reference_python: str) -> None:
    tracker = MemoryTracker(
        sampling_interval=0.01, enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path)
    )
    with tracker, pytest.raises(torch.OutOfMemoryError):
        torch.run_out_of_memory()
    (bundle,) = tmp_path.iterdir()
    count = json.loads((bundle / "manifest.json").read_text())["event_count"]
    ((_, events),) = read_with(reference_python, bundle / "events.json")
    assert events == count > 1


COMMANDS = (
    ("query", "summary", "{}", "--metric", "peak_allocator_allocated_bytes", "--json"),
    (
        "query",
        "summary",
        "{}",
        "--metric",
        "peak_device_used_bytes",
        "--group-by",
        "rank",
        "--json",
    ),
    ("query", "summary", "{}", "--metric", "session_count_by_status", "--json"),
    ("query", "sessions", "{}", "--json"),
)


def answers_of(python: str, root: Path) -> list[object]:
    """What the commands of stormlog 0.3.9 print of a folder, without its path."""
    environment = {**os.environ, "PYTHONPATH": ""}
    call = "import sys; from stormlog.query_cli import main; sys.exit(main(sys.argv[1:]))"
    found: list[object] = []
    for words in COMMANDS:
        command = [python, "-c", call, *(word.format(root) for word in words[1:])]
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert result.returncode == 0, result.stderr
        found.append(json.loads(result.stdout.replace(str(root), "ROOT")))
    return found


def test_the_host_memory_of_a_run_is_not_in_answers_about_its_device(
    tmp_path: Path, reference_python: str
) -> None:
    script, out, alone = tmp_path / "train.py", tmp_path / "out", tmp_path / "alone"
    script.write_text(f"{FOR_PROGRAMS}import sys, torch\nwait_for_events(sys.argv[1], 30)\n")
    environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH)}
    result = run(
        "run",
        "--dir",
        out,
        "--interval",
        "0.02",
        "--",
        sys.executable,
        script,
        out,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    assert (out / "host" / "host.json").exists()
    shutil.copytree(out, alone)
    shutil.rmtree(alone / "host")
    answers = answers_of(reference_python, out)
    assert answers == answers_of(reference_python, alone)
    assert answers[0] and answers[3]
    ((_, events),) = read_with(reference_python, out)
    assert events > 10
