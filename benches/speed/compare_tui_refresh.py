"""The processor time of a refresh of the terminal UI, for two builds of the program.

    python benches/speed/compare_tui_refresh.py --before OLD/stormlog --after target/release/stormlog

Makes a recording of many ranks, one sink for each, that this process keeps appending to. Each
program opens a copy of it in tmux, 120 by 40, and the script notes the processor time of the
program, all threads together, whenever the age of the verdict on the screen starts again. Between
refreshes the program draws the age; what that costs is measured in the first second after a refresh
and subtracted. The builds take turns. The first refresh of each start does not count, because it
began while the rest of the recording was still being drawn.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from make_sink import record

AGE = re.compile(r"; (?:([0-9]+) min )?([0-9.]+) (m?s) old")
# After a refresh the next one begins after one second at the earliest.
QUIET_FROM_S, QUIET_TO_S = 0.2, 0.9


def cpu_s(pid: int) -> float:
    """CPU time of a process, its ended threads included."""
    # The id of another process's CPU clock, as clock_getcpuclockid(3) computes it.
    return time.clock_gettime((~pid << 3) | 2)


class Recording:
    """A run of many ranks on this host; its sinks belong to this process, so it is running."""

    def __init__(self, folder: Path, ranks: int, samples: int) -> None:
        self.folder, self.ranks, self.samples = folder, ranks, samples
        self.random = random.Random(7)
        self.started_ns = time.time_ns() - samples * 100_000_000
        for rank in range(ranks):
            sink = folder / f"rank-{rank:04d}"
            sink.mkdir(parents=True)
            lines = (self.line(rank, step) for step in range(samples))
            (sink / "segment-000001.jsonl").write_text("".join(lines))

    def line(self, rank: int, step: int) -> str:
        """One sample; the memory of rank 3 grows, so that there is something to find."""
        sample = record(rank, self.ranks, step, self.random)
        sample["timestamp_ns"] = self.started_ns + step * 100_000_000
        sample["host"] = os.uname().nodename
        sample["pid"] = os.getpid()
        if rank == 3:
            grown = step * (1 << 20)
            for key in ("allocator_allocated_bytes", "allocator_active_bytes"):
                value = sample[key]
                assert isinstance(value, int)
                sample[key] = value + grown
        return json.dumps(sample, sort_keys=True) + "\n"

    def copy(self, target: Path) -> None:
        """The recording as it was when it was made, started now by this process."""
        shutil.copytree(self.folder, target)
        for rank in range(self.ranks):
            sample = record(rank, self.ranks, 0, random.Random(0))
            session = {
                "session_id": sample["session_id"],
                "status": "running",
                "started_at_ns": time.time_ns(),
                "ended_at_ns": None,
                "host": os.uname().nodename,
                "pid": os.getpid(),
                "job_id": sample["job_id"],
                "rank": rank,
                "local_rank": sample["local_rank"],
                "world_size": self.ranks,
                "source": sample["collector"],
            }
            segment = {
                "filename": "segment-000001.jsonl",
                "event_count": self.samples,
                "size_bytes": 0,
                "closed": False,
                "session_id": sample["session_id"],
            }
            manifest = {
                "schema_version": 2,
                "format": "stormlog.append_only_telemetry_sink",
                "sessions": [session],
                "segments": [segment],
            }
            (target / f"rank-{rank:04d}" / "manifest.json").write_text(json.dumps(manifest))

    def grow(self, target: Path, stop: threading.Event) -> None:
        """Append a sample to every rank ten times a second."""
        step = self.samples
        while not stop.wait(0.1):
            for rank in range(self.ranks):
                with (target / f"rank-{rank:04d}" / "segment-000001.jsonl").open("a") as file:
                    file.write(self.line(rank, step))
            step += 1


def tmux(*words: str) -> str:
    """Run tmux with a server of its own."""
    call = ["tmux", "-L", f"stormlog-bench-{os.getpid()}", "-f", "/dev/null", *words]
    return subprocess.run(call, check=True, capture_output=True, text=True).stdout


def refreshes(program: str, folder: Path, count: int, limit_s: float) -> list[float]:
    """The processor time of some refreshes of one start."""
    tmux("new-session", "-d", "-x", "120", "-y", "40", f"exec {program} tui {folder}")
    pid = int(tmux("list-panes", "-F", "#{pane_pid}"))
    costs: list[float] = []
    age = float("inf")
    points: list[tuple[float, float]] = []
    deadline = time.monotonic() + limit_s
    try:
        while len(costs) <= count:
            time.sleep(0.03)
            screen = tmux("capture-pane", "-p")
            points.append((time.monotonic(), cpu_s(pid)))
            if points[-1][0] > deadline:
                raise SystemExit(f"only {len(costs)} refreshes; the screen is\n{screen}")
            found = AGE.search(screen)
            if found is None:
                points.clear()
                continue
            before, age = age, age_s(found)
            if age < before:
                if before != float("inf"):
                    costs.append(cost_s(points))
                points = points[-1:]
    finally:
        tmux("kill-server")
    return costs[1:]


def age_s(found: re.Match[str]) -> float:
    """The age of the verdict."""
    unit = 0.001 if found[3] == "ms" else 1.0
    return 60.0 * float(found[1] or 0) + unit * float(found[2])


def cost_s(points: list[tuple[float, float]]) -> float:
    """The processor time from one refresh to the next, without that of drawing the age."""
    begin, end = points[0], points[-1]
    quiet = [point for point in points if QUIET_FROM_S <= point[0] - begin[0] <= QUIET_TO_S]
    rate = 0.0
    if len(quiet) > 1:
        rate = (quiet[-1][1] - quiet[0][1]) / (quiet[-1][0] - quiet[0][0])
    return max(end[1] - begin[1] - rate * (end[0] - begin[0]), 0.0)


def main() -> None:
    """Print the median of each build and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", required=True)
    parser.add_argument("--after", required=True)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--refreshes", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS")
    options = parser.parse_args()
    costs: dict[str, list[float]] = {options.before: [], options.after: []}
    with tempfile.TemporaryDirectory() as folder:
        recording = Recording(Path(folder) / "made", options.ranks, options.samples)
        for _ in range(options.starts):
            for program, known in costs.items():
                target = Path(folder) / "run"
                recording.copy(target)
                stop = threading.Event()
                writer = threading.Thread(target=recording.grow, args=(target, stop))
                writer.start()
                try:
                    known += refreshes(program, target, options.refreshes, options.limit)
                finally:
                    stop.set()
                    writer.join()
                    shutil.rmtree(target)
    medians = {program: statistics.median(known) for program, known in costs.items()}
    for program, known in costs.items():
        each = ", ".join(f"{cost * 1000:.0f}" for cost in known)
        print(f"{medians[program] * 1000:8.0f} ms CPU for a refresh  {program}  ({each})")
    print(f"after / before: {medians[options.after] / medians[options.before]:.2f}")


if __name__ == "__main__":
    main()
