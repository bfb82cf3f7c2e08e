"""Analyse a run of 4,096 ranks with two wheels in turns; print one JSON object with both times.

    python benches/compare_wheels.py OLD.whl NEW.whl [--ranks 4096] [--rounds 5]

Needs an interpreter that both wheels fit and nothing else: they are unpacked, not installed. The
rounds alternate, so that both see the same machine. `ratio` is the new time as a share of the old
one, of the best and of the median round. Nothing may be critical in the run, so both end with 0.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def unpacked(wheel: Path, folder: Path) -> Path:
    """The packages of a wheel in a folder of their own."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def analyzed(packages: Path, recording: Path) -> tuple[float, float, str]:
    """Wall and CPU seconds of the whole command, and the headline that it prints."""
    command = [sys.executable, "-m", "stormlog", "analyze", str(recording), "--format", "json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(packages)}, capture_output=True, check=True
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, json.loads(done.stdout)["runs"][0]["headline"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stormlog-wheels-") as scratch:
        recording = Path(scratch) / "ranks.jsonl"
        make = [sys.executable, str(HERE / "make_ranks.py"), str(recording), "--ranks", str(options.ranks)]
        subprocess.run(make, check=True)
        wheels = {"old": options.old, "new": options.new}
        packages = {name: unpacked(wheel, Path(scratch) / name) for name, wheel in wheels.items()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in wheels}
        headlines = {}
        for _ in range(options.rounds):
            for name, folder in packages.items():
                wall, cpu, headlines[name] = analyzed(folder, recording)
                times[name].append((wall, cpu))
        result: dict[str, object] = {"ranks": options.ranks, "rounds": options.rounds, "headlines": headlines}
        for place, kind in enumerate(("wall_s", "cpu_s")):
            seconds = {name: [one[place] for one in rounds] for name, rounds in times.items()}
            best = {name: min(values) for name, values in seconds.items()}
            median = {name: statistics.median(values) for name, values in seconds.items()}
            ratio = {"best": best["new"] / best["old"], "median": median["new"] / median["old"]}
            result[kind] = {"best": best, "median": median, "ratio": ratio}
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
