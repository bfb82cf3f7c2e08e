"""What recording costs a training loop that is bound by Python, on a CUDA device.

A small transformer (width 256, batch 2) trains without any synchronization in its loop, so the
interpreter is the bottleneck and every moment that the recorder holds it is lost. In one process,
blocks with the recorder paused and running alternate; each pair gives one loss, and the median of
all pairs gets a bootstrap bound. A second loop waits for the GPU after every step.

    python benches/cost/run_cost.py run               # `stormlog run` with its defaults
    python benches/cost/run_cost.py tracker 0.01      # a MemoryTracker every 10 ms
    python benches/cost/run_cost.py tracker 0.001 --pairs 200 --cores 3-5
    python benches/cost/run_cost.py run --leak --pairs 30   # a loop that leaks: a minute with, one without
    python benches/cost/run_cost.py pool one.json two.json

Prints one JSON object: steps per second, the median loss with its 95 % interval, how old the
allocator's counters were in the samples, and the CPU seconds per second of the recorder itself.
`--leak` keeps 128 KiB of every step, beside 5,000 small blocks, so that evidence windows open. A
block does not end within a window, and what counts is the loss over all blocks: the windows of a
search are few and long, which a median would hide.
Several can run side by side, each on cores of its own, as long as the GPU has time to spare;
`pool` puts the pairs of such results together. Loops side by side see the same pauses of the
machine at the same time, so half of them should run with `--swap`: then a pause that falls into
running blocks of one half falls into paused blocks of the other half, and cancels out.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    if sys.argv[1:2] == ["pool"]:
        print(json.dumps(pool([json.loads(Path(name).read_text()) for name in sys.argv[2:]])))
        return 0
    parser.add_argument("what", choices=["run", "tracker"])
    parser.add_argument("interval", type=float, nargs="?", default=0.1)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--block", type=float, default=2.0, help="seconds of one block")
    parser.add_argument("--waits", action="store_true", help="wait for the GPU after every step")
    parser.add_argument("--leak", action="store_true", help="keep 128 KiB of every step")
    parser.add_argument("--cores", metavar="A-B", help="keep this process on these cores")
    parser.add_argument("--swap", action="store_true", help="swap the two blocks of every pair")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cores:
        first, _, last = options.cores.partition("-")
        os.sched_setaffinity(0, range(int(first), int(last or first) + 1))
    if options.what == "run" and not options.inside:
        with tempfile.TemporaryDirectory() as folder:
            command = ["stormlog", "run", "-q", "--dir", f"{folder}/run", "--", sys.executable]
            return subprocess.call([*command, *sys.argv, "--inside"])
    # The tracker still writes while the folder is being removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        print(json.dumps(measure(options, folder)), flush=True)
    return 0


def measure(options: argparse.Namespace, folder: str) -> dict[str, Any]:
    import torch

    step = training_step(torch, options.waits, options.leak)
    for _ in range(200):
        step()
    torch.cuda.synchronize()
    recorder = InRun() if options.inside else new_tracker(options.interval, folder)
    recorder.pause(False)
    time.sleep(2)
    losses, rates = [], []
    blocks: dict[bool, list[Block]] = {True: [], False: []}
    collections = Collections()
    for pair in range(options.pairs):
        rate = {}
        # Which block comes first changes, so that a drift of the machine cancels out.
        for paused in (True, False) if (pair + options.swap) % 2 else (False, True):
            recorder.pause(paused)
            collections.is_paused = paused
            block = run_block(torch, step, options.block, recorder.may_pause)
            blocks[paused].append(block)
            rate[paused] = block.steps / block.seconds
        losses.append(100 * (1 - rate[False] / rate[True]))
        rates.append(rate[True])
    cpu = recorder.cpu_seconds_per_second()
    return {
        "what": options.what,
        "interval_s": options.interval,
        "waits_for_gpu": options.waits,
        "pairs": options.pairs,
        "block_s": options.block,
        "steps_per_second": round(statistics.median(rates), 1),
        **summary(losses),
        "loss_over_all_blocks_percent": round(total_loss(blocks), 3),
        "longest_step_ms": {
            "paused": longest_ms(blocks[True]),
            "running": longest_ms(blocks[False]),
        },
        "full_collections_ms": collections.durations_ms,
        "evidence": recorder.evidence(),
        "counters_age_ms": recorder.ages(),
        "recorder_cpu_seconds_per_second": cpu,
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "losses_percent": [round(loss, 3) for loss in losses],
    }


@dataclass(frozen=True)
class Block:
    """Steps in one state of the recorder."""

    steps: int
    seconds: float
    longest_step_s: float


class Collections:
    """How long Python's full garbage collections took, which stop every thread."""

    def __init__(self) -> None:
        self.is_paused = True
        self.durations_ms: dict[str, list[tuple[float, str]]] = {"paused": [], "running": []}
        self._began = 0.0
        gc.callbacks.append(self._noticed)

    def _noticed(self, phase: str, facts: dict[str, int]) -> None:
        if facts["generation"] != 2:
            return
        if phase == "start":
            self._began = time.perf_counter()
        else:
            took = round((time.perf_counter() - self._began) * 1000, 1)
            where = threading.current_thread().name
            self.durations_ms["paused" if self.is_paused else "running"].append((took, where))


def total_loss(blocks: dict[bool, list[Block]]) -> float:
    """By how many percent the rate over all running blocks is below that over all paused ones."""
    rate = {
        paused: sum(one.steps for one in some) / sum(one.seconds for one in some)
        for paused, some in blocks.items()
    }
    return 100 * (1 - rate[False] / rate[True])


def longest_ms(blocks: list[Block]) -> float:
    return round(max(one.longest_step_s for one in blocks) * 1000, 1)


def summary(losses: list[float]) -> dict[str, Any]:
    low, high = bootstrap(losses)
    return {
        "median_loss_percent": round(statistics.median(losses), 3),
        "interval_95_percent": [round(low, 3), round(high, 3)],
        "spread_of_pairs_percent": round(statistics.pstdev(losses), 2),
    }


def pool(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Results of the same measurement, made by several processes, as one."""
    same = ("what", "interval_s", "waits_for_gpu", "block_s", "gpu", "torch")
    first = results[0]
    for result in results:
        if any(result[name] != first[name] for name in same):
            sys.exit("error: these are results of different measurements")
    losses = [loss for result in results for loss in result["losses_percent"]]
    return {
        **{name: first[name] for name in same},
        "processes": len(results),
        "pairs": len(losses),
        "steps_per_second": [result["steps_per_second"] for result in results],
        **summary(losses),
        "counters_age_ms": [result["counters_age_ms"] for result in results],
        "recorder_cpu_seconds_per_second": [
            result["recorder_cpu_seconds_per_second"] for result in results
        ],
    }


def training_step(torch: Any, waits: bool, leaks: bool) -> Any:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.randn(2, 32, 256, device="cuda")
    kept = [torch.zeros(128, device="cuda") for _ in range(5000 if leaks else 0)]

    def step() -> None:
        loss = model(data).square().mean()
        if leaks:
            kept.append(torch.empty(128 << 10, dtype=torch.uint8, device="cuda"))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if waits:
            torch.cuda.synchronize()

    return step


def run_block(torch: Any, step: Any, seconds: float, may_end: Callable[[], bool]) -> Block:
    torch.cuda.synchronize()
    start = last = time.perf_counter()
    count, longest = 0, 0.0
    while True:
        step()
        count += 1
        now = time.perf_counter()
        last, longest = now, max(longest, now - last)
        if now - start >= seconds and may_end():
            return Block(count, now - start, longest)


def bootstrap(values: list[float], rounds: int = 5000) -> tuple[float, float]:
    draw = random.Random(7)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(rounds))
    return medians[int(rounds * 0.025)], medians[int(rounds * 0.975)]


def cpu_of_thread(pid: int, thread: int | str) -> float:
    """The CPU seconds of a thread; 0 when it has ended."""
    try:
        text = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_process(pid: int) -> float:
    return sum(cpu_of_thread(pid, task.name) for task in Path(f"/proc/{pid}/task").iterdir())


def cpu_of_own_threads() -> dict[str, float]:
    """CPU seconds of the recorder's threads in this process, by name."""
    names = {
        task.name: (task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()
    }
    # Before Python 3.14 the kernel does not know the names of Python's threads.
    names.update((str(one.native_id), one.name) for one in threading.enumerate())
    used: dict[str, float] = {}
    for thread, name in names.items():
        if name.startswith("stormlog"):
            used[name] = used.get(name, 0.0) + cpu_of_thread(os.getpid(), thread)
    return used


class Recorder:
    """A recorder of this process that can be paused, and the time that it was on."""

    def __init__(self, tracker: Any) -> None:
        self.tracker = tracker
        self._on_s = 0.0
        self._since: float | None = None
        self._cpu = self.read_cpu()

    def read_cpu(self) -> dict[str, float]:
        return cpu_of_own_threads()

    def pause(self, paused: bool) -> None:
        self.tracker._owner.set_paused(paused)
        now = time.monotonic()
        if self._since is not None:
            self._on_s += now - self._since
        self._since = None if paused else now

    def may_pause(self) -> bool:
        """Whether the recorder is idle, so that none of its work moves into the next block."""
        return True

    def evidence(self) -> dict[str, Any] | None:
        """The last state of the search for the cause of growing memory."""
        return None

    def cpu_seconds_per_second(self) -> dict[str, float]:
        self.pause(False)
        used = self.read_cpu()
        seconds = max(self._on_s, 1e-9)
        return {name: round((used[name] - self._cpu.get(name, 0.0)) / seconds, 5) for name in used}

    def ages(self) -> dict[str, float]:
        """How old the allocator's counters were when a sample was taken."""
        ages = []
        for event in self.tracker.get_events("sample", last_n=5000):
            # Without this value, the counters were read when the sample was taken.
            read_ns = event.metadata.get("allocator_read_ns")
            ages.append(0.0 if read_ns is None else event.timestamp * 1e3 - read_ns / 1e6)
        ages.sort()
        pick = {"median": 0.5, "p95": 0.95, "max": 1.0} if ages else {}
        return {name: round(ages[int((len(ages) - 1) * at)], 1) for name, at in pick.items()}


class InRun(Recorder):
    """The recorder of `stormlog run` in this process, and its parent."""

    def __init__(self) -> None:
        from stormlog import _run

        while _run._recording is None or not _run._recording.trackers:
            time.sleep(0.05)
        while not _run._recording._evidence:
            time.sleep(0.05)
        self._windows = _run._recording._evidence[0]._windows
        self._parent = os.getppid()
        super().__init__(next(iter(_run._recording.trackers.values())))

    def may_pause(self) -> bool:
        windows = self._windows
        return windows._phase != windows._recording and not windows.search.is_busy

    def evidence(self) -> dict[str, Any] | None:
        states = self.tracker.get_events("memory_evidence")
        return states[-1].metadata["evidence"] if states else None

    def read_cpu(self) -> dict[str, float]:
        return {**super().read_cpu(), "parent": cpu_of_process(self._parent)}

    def pause(self, paused: bool) -> None:
        os.kill(self._parent, signal.SIGSTOP if paused else signal.SIGCONT)
        super().pause(paused)


def new_tracker(interval: float, folder: str) -> Recorder:
    """A tracker of this process with a sink."""
    from stormlog import MemoryTracker
    from stormlog.telemetry_sink import TelemetrySinkConfig

    sink = TelemetrySinkConfig(root_dir=Path(folder, "sink"))
    tracker = MemoryTracker(sampling_interval=interval, telemetry_sink_config=sink)
    tracker.start_tracking()
    return Recorder(tracker)


if __name__ == "__main__":
    raise SystemExit(main())
