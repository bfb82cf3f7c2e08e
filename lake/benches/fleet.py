"""A lake of a whole fleet: ingest, size, fleet questions, a full scan beside DuckDB, and workers.

    cargo build --release --workspace --bins --examples        # in lake/
    python lake/benches/fleet.py --samples 200000000 --ranks 4096 --parallel 4

Generates the recordings of some jobs (--jobs), ingests them with one command and deletes them, so that the
disk never holds all of them. Most ranks are in jobs of 256 (--large-job), and one in sixteen in jobs of 8. An
ingest also analyzes jobs of at most 512 MiB; the speed of ingests with and without analysis is printed
separately. Needs the PyPI package duckdb for the comparison. Prints JSON. Takes about 30 GB of disk with the
defaults and 4 ingests at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RELEASE = Path(__file__).resolve().parent.parent / "target/release"
SMALL_JOB = 8
# The largest job that an ingest analyzes.
LARGEST_ANALYSIS = 512 << 20
START_S = 1_762_000_000
REPEATS = 3
FLEET = {
    "waste": ["waste"],
    "ooms": ["ooms", "--by", "host"],
    "headroom": ["headroom"],
    "leaks": ["leaks"],
    "regressions": ["regressions"],
}
# Every sample is read and belongs to one of 4,096 groups.
SCAN = """SELECT host, rank, count(*) AS samples, min(allocator_allocated_bytes) AS least,
 max(allocator_allocated_bytes) AS most, avg(device_used_bytes) AS used,
 max(allocator_reserved_bytes - allocator_allocated_bytes) AS unused
 FROM samples GROUP BY host, rank ORDER BY host, rank"""


def jobs_of(ranks: int, large_job: int) -> list[tuple[int, int]]:
    """The first rank and the number of ranks of each job of a fleet."""
    in_small_jobs = ranks // 16 if ranks > large_job else 0
    sizes = [SMALL_JOB] * (in_small_jobs // SMALL_JOB)
    left = ranks - sum(sizes)
    while left > 0:
        sizes.append(min(large_job, left))
        left -= sizes[-1]
    firsts = [sum(sizes[:number]) for number in range(len(sizes))]
    return list(zip(firsts, sizes, strict=True))


class Ingest:
    """Generates, ingests and deletes some jobs at a time; remembers what each ingest took."""

    def __init__(self, options: argparse.Namespace, lake: Path, folder: Path) -> None:
        self.options, self.lake, self.folder = options, lake, folder
        self.cpu_s: list[float] = []
        self.wall_s: list[float] = []
        self.peak_anonymous_mib: list[float] = []
        self.analyzed_cpu_s = 0.0
        self.analyzed_ranks = 0
        self.source_bytes = 0
        self.jobs = jobs_of(options.ranks, options.large_job)
        self.lock = threading.Lock()

    def ingest(self, first_job: int) -> None:
        runs = self.folder / f"from-job-{first_job}"
        samples = self.options.samples // self.options.ranks
        size, ranks, is_analyzed = 0, 0, True
        for number in range(first_job, min(first_job + self.options.jobs, len(self.jobs))):
            folder = runs / f"job-{number}"
            first, ranks_of_job = self.jobs[number]
            generate = [
                self.options.generator,
                folder,
                number,
                first,
                ranks_of_job,
                samples,
                START_S,
            ]
            subprocess.run([str(part) for part in generate], check=True)
            size_of_job = sum(file.stat().st_size for file in folder.rglob("*.jsonl"))
            is_analyzed = is_analyzed and size_of_job <= LARGEST_ANALYSIS
            size, ranks = size + size_of_job, ranks + ranks_of_job
        begun = time.perf_counter()
        command = [self.options.program, "ingest", str(runs), "--to", str(self.lake), "--json"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        peak = 0.0
        # The process is watched and not waited for, so that its own times can be read.
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            peak = max(peak, anonymous_mib(process.pid))
            time.sleep(0.02)
        if status:
            raise SystemExit(f"the ingest of job {first_job} failed with status {status}")
        with self.lock:
            self.wall_s.append(time.perf_counter() - begun)
            cpu_s = used.ru_utime + used.ru_stime
            self.cpu_s.append(cpu_s)
            if is_analyzed:
                self.analyzed_cpu_s += cpu_s
                self.analyzed_ranks += ranks
            self.peak_anonymous_mib.append(peak)
            self.source_bytes += size
        shutil.rmtree(runs)


def parts(ingest: Ingest, samples: int) -> dict[str, int]:
    """The speed of ingests without and with the analysis of the run."""
    ranks = sum(size for _, size in ingest.jobs)
    analyzed = samples * ingest.analyzed_ranks // ranks
    speeds = {}
    if analyzed < samples:
        stored_cpu_s = sum(ingest.cpu_s) - ingest.analyzed_cpu_s
        speeds["stored_only_samples_per_core_s"] = round((samples - analyzed) / stored_cpu_s)
    if analyzed:
        speeds["analyzed_samples_per_core_s"] = round(analyzed / ingest.analyzed_cpu_s)
    return speeds


def anonymous_mib(pid: int) -> float:
    try:
        found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def timed(command: list[str]) -> tuple[float, str]:
    """The median time of the whole command, and what it printed."""
    times, printed = [], ""
    for _ in range(REPEATS):
        begun = time.perf_counter()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        times.append(time.perf_counter() - begun)
        printed = done.stdout
    return statistics.median(times), printed


def live_files(table: Path) -> list[str]:
    """The files of the newest version, by the log of the table."""
    live: dict[str, None] = {}
    for entry in sorted((table / "_delta_log").glob("*.json")):
        for line in entry.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                live[action["add"]["path"]] = None
            if "remove" in action:
                live.pop(action["remove"]["path"], None)
    return [str(table / path) for path in live]


def with_duckdb(lake: Path, threads: int) -> tuple[float, list[tuple[object, ...]]] | None:
    try:
        import duckdb
    except ImportError:
        return None
    connection = duckdb.connect(config={"threads": threads})
    statement = SCAN.replace("FROM samples", f"FROM read_parquet({live_files(lake / 'samples')!r})")
    times, rows = [], []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        rows = connection.execute(statement).fetchall()
        times.append(time.perf_counter() - begun)
    return statistics.median(times), rows


def numbers(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [
        tuple(round(cell, 3) if isinstance(cell, float) else cell for cell in row) for row in rows
    ]


def on_workers(
    options: argparse.Namespace, lake: Path, workers: int, expected: str
) -> dict[str, float]:
    """The scan and the diagnosis of one job on workers of the same size."""
    command = [options.program, "cluster", "--at", str(lake), "--workers", str(workers)]
    command += ["--threads", str(options.threads)]
    cluster = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert cluster.stdout
        engine = ["--at", str(lake), "--engine", cluster.stdout.readline().strip()]
        scan_s, printed = timed([options.program, "sql", SCAN, "--csv", *engine])
        if printed != expected:
            raise SystemExit(f"{workers} workers give other rows than one process")
        took = {"scan_s": round(scan_s, 3)}
        if options.diagnose:
            diagnose = [options.program, "diagnose", "--job-id", "job-0", "--json", *engine]
            took["diagnose_s"] = round(timed(diagnose)[0], 3)
    finally:
        cluster.terminate()
        cluster.wait()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=str(RELEASE / "stormlog-lake"))
    parser.add_argument("--generator", default=str(RELEASE / "examples/generate_fleet"))
    parser.add_argument("--samples", type=int, default=200_000_000)
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--large-job", type=int, default=256, help="ranks of a large job")
    parser.add_argument("--jobs", type=int, default=1, help="jobs that one command ingests")
    parser.add_argument("--parallel", type=int, default=4, help="ingests at a time")
    parser.add_argument("--threads", type=int, default=4, help="threads of a worker")
    parser.add_argument(
        "--diagnose", action="store_true", help="measure the diagnosis of one job too"
    )
    parser.add_argument(
        "--folder", type=Path, help="where to work; a temporary directory unless given"
    )
    parser.add_argument("--keep", action="store_true", help="keep the lake, and print where it is")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(dir=options.folder))
    lake = work / "lake"
    report: dict[str, object] = {
        "cores": os.cpu_count(),
        "ranks": options.ranks,
        "jobs": options.jobs,
    }
    report["parallel"] = options.parallel
    try:
        ingest = Ingest(options, lake, work)
        begun = time.perf_counter()
        # The first ingest creates the tables.
        ingest.ingest(0)
        with ThreadPoolExecutor(options.parallel) as pool:
            list(pool.map(ingest.ingest, range(options.jobs, len(ingest.jobs), options.jobs)))
        stored = {
            table.name: sum(Path(file).stat().st_size for file in live_files(table))
            for table in sorted(lake.iterdir())
        }
        count = [options.program, "sql", "SELECT count(*) FROM samples", "--csv", "--at", str(lake)]
        samples = int(timed(count)[1].split()[-1])
        report["ingest"] = {
            "samples": samples,
            "source_bytes": ingest.source_bytes,
            "with_generation_s": round(time.perf_counter() - begun, 1),
            "cpu_s": round(sum(ingest.cpu_s), 1),
            "samples_per_core_s": round(samples / sum(ingest.cpu_s)),
            **parts(ingest, samples),
            "peak_anonymous_mib": round(max(ingest.peak_anonymous_mib)),
            "stored_bytes": stored,
            "bytes_per_sample": round(stored["samples"] / samples, 2),
            "files_of_samples": len(live_files(lake / "samples")),
        }
        print(json.dumps(report["ingest"]), file=sys.stderr, flush=True)
        at = ["--at", str(lake)]
        fleet = {
            name: timed([options.program, *arguments, "--json", *at])
            for name, arguments in FLEET.items()
        }
        report["fleet_questions_s"] = {
            name: round(seconds, 3) for name, (seconds, _) in fleet.items()
        }
        report["fleet_rows"] = {
            name: len(json.loads(printed)) for name, (_, printed) in fleet.items()
        }
        scan_s, printed = timed([options.program, "sql", SCAN, "--csv", *at])
        scan: dict[str, object] = {"stormlog_s": round(scan_s, 3)}
        theirs = with_duckdb(lake, os.cpu_count() or 1)
        if theirs:
            ours = json.loads(timed([options.program, "sql", SCAN, "--json", *at])[1])
            columns = ("host", "rank", "samples", "least", "most", "used", "unused")
            same = numbers([tuple(row[name] for name in columns) for row in ours]) == numbers(
                theirs[1]
            )
            scan |= {
                "duckdb_s": round(theirs[0], 3),
                "ratio": round(scan_s / theirs[0], 2),
                "same_rows": same,
            }
        report["full_scan"] = scan
        print(json.dumps([report["fleet_questions_s"], scan]), file=sys.stderr, flush=True)
        if options.diagnose:
            diagnose = [options.program, "diagnose", "--job-id", "job-0", "--json", *at]
            report["diagnose_one_job_s"] = round(timed(diagnose)[0], 3)
        report["workers"] = {
            str(workers): on_workers(options, lake, workers, printed) for workers in (1, 2, 4)
        }
    finally:
        if options.keep:
            print(f"the lake is {lake}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
