"""What uses a GPU, checked on one: a program with cuBLAS, cuDNN, a CUDA graph, a raw ``cudaMalloc`` of
known size and a second process, recorded by ``stormlog run`` with and without
``--driver-allocations``, and the same with a profiler that the program starts.

    python benches/proofs/ledger_proof.py            # prints one JSON object

Needs a GPU, PyTorch with CUDA and the installed package.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MIB = 1 << 20
RAW_BYTES = 700 * MIB
OTHER_BYTES = 1500 * MIB

# A process beside the recorded one.
OTHER = f"""
import sys, torch
kept = torch.empty({OTHER_BYTES}, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.read()
"""

# The context alone: the driver's number for a process that has one and has allocated nothing.
CONTEXT = """
import json, os, torch
from stormlog import _core
torch.cuda.init()
torch.cuda.synchronize()
shares = dict(_core.device_shares(0)[2])
before = shares.get(os.getpid())
x = torch.zeros(1, device="cuda")
after = dict(_core.device_shares(0)[2]).get(os.getpid())
print(json.dumps({"context": before, "after_first_tensor": after,
                  "reserved": torch.cuda.memory_reserved()}))
"""

PROGRAM = f"""
import ctypes, glob, json, os, sys, time
import torch

def raw(size):
    names = glob.glob(os.path.join(os.path.dirname(torch.__file__), "..", "nvidia", "*", "lib",
                                   "libcudart.so.*"))
    runtime = ctypes.CDLL(names[0] if names else "libcudart.so")
    pointer = ctypes.c_void_p()
    status = runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size))
    return status, pointer

def work():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(64 * 64 * 64, 256),
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(30):
        loss = model(torch.randn(16, 3, 64, 64, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, float(loss)

def graph():
    x = torch.randn(4 << 20, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = (x * 2).relu() + 1
    captured.replay()
    return captured, x, y

def profiled():
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        (torch.randn(512, 512, device="cuda") @ torch.randn(512, 512, device="cuda")).sum().item()
    return sum(1 for one in profiler.events() if "CUDA" in str(one.device_type))

torch.manual_seed(0)
model, loss = work()
status, pointer = raw({RAW_BYTES})
kept = graph()
kernels = profiled() if "profile" in sys.argv else None
torch.cuda.synchronize()
time.sleep(float(sys.argv[1]))
free, total = torch.cuda.mem_get_info()
print(json.dumps({{"cudaMalloc": status, "used": total - free, "kernels": kernels,
                   "reserved": torch.cuda.memory_reserved(),
                   "allocated": torch.cuda.memory_allocated()}}))
"""


def ledgers(run: Path) -> list[dict[str, Any]]:
    """The ledgers of a recording, in order."""
    found = []
    for segment in sorted(run.rglob("segment-*.jsonl")):
        for line in segment.read_text().splitlines():
            if "memory_ledger" in line:
                found.append(json.loads(line)["metadata"]["ledger"])
    return found


def judged(ledger: dict[str, Any]) -> dict[str, Any]:
    """The entries of one ledger in MiB, and what they leave unexplained."""
    libraries = ledger["libraries"] or []
    known = {
        "context": ledger["context"]["bytes"],
        "pytorch": ledger["reserved_bytes"],
        "libraries": sum(one["bytes"] for one in libraries if one["kind"] != "managed"),
        "others": sum(one["bytes"] for one in ledger["others"] or []),
    }
    rest = None
    if ledger["used_bytes"] is not None:
        rest = ledger["used_bytes"] - sum(size or 0 for size in known.values())
    return {
        **{name: None if size is None else round(size / MIB, 1) for name, size in known.items()},
        "used": None if ledger["used_bytes"] is None else round(ledger["used_bytes"] / MIB, 1),
        "rest": None if rest is None else round(rest / MIB, 1),
        "rest_share": None if rest is None else round(rest / ledger["used_bytes"], 4),
        "raw_cudaMalloc_found": any(
            one["bytes"] == RAW_BYTES or one["bytes"] // MIB == RAW_BYTES // MIB
            for one in libraries
        ),
    }


def recorded(program: Path, folder: Path, flags: list[str], words: list[str]) -> dict[str, Any]:
    """One run of the program under ``stormlog run``."""
    command = [sys.executable, "-m", "stormlog", "run", "--dir", str(folder), *flags, "--"]
    began = time.monotonic()
    ran = subprocess.run(
        [*command, sys.executable, str(program), *words], capture_output=True, text=True
    )
    result: dict[str, Any] = {
        "exit": ran.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "program": ran.stdout.strip()[-400:],
        "stderr": ran.stderr.strip()[-1500:],
    }
    try:
        found = ledgers(folder)
        result["ledgers"] = len(found)
        if found:
            result["last"] = found[-1]
            result["sums_mib"] = judged(found[-1])
    except Exception as error:
        result["failed"] = f"{type(error).__name__}: {error}"
    shown = subprocess.run(
        [sys.executable, "-m", "stormlog", "analyze", str(folder)], capture_output=True, text=True
    )
    result["analyze"] = {"exit": shown.returncode, "text": (shown.stdout + shown.stderr)[-2500:]}
    return result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", default="4", help="how long the program stays")
    arguments.add_argument("--keep", type=Path, help="keep the recordings in this directory")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "program.py"
        program.write_text(PROGRAM)
        context = subprocess.run([sys.executable, "-c", CONTEXT], capture_output=True, text=True)
        result: dict[str, Any] = {"context_alone": context.stdout.strip() or context.stderr[-800:]}
        plain = subprocess.run(
            [sys.executable, str(program), "0", "profile"], capture_output=True, text=True
        )
        result["not_recorded_with_profiler"] = plain.stdout.strip() or plain.stderr[-800:]
        other = subprocess.Popen(
            [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert other.stdout is not None
        other.stdout.readline()
        try:
            for label, flags, words in (
                ("plain", [], []),
                ("driver", ["--driver-allocations"], []),
                ("plain_profiler", [], ["profile"]),
                ("driver_profiler", ["--driver-allocations"], ["profile"]),
            ):
                words = [options.seconds, *words]
                result[label] = recorded(program, folder / label, flags, words)
        finally:
            other.communicate()
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
