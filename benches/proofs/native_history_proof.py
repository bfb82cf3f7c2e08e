"""Show that the history of PyTorch's allocator is recorded and shown on a real GPU.

    python benches/proofs/native_history_proof.py [--keep DIRECTORY] > report.md

Needs an NVIDIA GPU, PyTorch and the installed package; takes about two minutes. Exits with 1 when
something that is promised does not hold.
"""

from __future__ import annotations

import argparse
import json
import pickle
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from stormlog import cuda_native_debug as native
from stormlog.attributed_viz import render_attributed_html, render_attributed_wandb_preview_html
from stormlog.diagnose import run_diagnose
from stormlog.tracker import MemoryTracker

MIB = 1 << 20
ALL_FILES = [
    native.SNAPSHOT_PICKLE_FILENAME,
    native.TENSOR_ATTRIBUTION_FILENAME,
    native.ALLOCATION_ATTRIBUTION_FILENAME,
    native.SEGMENT_SUMMARY_FILENAME,
    native.TRACE_SUMMARY_FILENAME,
    native.TRACE_HTML_FILENAME,
    native.TRACE_HTML_ANNOTATED_FILENAME,
    native.DEBUG_METADATA_FILENAME,
]

failures: list[str] = []


def check(holds: bool, claim: str) -> str:
    """A line of the report for a claim that must hold."""
    if not holds:
        failures.append(claim)
    return f"- {'yes' if holds else '**NO**'}: {claim}"


def is_recording() -> bool:
    return bool(torch._C._cuda_isHistoryEnabled())


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def stormlog(*arguments: object, program: str = "stormlog") -> subprocess.CompletedProcess[str]:
    code = f"import sys; from stormlog.entrypoint import {'main' if program == 'stormlog' else program} as run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def shown(path: Path) -> dict[str, Any]:
    """What ``stormlog show`` says of the first device."""
    result = stormlog("show", "--json", path)
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout)["devices"][0])


class Training:
    """A few layers with Adam; every step allocates and frees."""

    def __init__(self, width: int = 1024, layers: int = 6) -> None:
        parts = [
            part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())
        ]
        self.model = torch.nn.Sequential(*parts).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(512, width, device="cuda")

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.model(self.batch).square().mean().backward()
        self.optimizer.step()

    def rate(self, seconds: float = 0.6) -> float:
        torch.cuda.synchronize()
        start, steps = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - start) < seconds:
            self.step()
            steps += 1
        torch.cuda.synchronize()
        return steps / elapsed


def switching(folder: Path) -> list[str]:
    """On, off, nested, and started by the program itself."""
    lines = [check(native.cuda_memory_history_supported(), "history can be recorded here")]
    with native.cuda_memory_history(trace_alloc_max_entries=1000):
        inside = is_recording()
        native.start_cuda_memory_history()
        native.stop_cuda_memory_history()
        nested = is_recording()
    lines.append(
        check(
            inside and nested and not is_recording(), "it is on inside the block and off after it"
        )
    )
    torch.cuda.memory._record_memory_history(max_entries=1000)
    with native.cuda_memory_history():
        pass
    native.stop_cuda_memory_history()
    lines.append(check(is_recording(), "a history that the program switched on stays on"))
    torch.cuda.memory._record_memory_history(enabled=None)
    return lines


def capturing(folder: Path) -> list[str]:
    """A snapshot of a training with names, files, pages and the reader in Rust."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with native.cuda_memory_history():
        training = Training()
        for _ in range(20):
            training.step()
        held = {"in_a_dictionary": torch.ones(3 * MIB // 4, device="cuda")}
        torch.cuda.synchronize()
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        peak = torch.cuda.max_memory_allocated()
        start = time.perf_counter()
        index = native.build_cuda_tensor_attribution_index(skip_gc=True)
        index_ms = (time.perf_counter() - start) * 1000
        start = time.perf_counter()
        names = native.capture_cuda_snapshot_artifacts(folder / "captured", history_recorded=True)
        capture_s = time.perf_counter() - start
        same = torch.cuda.memory_allocated() == allocated
    metadata = read(folder / "captured" / native.DEBUG_METADATA_FILENAME)
    attributed = read(folder / "captured" / native.ALLOCATION_ATTRIBUTION_FILENAME)
    known = {name for entry in index["attributed_storage_pointers"] for name in entry["names"]}
    wanted = {
        "0.weight",
        "0.bias",
        "0.weight.grad",
        "0.weight.exp_avg",
        "0.weight.exp_avg_sq",
        "in_a_dictionary",
    }
    lines = [
        f"- index of {index['storage_pointer_count']} storages in {index_ms:.1f} ms; files in {capture_s:.2f} s",
        f"- warnings: {metadata['warnings'] or 'none'}",
        check(
            names == ALL_FILES,
            f"all eight files are written (missing: {sorted(set(ALL_FILES) - set(names)) or 'none'})",
        ),
        check(
            wanted <= known,
            f"parameters, gradients, optimizer and dictionary are named (missing: {sorted(wanted - known) or 'none'})",
        ),
        check(
            attributed["attributed_allocation_count"] >= len(wanted),
            f"{attributed['attributed_allocation_count']} allocations are attributed",
        ),
        check(same, "capturing allocates nothing on the device"),
    ]
    summary = shown(folder / "captured" / native.SNAPSHOT_PICKLE_FILENAME)
    lines += [
        f"- shown: allocated {summary['allocated_bytes']}, reserved {summary['reserved_bytes']}, peak (as asked for) {summary['peak_requested_bytes']}",
        f"- PyTorch: allocated {allocated}, reserved {reserved}, peak {peak}",
        check(
            summary["allocated_bytes"] == allocated,
            "`stormlog show` gives PyTorch's allocated bytes to the byte",
        ),
        check(summary["reserved_bytes"] == reserved, "and its reserved bytes"),
        check(
            peak * 0.97 <= summary["peak_requested_bytes"] <= peak,
            "and its peak, less what rounding adds",
        ),
        check(
            summary["named_blocks"] > 20,
            f"{summary['named_blocks']} of {summary['live_blocks']} live blocks have names",
        ),
        check(
            any("native_history_proof.py" in holder["place"] for holder in summary["holders"][:3]),
            "lines of this very file hold most: "
            + "; ".join(
                f"{holder['place']} {holder['at_peak_bytes'] / MIB:.1f} MiB"
                for holder in summary["holders"][:4]
            ),
        ),
    ]
    snapshot = pickle.loads((folder / "captured" / native.SNAPSHOT_PICKLE_FILENAME).read_bytes())
    page, preview = (
        render_attributed_html(snapshot, index),
        render_attributed_wandb_preview_html(snapshot, index),
    )
    lines.append(
        check(
            "0.weight.exp_avg" in page and "<script" not in preview,
            f"pages of {len(page) // 1024} and {len(preview) // 1024} KiB",
        )
    )
    lines.append(
        check(
            stormlog(
                "plot",
                folder / "captured" / native.SNAPSHOT_PICKLE_FILENAME,
                "-o",
                folder / "page.html",
            ).returncode
            == 0,
            "`stormlog plot` draws it",
        )
    )
    before = torch.cuda.memory_allocated()
    held.clear()
    lines.append(
        check(
            before - torch.cuda.memory_allocated() == 3 * MIB,
            "nothing keeps a tensor alive that the program gives up",
        )
    )
    return lines


def cost(folder: Path) -> list[str]:
    """What recording costs a loop of small steps, and a full history when it is captured."""
    training = Training(width=512)
    for _ in range(50):
        training.step()
    rates: dict[bool, list[float]] = {True: [], False: []}
    for pair in range(10):
        for on in (pair % 2 == 0, pair % 2 == 1):
            if on:
                with native.cuda_memory_history():
                    rates[on].append(training.rate())
            else:
                rates[on].append(training.rate())
    with native.cuda_memory_history():
        training.rate(6.0)
        start = time.perf_counter()
        native.capture_cuda_snapshot_artifacts(folder / "full", history_recorded=True)
        capture_s = time.perf_counter() - start
    path = folder / "full" / native.SNAPSHOT_PICKLE_FILENAME
    start = time.perf_counter()
    summary = shown(path)
    show_s = time.perf_counter() - start
    page = folder / "full" / native.TRACE_HTML_ANNOTATED_FILENAME
    off, on = statistics.median(rates[False]), statistics.median(rates[True])
    return [
        f"- steps/s: {off:.0f} without, {on:.0f} with history ({(1 - on / off) * 100:.1f} % less)",
        f"- {summary['events']} entries: {path.stat().st_size / MIB:.1f} MiB captured in {capture_s:.1f} s, "
        f"shown in {show_s:.1f} s, page of {page.stat().st_size / MIB:.1f} MiB",
        check(
            90_000 <= summary["events"] <= 100_000,
            "a history keeps the 100,000 entries that were asked for",
        ),
        check(show_s < 20, "a full history is shown in seconds"),
    ]


def running_out(folder: Path) -> list[str]:
    """A bundle of PyTorch's own error."""
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.02)
    tracker = MemoryTracker(
        sampling_interval=0.02,
        enable_oom_flight_recorder=True,
        oom_dump_dir=str(folder / "oom"),
        enable_native_cuda_history=True,
    )
    kept: dict[str, Any] = {}
    raised = False
    start = time.perf_counter()
    with tracker:
        try:
            for step in range(1000):
                kept[f"leak_{step}"] = torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            raised = True
    took = time.perf_counter() - start
    torch.cuda.set_per_process_memory_fraction(1.0)
    (bundle,) = (folder / "oom").iterdir()
    manifest = read(bundle / "manifest.json")
    summary = shown(bundle / native.SNAPSHOT_PICKLE_FILENAME)
    names = [name for block in summary["live"] for name in block["names"]]
    return [
        check(
            raised,
            f"the program gets PyTorch's error ({len(kept)} blocks, {took:.1f} s with the bundle)",
        ),
        check(manifest.get("native_history_files") == ALL_FILES, "the bundle has all eight files"),
        check(
            sorted(manifest["files"]) == sorted(path.name for path in bundle.iterdir()),
            "its manifest lists every file",
        ),
        check(summary["ooms"] >= 1, "the history ends with the allocation that failed"),
        check(
            sum(name.startswith("leak_") for name in names) == len(kept),
            "the snapshot names every block of the leak",
        ),
        check(not is_recording(), "history is off after the tracker"),
    ]


def diagnosing_this_process(folder: Path) -> list[str]:
    """run_diagnose in the program itself."""
    directory, code = run_diagnose(str(folder / "own"), 0, 0.5, 0.05, "proof", native_history=True)
    manifest = read(directory / "manifest.json")
    return [
        check(
            code in (0, 2) and manifest["native_history_enabled"],
            f"run_diagnose(native_history=True) ends with {code}",
        ),
        check(set(ALL_FILES) <= set(manifest["files"]), "its bundle lists all eight files"),
        check(all((directory / name).is_file() for name in manifest["files"]), "and has them"),
    ]


TRAIN = """
    import torch

    def main():
        model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(200):
            optimizer.zero_grad()
            model(torch.randn(256, 1024, device="cuda")).square().mean().backward()
            optimizer.step()
        return model, optimizer
    kept = main()
"""
OUT_OF_MEMORY = """
    import time, torch
    torch.cuda.set_per_process_memory_fraction(0.02)
    kept = {"first": torch.empty(1 << 28, dtype=torch.uint8, device="cuda")}
    time.sleep(1)
    while True:
        kept[str(len(kept))] = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
"""


def diagnosing_a_command(folder: Path) -> list[str]:
    """The program's diagnose, with a command that records itself."""

    def diagnose(name: str, script: str) -> tuple[subprocess.CompletedProcess[str], Path]:
        path = folder / f"{name}.py"
        path.write_text(textwrap.dedent(script))
        bundle = folder / name
        arguments = ("diagnose", "--native-history", "--output", bundle, "--", sys.executable, path)
        return stormlog(*arguments, program="gpumemprof"), bundle

    result, bundle = diagnose("trained", TRAIN)
    manifest = read(bundle / "manifest.json")
    lines = [
        check(
            result.returncode in (0, 2),
            f"gpumemprof diagnose --native-history -- python ends with {result.returncode}: {result.stderr.strip() or 'no complaint'}",
        ),
        check(
            manifest["native_history_enabled"] and set(ALL_FILES) <= set(manifest["files"]),
            "the bundle lists all eight files",
        ),
    ]
    if (bundle / native.SNAPSHOT_PICKLE_FILENAME).is_file():
        summary = shown(bundle / native.SNAPSHOT_PICKLE_FILENAME)
        names = {name for block in summary["live"] for name in block["names"]}
        places = [holder["place"] for holder in summary["holders"]]
        lines += [
            check(
                "0.weight" in names and "0.weight.exp_avg" in names,
                f"{summary['named_blocks']} of {summary['live_blocks']} blocks have names",
            ),
            check(
                not any("before the recorded history" in place for place in places),
                f"it begins with the first tensor ({summary['events']} events)",
            ),
            check(
                any("trained.py" in place for place in places),
                f"lines of the program: {'; '.join(places[:4])}",
            ),
        ]
    result, bundle = diagnose("no_cuda", "print('no GPU used')")
    manifest = read(bundle / "manifest.json")
    lines.append(
        check(
            result.returncode == 1 and "no process left a history" in manifest["error"],
            f"a command without CUDA: exit {result.returncode}, {manifest.get('error')}",
        )
    )
    own = (
        "import torch\ntorch.cuda.memory._record_memory_history(max_entries=50)\n"
        + textwrap.dedent(TRAIN)
        + "assert torch._C._cuda_isHistoryEnabled()\n"
    )
    result, bundle = diagnose("own_history", own)
    lines.append(
        check(
            result.returncode in (0, 2) and (bundle / native.SNAPSHOT_PICKLE_FILENAME).is_file(),
            f"a command with a history of its own: exit {result.returncode} {result.stderr.strip()[:200]}",
        )
    )
    result, bundle = diagnose("ran_out", OUT_OF_MEMORY)
    dumps = list(bundle.glob("telemetry/**/oom_dumps/*"))
    lines += [
        check(
            result.returncode == 2, f"a command that runs out of memory: exit {result.returncode}"
        ),
        check((bundle / native.SNAPSHOT_PICKLE_FILENAME).is_file(), "its bundle has the history"),
        check(
            len(dumps) == 1 and (dumps[0] / native.SNAPSHOT_PICKLE_FILENAME).is_file(),
            f"so has its out-of-memory bundle ({len(dumps)})",
        ),
    ]
    result = stormlog(
        "diagnose", "--native-history", "--output", folder / "nothing", program="gpumemprof"
    )
    lines.append(
        check(
            result.returncode == 1 and not (folder / "nothing").exists(),
            f"without a command: exit {result.returncode}, {result.stderr.strip().splitlines()[0]}",
        )
    )
    return lines


SECTIONS: tuple[tuple[str, Callable[[Path], list[str]]], ...] = (
    ("Switching", switching),
    ("A snapshot of a training", capturing),
    ("Cost", cost),
    ("Running out of memory", running_out),
    ("A diagnosis of the calling process", diagnosing_this_process),
    ("A diagnosis of a command", diagnosing_a_command),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="leave the files here")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"# Native history: PyTorch {torch.__version__}, {torch.cuda.get_device_name()}\n")
        for title, section in SECTIONS:
            print(f"## {title}\n")
            try:
                lines = section(folder)
            except Exception:
                failures.append(f"{title} failed")
                lines = ["- **NO**: it failed", "", "```", traceback.format_exc().rstrip(), "```"]
            print("\n".join(lines), flush=True)
            print()
    print(f"{len(failures)} of these do not hold" if failures else "all of these hold")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
