"""The cost of `stormlog serve` on a folder that 500 ranks write and that holds 2,000 finished runs.

    python benches/speed/serve_load.py --program target/release/stormlog

Measures the server's time for the first page and for later ones, its memory, its CPU time while
nobody looks and while the list and one run are open, and whether the writers are slowed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from stormlog.session import create_session_summary
from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig

GIB = 1 << 30
TICKS = os.sysconf("SC_CLK_TCK")


def record(
    session: str, rank: int, world: int, job: str | None, at_ns: int, step: int
) -> dict[str, Any]:
    used = 8 * GIB + (step % 10) * (GIB // 10)
    return {
        "schema_version": 3,
        "session_id": session,
        "timestamp_ns": at_ns,
        "event_type": "sample",
        "collector": "stormlog.cuda_tracker",
        "sampling_interval_ms": 100,
        "pid": os.getpid(),
        "host": "node",
        "job_id": job,
        "rank": rank,
        "local_rank": rank % 8,
        "world_size": world,
        "device_id": rank % 8,
        "allocator_allocated_bytes": used - GIB,
        "allocator_reserved_bytes": used - GIB // 2,
        "allocator_active_bytes": None,
        "allocator_inactive_bytes": None,
        "allocator_change_bytes": 0,
        "device_used_bytes": used,
        "device_free_bytes": 80 * GIB - used,
        "device_total_bytes": 80 * GIB,
        "context": None,
        "metadata": {"step": step, "step_count": step, "optimizer": 0},
    }


def finished_runs(folder: Path, count: int, events: int) -> None:
    """Runs that differ in their ids and times only."""
    start = time.time_ns() - 86_400_000_000_000
    template = folder / "template"
    sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=template))
    for step in range(events):
        sink.append(record("session-template", 0, 1, None, start + step * 100_000_000, step))
    sink.close()
    for number in range(count):
        run = folder / f"run-{number:04d}"
        run.mkdir()
        for file in template.iterdir():
            text = file.read_text()
            (run / file.name).write_text(text.replace("session-template", f"session-{number:04d}"))
    shutil.rmtree(template)


class Writers:
    """Sinks that are written one event each per round, and how long a round takes."""

    def __init__(self, folder: Path, count: int) -> None:
        self.sinks = [
            AppendOnlyTelemetrySink(
                TelemetrySinkConfig(root_dir=folder / f"job/rank-{rank:04d}", flush_every_events=1)
            )
            for rank in range(count)
        ]
        # One job: its ranks are one run.
        for rank, sink in enumerate(self.sinks):
            sink.start_session(
                create_session_summary(
                    source="stormlog.tracker",
                    session_id=f"job-{rank}",
                    job_id="bench",
                    rank=rank,
                    local_rank=rank % 8,
                    world_size=count,
                )
            )
        self.rounds: list[float] = []
        self._step = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def round(self) -> None:
        begun = time.perf_counter()
        now = time.time_ns()
        for rank, sink in enumerate(self.sinks):
            sink.append(record(f"job-{rank}", rank, len(self.sinks), "bench", now, self._step))
        self._step += 1
        self.rounds.append(time.perf_counter() - begun)

    def _write(self) -> None:
        while not self._stop.is_set():
            begun = time.monotonic()
            self.round()
            self._stop.wait(max(0.0, 1.0 - (time.monotonic() - begun)))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        for sink in self.sinks:
            sink.close()

    def take(self) -> list[float]:
        taken, self.rounds = self.rounds, []
        return taken


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid: int, key: str = "VmRSS") -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    return float("nan")


def get(address: str, path: str) -> tuple[float, bytes]:
    begun = time.perf_counter()
    with urllib.request.urlopen(f"http://{address}{path}", timeout=300) as answer:
        body = answer.read()
    return (time.perf_counter() - begun) * 1e3, body


class Stream:
    """An open page: reads server-sent events and asks for the rows after each, as the script does."""

    def __init__(self, address: str, events: str, then: str) -> None:
        self.updates = 0
        self._answer = urllib.request.urlopen(f"http://{address}{events}", timeout=300)
        self._thread = threading.Thread(target=self._read, args=(address, then), daemon=True)
        self._thread.start()

    def _read(self, address: str, then: str) -> None:
        try:
            for line in self._answer:
                if line.startswith(b"data:"):
                    get(address, then)
                    self.updates += 1
        except (OSError, ValueError):
            return


def share(pid: int, seconds: float) -> float:
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / seconds * 100


def rounds(name: str, taken: list[float]) -> None:
    if taken:
        print(
            f"  writers, {name}: median {statistics.median(taken) * 1e3:.0f} ms for a round of all sinks, worst {max(taken) * 1e3:.0f} ms"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=f"{sys.executable} -m stormlog")
    parser.add_argument("--sinks", type=int, default=500)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="serve-load-"))
    begun = time.monotonic()
    finished_runs(folder, options.runs, options.events)
    writers = Writers(folder, options.sinks)
    command = [
        *shlex.split(options.program),
        "serve",
        str(folder),
        "--listen",
        "127.0.0.1:0",
        "--json",
    ]
    server = None
    try:
        writers.start()
        print(
            f"{options.runs} finished runs of {options.events} events and {options.sinks} sinks being written, made in {time.monotonic() - begun:.0f} s; load {os.getloadavg()[0]:.1f}"
        )
        writers.take()
        time.sleep(options.seconds)
        rounds("without a server", writers.take())
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        waited, _ = get(address, "/")
        print(
            f"  first page while the folders are looked through for the first time: {waited:.0f} ms"
        )
        times = [get(address, "/")[0] for _ in range(5)]
        searched = [get(address, "/?q=run-19&sort=name")[0] for _ in range(5)]
        print(
            f"  first page: median {statistics.median(times):.0f} ms; a search: {statistics.median(searched):.0f} ms"
        )
        # The verdicts of the runs on that page are read in the background until then.
        while "not read yet" in get(address, "/")[1].decode():
            time.sleep(1)
        time.sleep(2)
        print(
            f"  nobody looks: {share(server.pid, options.seconds):.1f} % of a core, {resident_mib(server.pid):.0f} MiB resident"
        )
        rounds("with a server that nobody looks at", writers.take())
        page = get(address, "/")[1].decode()
        streams = [Stream(address, "/events", "/?part=rows")]
        print(
            f"  the list is open: {share(server.pid, options.seconds):.1f} % of a core, {streams[0].updates} updates, {resident_mib(server.pid):.0f} MiB"
        )
        rounds("with the list open", writers.take())
        # The ranks began last, so that they are the first row.
        job = page.split('<a href="/run/')[1].split('"')[0]
        took, body = get(address, f"/run/{job}/data")
        print(
            f"  the page of the {options.sinks} ranks: {took:.0f} ms, {len(body) / 2**20:.1f} MiB"
        )
        streams.append(Stream(address, f"/run/{job}/events", f"/run/{job}/data"))
        print(
            f"  the list and that page are open: {share(server.pid, options.seconds):.1f} % of a core, {streams[1].updates} updates"
        )
        rounds("with both open", writers.take())
        print(f"  memory at its highest: {resident_mib(server.pid, 'VmHWM'):.0f} MiB")
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)
    finally:
        writers.stop()
        if server is not None:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
