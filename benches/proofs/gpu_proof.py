"""What the recorder shows and costs on a real GPU, as a Markdown report.

    python benches/proofs/gpu_proof.py > report.md

Needs an NVIDIA GPU, PyTorch, tmux and the installed package; takes about four minutes. Exits with
1 when something that is promised does not hold.
"""

from __future__ import annotations

import ctypes
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import torch

import stormlog
from stormlog.telemetry import load_telemetry_events, load_telemetry_sessions
from stormlog.telemetry_sink import TelemetrySinkConfig
from stormlog.tracker import MemoryTracker

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))
import itertools

from terminal import Terminal

MIB = 1 << 20
GIB = 1 << 30
PAIRS = 40
SEGMENT_S = 1.2
STEPS_PER_SECOND = 150.0
INTERVAL_S = 0.01

failures: list[str] = []


def check(holds: bool, claim: str) -> str:
    """A line of the report for a claim that must hold."""
    if not holds:
        failures.append(claim)
    return f"- {'yes' if holds else '**NO**'}: {claim}"


class Training:
    """A loop of about the wanted number of steps a second."""

    def __init__(self) -> None:
        width = 4096
        layers = [
            layer for _ in range(4) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())
        ]
        self.model = torch.nn.Sequential(*layers).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(1024, width, device="cuda")
        self.passes = 1
        for _ in range(20):
            self.step()
        rate = self.rate(0.5)
        self.passes = max(1, round(rate / STEPS_PER_SECOND))
        for _ in range(10):
            self.step()

    def step(self) -> None:
        for _ in range(self.passes):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.model(self.batch).square().mean()
            loss.backward()
            self.optimizer.step()
        loss.item()

    def rate(self, seconds: float) -> float:
        """Steps per second over a number of seconds."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        steps = 0
        while (elapsed := time.perf_counter() - start) < seconds:
            self.step()
            steps += 1
        return steps / elapsed


def upper_bound(values: list[float], rounds: int = 4000) -> float:
    """The one-sided upper 95 % bound of the median, by bootstrap."""
    generator = random.Random(7)
    medians = sorted(
        statistics.median(generator.choices(values, k=len(values))) for _ in range(rounds)
    )
    return medians[int(rounds * 0.95)]


def overhead(folder: Path) -> list[str]:
    """Steps a second with tracking on and off, in pairs that alternate."""
    training = Training()
    losses: list[float] = []
    rates: dict[bool, list[float]] = {True: [], False: []}
    alerts = events = 0
    for pair in range(PAIRS):
        measured: dict[bool, float] = {}
        for on in (pair % 2 == 0, pair % 2 == 1):
            tracker = None
            if on:
                sink = TelemetrySinkConfig(root_dir=folder / f"overhead-{pair}")
                tracker = MemoryTracker(sampling_interval=INTERVAL_S, telemetry_sink_config=sink)
                tracker.start_tracking()
            measured[on] = training.rate(SEGMENT_S)
            if tracker is not None:
                tracker.stop_tracking()
                counted = tracker.get_statistics()
                alerts += counted["alert_count"]
                events += counted["total_events"]
        rates[True].append(measured[True])
        rates[False].append(measured[False])
        losses.append(1 - measured[True] / measured[False])
    median, bound = statistics.median(losses) * 100, upper_bound(losses) * 100
    seconds = PAIRS * SEGMENT_S
    return [
        f"## Cost: {PAIRS} pairs on/off, sampling every {INTERVAL_S * 1000:g} ms, with a sink",
        "",
        f"- off: {statistics.median(rates[False]):.1f} steps/s, "
        f"on: {statistics.median(rates[True]):.1f} steps/s (medians)",
        f"- loss: median {median:.2f} %, upper 95 % bound {bound:.2f} %",
        f"- {events} events and {alerts} alerts in {seconds:.0f} s of tracking",
        check(median < 1.0, "the median loss is under 1 %"),
        check(bound < 2.0, "the upper 95 % bound is under 2 %"),
        check(
            events >= seconds / INTERVAL_S * 0.9, "no more than a tenth of the samples is missing"
        ),
        check(alerts <= 2, "a healthy loop raises at most two alerts"),
        "",
    ]


def cudart() -> ctypes.CDLL:
    """The CUDA runtime that PyTorch has loaded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split()[-1]
        if "libcudart" in path:
            return ctypes.CDLL(path)
    raise RuntimeError("no CUDA runtime is loaded")


def hidden_memory(folder: Path) -> list[str]:
    """Memory that PyTorch's allocator does not own."""
    runtime = cudart()
    torch.zeros(1, device="cuda")
    tracker = MemoryTracker(sampling_interval=INTERVAL_S)
    pointer = ctypes.c_void_p()
    with tracker:
        time.sleep(0.3)
        before = time.time()
        code = runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(GIB))
        after = time.time()
        time.sleep(0.3)
    runtime.cudaFree(pointer)
    samples = tracker.get_events("sample")
    gap = lambda event: event.device_used - event.memory_reserved  # noqa: E731
    plain = [gap(event) for event in samples if event.timestamp < before]
    later = [event for event in samples if event.timestamp >= after]
    first = later[0]
    own = (tracker.get_events("sample")[0].metadata or {}).get("process_device_used_bytes")
    return [
        "## Memory outside PyTorch's allocator",
        "",
        f"- gap of a plain PyTorch process: {plain[-1] / MIB:.0f} MiB",
        f"- after cudaMalloc of 1024 MiB (code {code}): {gap(first) / MIB:.0f} MiB, "
        f"seen {(first.timestamp - after) * 1000:.1f} ms later",
        f"- the process's own device memory by NVML: {own}",
        check(100 * MIB < plain[-1] < 4 * GIB, "the gap is the CUDA context, not 0"),
        check(
            gap(first) - plain[-1] >= 0.99 * GIB,
            "cudaMalloc outside PyTorch shows within one sample",
        ),
        check(isinstance(own, int), "the process's own share of the device is recorded"),
        "",
    ]


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def oom_bundle(folder: Path) -> list[str]:
    """An uncaught out-of-memory error."""
    path = script(
        folder,
        "oom.py",
        """
        import sys
        import torch
        import stormlog

        torch.cuda.set_per_process_memory_fraction(0.02)
        torch.zeros(1, device="cuda")
        stormlog.track(sys.argv[1], interval=0.01)
        held = [torch.zeros(64 << 20, device="cuda") for _ in range(4)]
        torch.zeros(8 << 30, device="cuda", dtype=torch.uint8)
        """,
    )
    run = subprocess.run(
        [sys.executable, str(path), str(folder / "oom")], capture_output=True, text=True
    )
    bundles = list((folder / "oom" / "oom_dumps").glob("oom_dump_*"))
    metadata = json.loads((bundles[0] / "metadata.json").read_text()) if bundles else {}
    custom = metadata.get("custom_metadata", {})
    return [
        "## An out-of-memory error without any code for it",
        "",
        f"- exit code {run.returncode}, bundle {bundles[0].name if bundles else None}",
        f"- reason `{metadata.get('reason')}`, requested {custom.get('requested_bytes')} bytes, "
        f"{metadata.get('captured_event_count')} events",
        check(len(bundles) == 1, "one bundle was left"),
        check(metadata.get("reason") == "torch.cuda.OutOfMemoryError", "the reason is PyTorch's"),
        check(custom.get("requested_bytes") == 8 << 30, "the bundle says what was asked for"),
        check("OutOfMemoryError" in run.stderr, "the program got its own exception"),
        "",
    ]


def unmodified(folder: Path) -> list[str]:
    """A script that knows nothing of us, under ``stormlog run``."""
    path = script(
        folder,
        "train.py",
        """
        import time
        import torch

        model = torch.nn.Linear(4096, 4096).cuda()
        end = time.time() + 4
        while time.time() < end:
            model(torch.randn(512, 4096, device="cuda")).sum().backward()
        raise SystemExit(7)
        """,
    )
    command = [sys.executable, "-m", "stormlog", "run", "--dir", str(folder / "run")]
    command += ["--interval", "0.01", "--", sys.executable, str(path)]
    run = subprocess.run(command, capture_output=True, text=True)
    sessions = load_telemetry_sessions(folder / "run")
    device = [
        event
        for session in sessions
        for event in session.events
        if event.collector == "stormlog.cuda_tracker"
    ]
    peak = max((event.allocator_allocated_bytes for event in device), default=0)
    return [
        "## `stormlog run` on an unmodified script",
        "",
        f"- exit code {run.returncode}, {len(device)} events of the device, "
        f"peak allocated {peak / MIB:.0f} MiB",
        check(run.returncode == 7, "the exit code is the program's"),
        check(len(device) > 100 and peak > 64 * MIB, "the allocator's counters were recorded"),
        check(
            all(session.summary.status == "completed" for session in sessions),
            "the sessions are completed",
        ),
        "",
    ]


def from_outside(folder: Path) -> list[str]:
    """``stormlog diagnose --device`` beside a program that it knows nothing of."""
    held = torch.empty(4 * GIB, dtype=torch.uint8, device="cuda")
    command = [sys.executable, "-m", "stormlog", "diagnose", "--device", "0"]
    command += ["--duration", "3", "--interval", "0.05", "--output", str(folder / "outside")]
    run = subprocess.run(command, capture_output=True, text=True)
    events = load_telemetry_events(folder / "outside")
    used = [event.device_used_bytes for event in events if event.device_used_bytes is not None]
    del held
    torch.cuda.empty_cache()
    return [
        "## A device watched from outside",
        "",
        f"- {len(events)} events, at most {max(used, default=0) / GIB:.1f} GiB used; "
        f"says: {run.stdout.splitlines()[-1] if run.stdout else run.stderr}",
        check(run.returncode == 0, "steady use is no risk"),
        check(max(used, default=0) > 4 * GIB, "the device's use was recorded"),
        check(
            all(event.allocator_allocated_bytes is None for event in events),
            "the allocator's counters, which cannot be read from outside, are unknown and not zero",
        ),
        "",
    ]


def terminal_ui(folder: Path) -> list[str]:
    """The interface in a real terminal, watching the GPU."""
    name = torch.cuda.get_device_properties(0).name
    shown = Terminal(folder, 120, 40)
    try:
        shown.wait_for("1 Overview", name)
        shown.keys("2", "g")
        before = used_on(shown.wait_for("Watching this machine's GPUs", "device 0", "used, peak"))
        held = torch.empty(8 * GIB, dtype=torch.uint8, device="cuda")
        deadline = time.monotonic() + 10
        while (after := used_on(shown.screen())) < before + 7.5 and time.monotonic() < deadline:
            time.sleep(0.1)
        screen = shown.screen()
        shown.keys("q")
        shown.wait_until_left()
    finally:
        shown.close()
    del held
    torch.cuda.empty_cache()
    return [
        "## The terminal UI watches the GPU",
        "",
        "```text",
        *(line.rstrip() for line in screen.splitlines()[:12]),
        "```",
        "",
        check(7.5 < after - before < 8.5, f"8 GiB more are seen: {before} GiB, then {after} GiB"),
        "",
    ]


def used_on(screen: str) -> float:
    """The GiB in use of device 0 on the screen."""
    found = re.search(r"device 0 +([0-9.]+) (MiB|GiB) used", screen)
    if found is None:
        return 0.0
    return float(found[1]) / (1024 if found[2] == "MiB" else 1)


def sampling_cost(folder: Path) -> list[str]:
    """CPU time of a sample, and the time between two of them."""
    tracker = MemoryTracker(sampling_interval=0.001, max_events=100000)
    with tracker:
        time.sleep(0.2)
        start = time.process_time(), len(tracker.get_events("sample"))
        time.sleep(2.0)
        cpu = time.process_time() - start[0]
        samples = len(tracker.get_events("sample")) - start[1]
    times = [event.timestamp for event in tracker.get_events("sample")]
    gaps = sorted((after - before) * 1000 for before, after in itertools.pairwise(times))
    return [
        "## One sample",
        "",
        f"- {cpu / max(samples, 1) * 1e6:.0f} us of CPU, sampling every 1 ms in an idle process",
        f"- time between samples: median {statistics.median(gaps):.2f} ms, "
        f"99th percentile {gaps[int(len(gaps) * 0.99)]:.2f} ms",
        "",
    ]


def main() -> int:
    properties = torch.cuda.get_device_properties(0)
    print("# The recorder on a real GPU\n")
    print(f"{properties.name}, PyTorch {torch.__version__}, Stormlog {stormlog.__version__}\n")
    parts: list[Callable[[Path], list[str]]] = [
        hidden_memory,
        oom_bundle,
        unmodified,
        from_outside,
        terminal_ui,
        sampling_cost,
        overhead,
    ]
    with tempfile.TemporaryDirectory() as name:
        for part in parts:
            start = time.monotonic()
            try:
                lines = part(Path(name))
            except Exception as error:
                failures.append(f"{part.__name__}: {error!r}")
                lines = [f"## {part.__name__}", "", f"**failed**: {error!r}", ""]
            print("\n".join(lines), flush=True)
            print(f"({time.monotonic() - start:.0f} s)\n", flush=True)
    print("**Everything holds.**" if not failures else f"**{len(failures)} do not hold.**")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
