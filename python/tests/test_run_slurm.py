"""``srun stormlog run`` on two nodes: one run, each rank on its host, one line at the end.

A task of ``srun`` is a process with Slurm's variables on one of the nodes; a namespace of its own
gives it the node's name. The nodes share a directory.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stormlog.telemetry import load_telemetry_sessions
from waiting import PATIENCE_S

PROGRAM = (
    "import sys, time; block = bytearray(40 << 20); time.sleep(1.0); print('rank', sys.argv[1])"
)
RUN = (
    sys.executable,
    "-c",
    "import sys; from stormlog import entrypoint; sys.exit(entrypoint.main())",
    "run",
)


def can_name_hosts() -> bool:
    """Whether a process may be given a host name of its own."""
    if shutil.which("unshare") is None or shutil.which("hostname") is None:
        return False
    tried = subprocess.run(["unshare", "--uts", "hostname", "node-x"], capture_output=True)
    return tried.returncode == 0


pytestmark = pytest.mark.skipif(not can_name_hosts(), reason="needs a namespace for host names")


def task(rank: int, directory: Path, step: int = 0) -> subprocess.Popen[str]:
    """Starts one of four tasks, two on each node."""
    variables = {
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": str(step),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank % 2),
        "SLURM_NODEID": str(rank // 2),
        "SLURM_NTASKS": "4",
        "SLURM_NNODES": "2",
        "SLURM_JOB_NODELIST": "node-[0-1]",
    }
    node = ("unshare", "--uts", "sh", "-c", f'hostname node-{rank // 2} && exec "$@"', "sh")
    program = (sys.executable, "-c", PROGRAM, str(rank))
    return subprocess.Popen(
        (*node, *RUN, "--interval", "0.05", "--dir", str(directory), "--", *program),
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(tasks: list[subprocess.Popen[str]]) -> Iterator[tuple[str, str]]:
    """Output and errors of each task; rank 0 ends last, as in ``srun``, which waits for all."""
    for process in tasks[::-1]:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
        yield out, err


def analyzed(directory: Path) -> dict[str, Any]:
    """The report of ``stormlog analyze``."""
    command = (*RUN[:-1], "analyze", "--format", "json", str(directory))
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_two_nodes_are_one_run(tmp_path: Path) -> None:
    directory = tmp_path / "shared"
    tasks = [task(rank, directory) for rank in range(4)]
    ended = list(finished(tasks))[::-1]
    assert [out for out, _ in ended] == [f"rank {rank}\n" for rank in range(4)]
    lines = [line for _, err in ended for line in err.splitlines()]
    assert len(lines) == 2 and " \u00b7 stormlog analyze " in lines[1], lines
    sinks = sorted(directory.iterdir())
    sessions = [session for sink in sinks for session in load_telemetry_sessions(sink)]
    seen = sorted(
        (
            one.summary.rank,
            one.summary.local_rank,
            one.summary.host,
            one.summary.world_size,
            one.summary.job_id,
        )
        for one in sessions
    )
    assert seen == [(rank, rank % 2, f"node-{rank // 2}", 4, "4711") for rank in range(4)]
    ids = {one.events[0].metadata["run"]["id"] for one in sessions}
    assert len(ids) == 1, ids
    report = analyzed(directory)
    assert len(report["runs"]) == 1
    assert [rank["rank"] for rank in report["runs"][0]["ranks"]] == [0, 1, 2, 3]
    assert report["runs"][0]["missing_ranks"] == []


def test_the_next_step_of_a_job_is_another_run(tmp_path: Path) -> None:
    directory = tmp_path / "shared"
    for step in range(2):
        list(finished([task(rank, directory, step) for rank in range(2)]))
    assert len(analyzed(directory)["runs"]) == 2
