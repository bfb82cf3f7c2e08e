"""Files travel between this package and stormlog 0.3.9 without losing anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures import run
from stormlog import _core
from stormlog.telemetry import load_telemetry_sessions, telemetry_event_to_dict

# Runs in the interpreter of stormlog 0.3.9; pandas, which its CSV export asks for, may be missing.
RECORD = """
import json, sys, time
from stormlog.cpu_profiler import CPUMemoryTracker
from stormlog.telemetry_sink import TelemetrySinkConfig

folder = sys.argv[1]
# However long it takes, the first segment stays.
sink = TelemetrySinkConfig(
    root_dir=folder + "/sink", flush_every_events=3, rollover_max_events=8, retention_max_files=10_000
)
tracker = CPUMemoryTracker(
    sampling_interval=0.01, job_id="job-1", rank=1, local_rank=1, world_size=4, telemetry_sink_config=sink
)
tracker.start_tracking()
with tracker.phase("load"):
    block = bytearray(40_000_000)
    while len(tracker.get_events()) < 10:
        time.sleep(0.01)
del block
while len(tracker.get_events()) < 20:
    time.sleep(0.01)
tracker.stop_tracking()
tracker.export_events(folder + "/events.json", "json")
try:
    tracker.export_events(folder + "/events.csv", "csv")
except ImportError:
    pass
"""

LOAD = """
import json, sys
from stormlog.telemetry import load_telemetry_sessions, telemetry_event_to_dict

for path in sys.argv[1:]:
    print(json.dumps([
        [telemetry_event_to_dict(event) for event in session.events]
        for session in load_telemetry_sessions(path)
    ]))
"""


def in_reference(python: str, code: str, *arguments: Path) -> list[Any]:
    command = [python, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd="/", env=environment
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(path: Path) -> list[list[dict[str, Any]]]:
    sessions = load_telemetry_sessions(path)
    return [[telemetry_event_to_dict(event) for event in session.events] for session in sessions]


@pytest.fixture(scope="module")
def recorded(reference_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    in_reference(reference_python, RECORD, folder)
    return folder


def test_what_the_reference_writes_loads_here(reference_python: str, recorded: Path) -> None:
    paths = [
        recorded / "events.json",
        recorded / "sink",
        recorded / "sink" / "segment-000001.jsonl",
    ]
    theirs = in_reference(reference_python, LOAD, *paths)
    assert len(theirs[0][0]) > 10
    assert [ours(path) for path in paths] == theirs
    kinds = {event["event_type"] for event in theirs[1][0]}
    assert {"start", "sample", "stop"} < kinds


def test_the_references_csv_equals_its_json(recorded: Path) -> None:
    if not (recorded / "events.csv").exists():
        pytest.skip("stormlog 0.3.9's CSV export needs pandas")
    assert ours(recorded / "events.csv") == ours(recorded / "events.json")


CONVERTED = [
    "two_ranks",
    "reference_csv/events.csv",
    "versions/legacy.json",
    "diagnose_bundle",
    "oom_bundle/oom_dump_20261115T070544Z_962_cuda_1",
    "compressed/events.csv.zst",
]


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_what_we_convert_loads_there(reference_python: str, tmp_path: Path, suffix: str) -> None:
    outputs = []
    for number, name in enumerate(CONVERTED):
        output = tmp_path / f"{number}.{suffix}"
        assert _core.main("stormlog", ["convert", str(run(name)), str(output)]) == 0
        outputs.append(output)
    for name, output, theirs in zip(
        CONVERTED, outputs, in_reference(reference_python, LOAD, *outputs)
    ):
        assert theirs == ours(output)
        original = [event for session in ours(run(name)) for event in session]
        converted = [event for session in theirs for event in session]

        def by_time(event: dict[str, Any]) -> Any:
            return event["timestamp_ns"], event["rank"], event["event_type"]

        assert sorted(converted, key=by_time) == sorted(original, key=by_time)


def test_interpreters_are_two(reference_python: str) -> None:
    code = "import json, stormlog; print(json.dumps(stormlog.__file__))"
    assert in_reference(reference_python, code) != in_reference(sys.executable, code)
