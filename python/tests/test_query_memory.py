"""Lists of events need little memory, however many there are, and begin at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE_S

EVENTS = 300_000
PER_SEGMENT = 20_000
SESSION = "0fe8d3a2-0000-4000-8000-000000000001"
FIRST_NS = 1_794_700_000_000_000_000

# The sink has 200 MB of lines. All its events as columns would take more than this limit, and as
# rows of a table fifteen times as much.
MOST_BYTES = 160 << 20

RECORD = (
    '{{"schema_version": 3, "session_id": "{session}", "timestamp_ns": {time}, "event_type": "sample",'
    ' "collector": "stormlog.cuda_tracker", "sampling_interval_ms": 100, "pid": 4242, "host": "node-1",'
    ' "job_id": null, "rank": 0, "local_rank": 0, "world_size": 1, "device_id": 0,'
    ' "allocator_allocated_bytes": {used}, "allocator_reserved_bytes": 2147483648,'
    ' "allocator_active_bytes": null, "allocator_inactive_bytes": null, "allocator_change_bytes": 0,'
    ' "device_used_bytes": 3221225472, "device_free_bytes": 1073741824, "device_total_bytes": 4294967296,'
    ' "context": null, "metadata": {{"step": {number}, "note": "a text of step {number}, never the same"}}}}\n'
)


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events") / "sink"
    folder.mkdir()
    segments = []
    for first in range(0, EVENTS, PER_SEGMENT):
        text = "".join(
            RECORD.format(
                session=SESSION, time=FIRST_NS + number * 10**8, used=number, number=number
            )
            for number in range(first, first + PER_SEGMENT)
        )
        name = f"segment-{len(segments) + 1:06d}.jsonl"
        (folder / name).write_text(text)
        segments.append(
            {
                "filename": name,
                "event_count": PER_SEGMENT,
                "size_bytes": len(text),
                "closed": True,
                "session_id": SESSION,
            }
        )
    session = {
        "session_id": SESSION,
        "status": "completed",
        "started_at_ns": FIRST_NS,
        "ended_at_ns": FIRST_NS + EVENTS * 10**8,
        "host": "node-1",
        "pid": 4242,
        "job_id": None,
        "rank": 0,
        "local_rank": 0,
        "world_size": 1,
        "source": "stormlog.cuda_tracker",
    }
    manifest = {
        "schema_version": 2,
        "format": "stormlog.append_only_telemetry_sink",
        "segments": segments,
        "sessions": [session],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


# Prints the most memory that a command held to its standard error.
# The kernel's ru_maxrss would include what the process held that started it.
MEASURED = """
import re, sys
from stormlog import entrypoint
code = entrypoint.main()
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(int(peak[1]) * 1024, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("form", ["--table", "--jsonl", "--csv", "--json"])
def test_memory_does_not_grow_with_the_events(form: str, sink: Path, tmp_path: Path) -> None:
    with open(tmp_path / "rows", "wb") as rows:
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, "query", "events", str(sink), form],
            stdout=rows,
            stderr=subprocess.PIPE,
            timeout=10 * PATIENCE_S,
        )
    assert done.returncode == 0
    assert int(done.stderr) <= MOST_BYTES
    text = (tmp_path / "rows").read_bytes()
    assert text.count(b"a text of step ") == EVENTS
    # The last event is the last row.
    assert text.rindex(b"a text of step %d," % (EVENTS - 1)) > text.rindex(b"a text of step 1000,")


def test_the_first_rows_come_before_the_rest_is_read(sink: Path) -> None:
    """A reader that has read enough ends the command early; little of the sink was read by then."""
    started = subprocess.Popen(
        [sys.executable, "-m", "stormlog", "query", "events", str(sink), "--jsonl"],
        stdout=subprocess.PIPE,
    )
    assert started.stdout is not None
    first = json.loads(started.stdout.readline())
    assert first["timestamp_ns"] == FIRST_NS
    # The pipe is full long before the end, so this is what was read for the first rows.
    text = Path(f"/proc/{started.pid}/io").read_text() if os.path.exists("/proc/self/io") else ""
    started.stdout.close()
    started.wait(timeout=PATIENCE_S)
    read = [int(line.split()[1]) for line in text.splitlines() if line.startswith("rchar")]
    size = sum(file.stat().st_size for file in sink.glob("segment-*"))
    assert all(read_bytes < size / 2 for read_bytes in read)
