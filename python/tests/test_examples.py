"""The examples run, and so do scripts as users write them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE_S

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(example), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


TRACKER_LOOP = """
import time
from stormlog import CPUMemoryTracker

tracker = CPUMemoryTracker(sampling_interval=0.1, max_events=10000)
tracker.start_tracking()
try:
    data = []
    for step in range(12):
        data.append(bytearray(1024 * 1024))
        time.sleep(0.05)
finally:
    tracker.stop_tracking()

stats = tracker.get_statistics()
print(f"Peak memory: {stats['peak_memory'] / 1024**2:.2f} MB")
print(f"Events: {stats['total_events']}")
tracker.export_events("events.csv", format="csv")
tracker.export_events("events.json", format="json")
timeline = tracker.get_memory_timeline(interval=0.5)
assert len(timeline["timestamps"]) == len(timeline["allocated"]) == len(timeline["reserved"])
"""

GPU_LOOP = """
import time
import torch
from stormlog import MemoryTracker

tracker = MemoryTracker(sampling_interval=0.05, enable_alerts=True)
tracker.set_threshold("memory_warning_percent", 70)
tracker.set_threshold("memory_critical_percent", 90)
tracker.add_alert_callback(lambda event: print("ALERT", event.context))
tracker.start_tracking()
try:
    for step in range(5):
        torch.STATE["allocated"] += 10 << 20
        time.sleep(0.06)
finally:
    tracker.stop_tracking()

stats = tracker.get_statistics()
print("Peak:", stats["peak_memory"])
for event in tracker.get_events(event_type="allocation"):
    print(event.timestamp, event.memory_change, event.context)
tracker.export_events("events.csv", format="csv")
tracker.export_events("events.json", format="json")
print(tracker.get_memory_timeline(interval=0.5))
"""

PROFILER_WITH_TRACKER = """
from stormlog import CPUMemoryProfiler, CPUMemoryTracker

profiler = CPUMemoryProfiler()
tracker = CPUMemoryTracker(sampling_interval=0.05)
tracker.start_tracking()
with profiler.profile_context("preprocess"):
    values = [index ** 2 for index in range(200_000)]
summary = profiler.get_summary()
tracker.stop_tracking()
print(summary["mode"], summary["peak_memory_usage"], len(profiler.results))
print([result.to_dict() for result in profiler.results])
"""


@pytest.mark.parametrize("script", [TRACKER_LOOP, GPU_LOOP, PROFILER_WITH_TRACKER])
def test_scripts_as_users_write_them(script: str, tmp_path: Path) -> None:
    from conftest import FAKE_TORCH

    result = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=tmp_path,
        env={"PYTHONPATH": str(FAKE_TORCH), "PATH": "/usr/bin:/bin"},
    )
    assert result.returncode == 0, result.stderr
    if "export_events" in script:
        assert json.loads((tmp_path / "events.json").read_text())
        assert (tmp_path / "events.csv").read_text().startswith("schema_version,")


DOCUMENTED_KEYS = {
    "tracking_duration_seconds",
    "total_events",
    "peak_memory",
    "alert_count",
    "total_allocations",
    "total_deallocations",
}


def test_every_tracker_has_the_documented_statistics(torch, wait_until) -> None:
    from stormlog import CPUMemoryTracker, MemoryTracker

    for tracker in (
        CPUMemoryTracker(sampling_interval=0.01),
        MemoryTracker(sampling_interval=0.01),
    ):
        with tracker:
            wait_until(lambda: tracker.get_events("sample"))
        assert tracker.get_statistics().keys() >= DOCUMENTED_KEYS
