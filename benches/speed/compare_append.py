"""Append the same records with ours and stormlog 0.3.9; print events per second as ratios.

    python benches/speed/compare_append.py [--events 200000] [--rounds 5] [--directory /tmp]

All sinks have their default configuration, the default flush policy included. Contenders:
stormlog 0.3.9, ours through the same Python class, and ours as our trackers append, from
Rust. Rounds alternate between them, each in a process of its own; the median of each is
compared. A fourth contender only writes the finished lines, with one call for each flush: the time
that the kernel alone needs, which no sink can avoid if a flushed line must be in the file. Two
figures: appends alone, and the whole life of a sink, from open to close with its rollups.
Counters, times and metadata differ from record to record, as a tracker's do. Stormlog 0.3.9
appends a tenth of the events.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))
from parity import reference

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "target" / "release" / "examples" / "append_events"

RECORD = """
def record(number):
    return {
        "schema_version": 3, "session_id": "run", "timestamp_ns": 1762000000000000000 + number,
        "event_type": "sample", "collector": "stormlog.cuda_tracker", "sampling_interval_ms": 100,
        "pid": 4711, "host": "node-1", "job_id": None, "rank": 0, "local_rank": 0,
        "world_size": 8, "device_id": 0, "allocator_allocated_bytes": 2147483648 + number * 512,
        "allocator_reserved_bytes": 2415919104, "allocator_active_bytes": 2147483648 + number * 512,
        "allocator_inactive_bytes": 1048576, "allocator_change_bytes": 512 * number,
        "device_used_bytes": 2915919104 + number, "device_free_bytes": 82983426816 - number,
        "device_total_bytes": 85899345920, "context": "training",
        "metadata": {"backend": "cuda", "collector_health_status": "healthy", "step": number},
    }
"""

MEASURE = (
    """
import json, sys, time
from itertools import cycle, islice
from pathlib import Path
from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig
"""
    + RECORD
    + """
count = int(sys.argv[2])
records = [record(number) for number in range(500)]
start = time.perf_counter()
sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=Path(sys.argv[1])))
before = time.perf_counter()
for one in islice(cycle(records), count):
    sink.append(one)
after = time.perf_counter()
sink.close()
end = time.perf_counter()
print(json.dumps([count / (after - before), count / (end - start)]))
"""
)

WRITE_ALONE = (
    """
import json, sys, time
from pathlib import Path
"""
    + RECORD
    + """
count, folder = int(sys.argv[2]), Path(sys.argv[1])
folder.mkdir()
block = "".join(json.dumps(record(n), sort_keys=True) + "\\n" for n in range(50)).encode()
files = []
start = time.perf_counter()
for first in range(0, count, 10_000):
    files.append(folder / str(first))
    with files[-1].open("ab", buffering=0) as segment:
        for _ in range(10_000 // 50):
            segment.write(block)
    if len(files) > 8:
        files.pop(0).unlink()
rate = count / (time.perf_counter() - start)
print(json.dumps([rate, rate]))
"""
)


def measure(command: list[str], directory: str, events: int) -> list[float]:
    """Events per second of the appends, and of the sink's whole life."""
    folder = tempfile.mkdtemp(dir=directory)
    try:
        command = [*command, f"{folder}/sink", str(events)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found: list[float] = json.loads(done.stdout)
        return found
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", default=tempfile.gettempdir())
    arguments = parser.parse_args()
    build = ["cargo", "build", "-q", "--release", "-p", "stormlog-capture", "--examples"]
    subprocess.run(build, check=True, cwd=ROOT)
    contenders = {
        "reference": ([reference.interpreter(), "-c", MEASURE], arguments.events // 10),
        "ours, Python": ([sys.executable, "-c", MEASURE], arguments.events),
        "ours, Rust": ([str(PROGRAM)], arguments.events),
        "writing alone": ([sys.executable, "-c", WRITE_ALONE], arguments.events),
    }
    measured: dict[str, list[list[float]]] = {name: [] for name in contenders}
    for _ in range(arguments.rounds):
        for name, (command, events) in contenders.items():
            measured[name].append(measure(command, arguments.directory, events))
    for place, what in enumerate(("appends alone", "open to close")):
        rates = {
            name: statistics.median(round_[place] for round_ in rounds)
            for name, rounds in measured.items()
        }
        print(f"{what}:")
        for name, rate in rates.items():
            ratio = rate / rates["reference"]
            print(f"  {name:14} {rate:12,.0f} events/s, {ratio:6.1f} times stormlog 0.3.9")


if __name__ == "__main__":
    main()
