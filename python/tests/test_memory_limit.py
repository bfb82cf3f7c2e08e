"""A real limit: programs in a control group, until the kernel's OOM killer ends them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stormlog.telemetry import load_telemetry_sessions
from waiting import PATIENCE_S, recorded_since, wait_until

LIMIT = 192 << 20

# Takes memory, slowly enough to be seen on the way, until it is killed.
HOG = """
import time
kept = []
while True:
    kept.append(bytearray(b"x") * (2 << 20))
    time.sleep(0.02)
"""


def own_group() -> tuple[Path, str] | None:
    """The memory group of this process, and the name of a group's limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        if "memory" in controllers.split(","):
            return Path("/sys/fs/cgroup/memory", name.strip("/")), "memory.limit_in_bytes"
        if not controllers and Path("/sys/fs/cgroup/cgroup.controllers").exists():
            return Path("/sys/fs/cgroup", name.strip("/")), "memory.max"
    return None


@pytest.fixture
def group() -> Iterator[Path]:
    found = own_group()
    if found is None:
        pytest.skip("there are no memory groups here")
    parent, limit = found
    group = parent / f"stormlog-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"a memory group cannot be made here: {error}")
    try:
        (group / limit).write_text(str(LIMIT))
        yield group
    except OSError as error:
        pytest.skip(f"a memory group cannot be limited here: {error}")
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def start(group: Path, *command: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        # The shell is in the group before it becomes the command.
        [
            "sh",
            "-c",
            'echo $$ > "$0" && exec "$@"',
            str(group / "cgroup.procs"),
            *map(str, command),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def program(name: str) -> tuple[str, str, str]:
    call = f"import sys; from stormlog import entrypoint; sys.exit(entrypoint.{name}())"
    return sys.executable, "-c", call


# The recorder may be killed in the middle of a line.
@pytest.mark.filterwarnings("ignore::stormlog.errors.StormlogDamageWarning")
def test_a_program_that_the_kernel_kills_at_its_limit(group: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = (*program("main"), "run", "--dir", out, "--", sys.executable, "-c", HOG)
    watched = start(group, *command)
    _, errors = watched.communicate(timeout=PATIENCE_S)
    assert watched.returncode == 137, errors
    assert "out of memory in this container" in errors
    (session,) = load_telemetry_sessions(out / "host")
    assert session.summary.status == "interrupted"
    samples = [event for event in session.events if event.event_type == "sample"]
    # Near the limit, memory shared with other processes comes on top of it.
    assert all(LIMIT <= event.device_total_bytes <= 1.07 * LIMIT for event in samples)
    assert samples[0].device_total_bytes == LIMIT
    # The last sample is close to the limit at which the program was killed.
    assert samples[-1].device_used_bytes > 0.7 * LIMIT
    *_, end, stop = session.events
    assert stop.metadata["end"]["kind"] == "kernel_oom_kill"
    assert (end.event_type, end.metadata["oom_reason"]) == ("error", "kernel_oom_kill")
    assert end.context.startswith("killed by signal 9 (SIGKILL): out of memory")
    assert "The kernel killed the process" in analyzed(out)


def test_a_program_watched_from_outside_that_the_kernel_kills(group: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = (*program("main"), "track", "--sink", out, "--", sys.executable, "-c", HOG)
    watched = start(group, *command)
    _, errors = watched.communicate(timeout=PATIENCE_S)
    assert watched.returncode == 137 and "out of memory in this container" in errors
    assert "The kernel killed the process" in analyzed(out)


def analyzed(path: Path) -> str:
    command = [*program("main"), "analyze", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S).stdout


def test_a_flight_recorder_sees_a_neighbour_killed(group: Path, tmp_path: Path) -> None:
    dumps, sink = tmp_path / "dumps", tmp_path / "sink"
    recorder = start(
        group,
        *(*program("gpumemprof"), "track", "--interval", "0.05", "--oom-flight-recorder"),
        *("--oom-dump-dir", dumps, "--telemetry-sink-dir", sink),
    )
    wait_until(lambda: recorded_since(sink))
    hog = start(group, sys.executable, "-c", HOG)
    hog.communicate(timeout=PATIENCE_S)
    assert hog.returncode == -9
    wait_until(lambda: list(dumps.glob("*/manifest.json")))
    recorder.terminate()
    recorder.communicate(timeout=PATIENCE_S)
    (metadata,) = dumps.glob("*/metadata.json")
    assert json.loads(metadata.read_text())["exception_message"].startswith(
        "out of memory: the kernel"
    )
