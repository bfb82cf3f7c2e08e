"""The processor time of a refresh of the terminal UI, for two builds of the program.

    python benches/speed/compare_tui_refresh.py --before OLD/stormlog --after target/release/stormlog

Makes a recording of many ranks, one sink for each, that this process keeps appending to. Each
program opens a copy of it in tmux, 120 by 40, and the script notes the processor time of the
program, all threads together, whenever a refresh changes the number of events on the screen. The
builds take turns. The first refresh of each start does not count, because it began while the rest
of the recording was still being drawn.
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

EVENTS = re.compile(r"([0-9][0-9,]*) events")


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
    shown, since = "", 0.0
    deadline = time.monotonic() + limit_s
    try:
        while len(costs) <= count:
            if time.monotonic() > deadline:
                raise SystemExit(f"only {len(costs)} refreshes; the screen is\n{shown_now}")
            time.sleep(0.05)
            shown_now = tmux("capture-pane", "-p")
            found = EVENTS.search(shown_now)
            if found is None or found[1] == shown:
                continue
            now = cpu_s(pid)
            if shown:
                costs.append(now - since)
            shown, since = found[1], now
    finally:
        tmux("kill-server")
    return costs[1:]


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
