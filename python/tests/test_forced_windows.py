"""Windows that open every second, whether memory grows or not, over a stand-in for PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import FAKE_TORCH
from test_capture_commands import only_session
from test_run import record
from waiting import FOR_PROGRAMS

# Makes steps until as many windows have opened as the first argument says, then ends in the way
# that the second argument names.
LOOP = f"""{FOR_PROGRAMS}
import os, signal, sys, time, torch
from waiting import wait_until

windows, end = int(sys.argv[1]), sys.argv[2]
torch.STATE["allocated"] = torch.STATE["reserved"] = 50 << 20
optimizer = torch.optim.Optimizer()
is_recorded = "STORMLOG_RUN_ROOT" in os.environ
total = 0

def opened():
    return sum(enabled is not None for enabled, _ in torch.HISTORY["calls"])

def step():
    global total
    blocks = [torch.malloc(1 << 16, ("/home/u/train.py", 8, "step")) for _ in range(4)]
    total += sum(torch.BLOCKS[address][0] for address in blocks)
    for address in blocks:
        torch.free(address)
    optimizer.step()
    time.sleep(0.001)
    return opened() >= windows and torch.HISTORY["enabled"]

if is_recorded:
    wait_until(step)
if end == "kill":
    print(time.time_ns(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
for _ in range(50):
    step()
print("done", total > 0)
sys.exit(3)
"""


def forced(tmp_path: Path, *arguments: object) -> tuple[subprocess.CompletedProcess[str], Path]:
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(LOOP)
    environment = {
        **os.environ,
        "PYTHONPATH": str(FAKE_TORCH),
        "STORMLOG_EVIDENCE_EVERY": "1",
    }
    words = [str(word) for word in arguments]
    return record(out, sys.executable, script, *words, env=environment), out


def evidence(events: Any) -> list[Any]:
    return [event for event in events if event.event_type == "memory_evidence"]


def test_a_program_is_not_changed_by_windows(tmp_path: Path) -> None:
    result, out = forced(tmp_path, 5, "exit")
    assert result.returncode == 3, result.stderr
    assert result.stdout == "done True\n"
    states = [event.metadata["evidence"] for event in evidence(only_session(out).events)]
    # All windows were forced (not opened because of growth), by more than one search.
    assert {state["asked_by"] for state in states} == {"request"}
    assert len(states) >= 4


def test_a_kill_in_a_window_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    result, out = forced(tmp_path, 3, "kill")
    assert result.returncode == 128 + 9, result.stderr
    killed_ns = int(result.stdout)
    session = only_session(out)
    # Two windows have ended, each recorded as an event.
    assert len(evidence(session.events)) >= 2
    samples = [event for event in session.events if event.event_type == "sample"]
    # Events are written four times a second.
    assert killed_ns - samples[-1].timestamp_ns < 5_000_000_000
    assert not session.damage
    numbers = [event.metadata["step_count"] for event in samples if "step_count" in event.metadata]
    assert numbers == sorted(numbers)
