"""What we record, the reference reads: exports, sinks and bundles."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from parity.reference import interpreter
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


def read_with_reference(*paths: Path) -> list[list[object]]:
    command = [interpreter(), "-c", READ, *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    rows: list[list[object]] = json.loads(result.stdout)
    return rows


def test_exports_and_sinks_of_both_trackers(torch: ModuleType, tmp_path: Path, wait_until) -> None:
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
    assert read_with_reference(*paths) == expected


def test_the_events_of_a_bundle(torch: ModuleType, tmp_path: Path) -> None:
    tracker = MemoryTracker(
        sampling_interval=0.01, enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path)
    )
    with tracker, pytest.raises(torch.OutOfMemoryError):
        torch.run_out_of_memory()
    (bundle,) = tmp_path.iterdir()
    count = json.loads((bundle / "manifest.json").read_text())["event_count"]
    ((_, events),) = read_with_reference(bundle / "events.json")
    assert events == count > 1
