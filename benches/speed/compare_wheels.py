"""Run the workloads of the compare_* scripts with two wheels in turns; print one JSON object with both times.

    python benches/speed/compare_wheels.py OLD.whl NEW.whl [--rounds 5] [--events 500000] [--ranks 4096]

Internal changes must not make anything slower: this compares the speed of a build with that of an
earlier one. Needs an interpreter that both wheels fit and nothing else: they are unpacked, not
installed. The wheels take turns, so that both see the same machine. `ratio` is the new time
divided by the old one, of the best and of the median round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import compare_append
import compare_issues
import compare_load
import compare_query
import compare_sampling
from compare_plots import write_events
from make_sink import write_sink

HERE = Path(__file__).resolve().parent

# The whole command, with the import of the package and the start of the program.
COMMAND = """
import json, subprocess, sys, time
start = time.perf_counter()
subprocess.run([sys.executable, "-m", "stormlog", *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)
print(json.dumps(time.perf_counter() - start))
"""


def unpacked(wheel: Path, folder: Path) -> Path:
    """The packages of a wheel in a folder of their own."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def printed(packages: Path, script: str, *arguments: object) -> object:
    """What a script prints as JSON when it imports the packages."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    done = subprocess.run(
        command, env=environment, capture_output=True, check=True, text=True, cwd="/"
    )
    return json.loads(done.stdout)


class Workloads:
    """The workloads by name; each returns seconds by what was measured."""

    def __init__(self, scratch: Path, options: argparse.Namespace) -> None:
        self.scratch, self.events = scratch, options.events
        self.sink, self.ranks, self.picture = (
            scratch / "sink",
            scratch / "ranks.jsonl",
            scratch / "events.json",
        )
        write_sink(self.sink, self.events, 64)
        write_events(self.picture, 100_000)
        make = [
            sys.executable,
            str(HERE / "make_ranks.py"),
            str(self.ranks),
            "--ranks",
            str(options.ranks),
        ]
        subprocess.run(make, check=True)
        self.turn = 0

    def folder(self) -> Path:
        """A path that nothing has used."""
        self.turn += 1
        return self.scratch / f"out-{self.turn}"

    def analysis(self, packages: Path) -> dict[str, float]:
        return {"analyze": printed(packages, COMMAND, "analyze", self.ranks, "--format", "json")}

    def append(self, packages: Path) -> dict[str, float]:
        alone, whole = printed(packages, compare_append.MEASURE, self.folder(), 200_000)
        return {"append": 1 / alone, "open to close": 1 / whole}

    def issues(self, packages: Path) -> dict[str, float]:
        asked = printed(packages, compare_issues.ASK, self.sink, 3)
        return {"issues, cold": asked["cold"], "issues, warm": asked["warm"]}

    def load(self, packages: Path) -> dict[str, float]:
        imports, work = compare_load.CONTENDERS["ours, Python"]
        script = compare_load.MEASURE.format(imports=imports, work=work)
        return {"load": printed(packages, script, self.sink)["seconds"]}

    def plots(self, packages: Path) -> dict[str, float]:
        out = self.folder()
        return {
            form: printed(packages, COMMAND, "plot", self.picture, "-o", f"{out}.{form}")
            for form in ("png", "html")
        }

    def query(self, packages: Path) -> dict[str, float]:
        metrics = json.dumps(compare_query.METRICS)
        return printed(packages, compare_query.IN_PROCESS, self.sink, 5, metrics)["seconds"]

    def sampling(self, packages: Path) -> dict[str, float]:
        done = printed(packages, compare_sampling.SCRIPT, compare_sampling.FASTEST_S, 2.0)
        return {"CPU for a sample": done["cpu_s"] / done["samples"]}

    NAMES = ("analysis", "append", "issues", "load", "plots", "query", "sampling")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--only", choices=Workloads.NAMES, action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stormlog-wheels-") as folder:
        scratch = Path(folder)
        wheels = {"old": options.old, "new": options.new}
        packages = {name: unpacked(wheel, scratch / name) for name, wheel in wheels.items()}
        workloads = Workloads(scratch, options)
        result = {"rounds": options.rounds, "events": options.events, "ranks": options.ranks}
        for workload in options.only or Workloads.NAMES:
            seconds: dict[str, dict[str, list[float]]] = {}
            for _ in range(options.rounds):
                for name, folder_of_wheel in packages.items():
                    for what, took in getattr(workloads, workload)(folder_of_wheel).items():
                        seconds.setdefault(what, {}).setdefault(name, []).append(took)
            result[workload] = {what: compared(times) for what, times in seconds.items()}
        print(json.dumps(result, indent=2))


def compared(times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """The best and the median round of both wheels, and the new one as a share of the old one."""
    result = {}
    for kind, choose in (("best", min), ("median", statistics.median)):
        old, new = choose(times["old"]), choose(times["new"])
        result[kind] = {
            "old_s": round(old, 7),
            "new_s": round(new, 7),
            "ratio": round(new / old, 3),
        }
    return result


if __name__ == "__main__":
    main()
