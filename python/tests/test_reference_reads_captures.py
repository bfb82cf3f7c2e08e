"""What we record, the reference reads: exports, sinks and bundles."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from stormlog.cpu_profiler import CPUMemoryTracker
from stormlog.telemetry_sink import TelemetrySinkConfig
from stormlog.tracker import MemoryTracker

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
