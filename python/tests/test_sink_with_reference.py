"""The same lives of a sink here and in stormlog 0.3.9, and sinks that cross over.

`python python/tests/test_sink_with_reference.py SEED COUNT` compares more of them.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from parity import reference, sinks

LIVES = 60
SEED = 20240501
PROGRAM = Path(sinks.__file__)

WRITE = """
import json, sys
from pathlib import Path
from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig
sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(
    root_dir=Path(sys.argv[1]), flush_every_events=7, rollover_max_events=20))
for record in json.load(sys.stdin):
    sink.append(record)
sink.close()
"""

LOAD = """
import json, sys
from stormlog.telemetry import load_telemetry_sessions, telemetry_event_to_dict
from stormlog.session import session_summary_to_dict
from stormlog.telemetry_rollups import read_telemetry_rollups, telemetry_rollup_file_to_dict
print(json.dumps([[
    [session_summary_to_dict(item.summary), [telemetry_event_to_dict(e) for e in item.events]]
    for item in load_telemetry_sessions(sys.argv[1])
], telemetry_rollup_file_to_dict(read_telemetry_rollups(sys.argv[1]))]))
"""


@pytest.fixture(scope="session")
def reference_python() -> str:
    try:
        return reference.interpreter()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"stormlog 0.3.9 cannot be installed here: {error}")


def outcomes(python: str, root: str, lives: list[dict[str, Any]]) -> list[Any]:
    done = subprocess.run(
        [python, str(PROGRAM), root],
        input=json.dumps(lives),
        capture_output=True,
        check=True,
        text=True,
    )
    found: list[Any] = json.loads(done.stdout)
    return found


def differences(python: str, seed: int, count: int) -> list[tuple[Any, Any, Any]]:
    rnd = random.Random(seed)
    lives = [sinks.case(rnd) for _ in range(count)]
    with tempfile.TemporaryDirectory() as root:
        theirs, ours = outcomes(python, root, lives), outcomes(sys.executable, root, lives)
    return [one for one in zip(lives, theirs, ours, strict=True) if one[1] != one[2]]


def test_the_same_life_leaves_the_same_files(reference_python: str) -> None:
    found = differences(reference_python, SEED, LIVES)
    assert not found, f"{len(found)} of {LIVES} differ, first:\n{json.dumps(found[0], indent=1)}"


def run(python: str, program: str, path: Path, records: object = None) -> Any:
    done = subprocess.run(
        [python, "-c", program, str(path)],
        input=json.dumps(records),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout) if done.stdout else None


@pytest.mark.parametrize("writer", ["reference", "ours"])
def test_a_sink_of_the_one_loads_in_the_other(
    writer: str, reference_python: str, tmp_path: Path
) -> None:
    rnd = random.Random(SEED)
    records = []
    while len(records) < 60:
        record = sinks._record(rnd, len(records), True)
        if record.get("session_id") == "one" and isinstance(record["pid"], int):
            records.append(record)
    path = tmp_path / "sink"
    run(reference_python if writer == "reference" else sys.executable, WRITE, path, records)
    theirs, ours = run(reference_python, LOAD, path), run(sys.executable, LOAD, path)
    assert ours == theirs
    [[summary, events]] = ours[0]
    assert (summary["session_id"], summary["status"]) == ("one", "completed")
    assert len(events) == 60
    assert ours[1]["sessions"][0]["event_count"] == 60


if __name__ == "__main__":
    for life, theirs, ours in differences(
        reference.interpreter(), int(sys.argv[1]), int(sys.argv[2])
    ):
        print(
            json.dumps(life), "\n  reference", json.dumps(theirs), "\n  ours     ", json.dumps(ours)
        )
