"""Compares analyses of a run of 4,096 ranks with stormlog 0.3.9's, and how time grows with ranks.

    python benches/speed/compare_analysis.py --reference PYTHON [--program stormlog] [--part-ranks 256]

Stormlog 0.3.9 is measured on a part, per event, since it would take minutes on the whole. It
sees one session, so its part carries one session id. Build both the program and the
extension for release first; a debug extension gives a plausible and wrong ratio.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REFERENCE = """
import json, sys, time
from stormlog.telemetry import load_telemetry_events
from stormlog.gap_analysis import analyze_hidden_memory_gaps
from stormlog.distributed_analysis import summarize_cross_rank_analysis
from stormlog.utils import format_bytes
limits = {"gap_ratio_threshold": 0.05, "gap_spike_zscore": 2.0, "gap_drift_r_squared": 0.6, "gap_fragmentation_ratio": 0.3}
start = time.perf_counter(); events = load_telemetry_events(sys.argv[1]); loaded = time.perf_counter()
summarize_cross_rank_analysis(events); analyze_hidden_memory_gaps(events, limits, format_bytes, {})
print(json.dumps([len(events), loaded - start, time.perf_counter() - loaded]))
"""


def measure(python: str, file: Path, repeats: int = 3) -> tuple[int, float, float]:
    """Events, and the best seconds of loading and of both analyses."""
    best: list[tuple[int, float, float]] = []
    for _ in range(repeats):
        done = subprocess.run([python, "-c", REFERENCE, str(file)], capture_output=True, check=True)
        best.append(tuple(json.loads(done.stdout)))
    return best[0][0], min(one[1] for one in best), min(one[2] for one in best)


def command(program: list[str], file: Path, repeats: int = 3) -> tuple[float, float]:
    """Best wall and CPU seconds of the whole command."""
    walls, cpus = [], []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(
            [*program, "analyze", str(file), "--format", "json"],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        walls.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(walls), min(cpus)


def peak_mib(program: list[str], file: Path) -> float:
    """Peak memory of the whole command, from a child that has no other children."""
    script = (
        "import resource, subprocess, sys;"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    arguments = [sys.executable, "-c", script, *program, "analyze", str(file), "--format", "json"]
    return int(subprocess.run(arguments, capture_output=True, check=True).stdout) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", required=True)
    parser.add_argument("--program", default="stormlog")
    parser.add_argument("--part-ranks", type=int, default=256)
    arguments = parser.parse_args()
    program = shlex.split(arguments.program)
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for ranks in (256, 4096, arguments.part_ranks):
            files[ranks] = Path(folder) / f"ranks{ranks}.jsonl"
            subprocess.run(
                [
                    sys.executable,
                    str(HERE / "make_ranks.py"),
                    str(files[ranks]),
                    "--ranks",
                    str(ranks),
                ],
                check=True,
            )
        part = Path(folder) / "part.jsonl"
        text = files[arguments.part_ranks].read_text().splitlines()
        one = ({**json.loads(line), "session_id": "one"} for line in text)
        part.write_text("".join(json.dumps(record) + "\n" for record in one))
        events, load, analyses = measure(arguments.reference, part)
        our_events, _, our_analyses = measure(sys.executable, part)
        print(
            f"reference, {events} events: load {load / events * 1e6:.2f} us, analyses {analyses / events * 1e6:.2f} us per event"
        )
        print(
            f"ours, same events, through Python: analyses {our_analyses / our_events * 1e6:.4f} us per event: {analyses / our_analyses:.0f} times faster"
        )
        wall, cpu = command(program, files[4096])
        total = 4096 * 250
        reference_wall = (load + analyses) / events * total
        print(
            f"whole command, 4096 ranks: {wall:.2f} s, CPU {cpu:.2f} s, {peak_mib(program, files[4096]):.0f} MiB"
        )
        print(
            f"  against stormlog 0.3.9's load and two analyses ({reference_wall:.1f} s, scaled): {reference_wall / wall:.0f} times faster"
        )
        _, small = command(program, files[256])
        growth = (cpu / small) / (4096 / 256)
        print(f"CPU from 256 to 4096 ranks: {small:.3f} s to {cpu:.3f} s, {growth:.2f} of linear")


if __name__ == "__main__":
    main()
