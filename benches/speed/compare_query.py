"""Ask the same questions of ours, stormlog 0.3.9 and DuckDB; print ratios, CPU time and memory.

    python benches/speed/compare_query.py [--events 1000000] [--rounds 20] [--sink DIRECTORY]

Needs an interpreter with the release build of ours and with duckdb, and the release program
(`cargo build --release -p stormlog`). Stormlog 0.3.9 is asked in full, once cold and once
with its events in memory, which is how it caches; so are we. Questions that take less than
half a second are asked `--rounds` times and the best of them counts, on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare_load import reference_python
from make_sink import write_sink

ROOT = Path(__file__).resolve().parents[2]

METRICS = [
    "session_count_by_status",
    "peak_allocator_allocated_bytes",
    "peak_allocator_reserved_bytes",
    "peak_device_used_bytes",
    "alert_count",
    "collector_degradation_transitions",
    "interrupted_sessions_with_oom_bundles",
    "hidden_memory_gap_growth",
]

# In one process: the first question loads the events, the others find them in memory.
IN_PROCESS = """
import json, resource, sys, time
import stormlog.query as query
path, rounds, metrics = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
store = query.open([path])
measured = {}
def ask(name, question, times):
    best = None
    for _ in range(times):
        start = time.perf_counter()
        answer = question()
        took = time.perf_counter() - start
        best = took if best is None else min(best, took)
        if took > 0.5:
            break
    measured[name] = best
    return answer
ask("first summary, cold", lambda: store.summarize("peak_device_used_bytes"), 1)
for metric in metrics:
    ask(metric, lambda: store.summarize(metric), rounds)
ask("list_issues", store.list_issues, rounds)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps({"seconds": measured, "bytes": peak * 1024}))
"""

DUCKDB = """
import json, sys, time
import duckdb
start = time.perf_counter()
rows = duckdb.sql(f"select session_id, rank, max(device_used_bytes) from "
    f"read_json('{sys.argv[1]}/segment-*.jsonl', format='newline_delimited', "
    "columns={session_id: 'VARCHAR', rank: 'BIGINT', device_used_bytes: 'BIGINT'}) group by all").fetchall()
print(json.dumps({"seconds": time.perf_counter() - start, "rows": len(rows)}))
"""

ROLLUP = """
import json, sys, time
import stormlog.query as query
best = {}
for _ in range(5):
    store = query.open([sys.argv[1]])
    for metric in ("peak_device_used_bytes", "alert_count"):
        start = time.process_time()
        store.summarize(metric)
        took = time.process_time() - start
        best[metric] = min(took, best.get(metric, took))
    start = time.process_time()
    query.open([sys.argv[1]]).summarize("hidden_memory_gap_growth", group_by="session-rank")
    took = time.process_time() - start
    best["hidden_memory_gap_growth"] = min(took, best.get("hidden_memory_gap_growth", took))
print(json.dumps(best))
"""


def python(interpreter: Path | str, code: str, *arguments: str) -> dict[str, object]:
    """What a program in an interpreter of its own prints."""
    command = [str(interpreter), "-c", code, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/")
    return json.loads(done.stdout)


def timed(command: list[str], rounds: int) -> tuple[float, float]:
    """The best wall time of a command, and the CPU time that all rounds took each."""
    best = None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took = time.perf_counter() - start
        best = took if best is None else min(best, took)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return best or 0.0, cpu / rounds


def write_rollups(reference: Path, sink: Path) -> None:
    """Rollups of a sink, by stormlog 0.3.9, so that neither side reads its own."""
    code = """
import sys
from stormlog.telemetry import load_telemetry_sessions
from stormlog.telemetry_rollups import build_telemetry_rollups, write_telemetry_rollups
from stormlog.telemetry_sink import read_telemetry_sink_manifest
path = sys.argv[1]
write_telemetry_rollups(path, build_telemetry_rollups(load_telemetry_sessions(path), read_telemetry_sink_manifest(path)))
print("{}")
"""
    python(reference, code, str(sink))


def many_sinks(folder: Path, sinks: int) -> None:
    """Sinks of four sessions each, and an OOM bundle for every tenth."""
    for number in range(sinks):
        directory = folder / f"sink-{number:04d}"
        directory.mkdir(parents=True)
        sessions = [
            {
                "session_id": f"s{number}-{place}",
                "status": "completed",
                "started_at_ns": number,
                "ended_at_ns": number + 1,
                "host": "node",
                "pid": 1,
                "job_id": None,
                "rank": 0,
                "local_rank": 0,
                "world_size": 1,
                "source": "stormlog.tracker",
            }
            for place in range(4)
        ]
        segments = [
            {
                "filename": f"segment-{place + 1:06d}.jsonl",
                "event_count": 1,
                "size_bytes": 1,
                "closed": True,
                "session_id": f"s{number}-{place}",
            }
            for place in range(4)
        ]
        for segment in segments:
            (directory / str(segment["filename"])).write_text("\n")
        manifest = {
            "schema_version": 2,
            "format": "stormlog.append_only_telemetry_sink",
            "sessions": sessions,
            "segments": segments,
        }
        (directory / "manifest.json").write_text(json.dumps(manifest))
        if number % 10 == 0:
            bundle = folder / f"oom-{number:04d}"
            bundle.mkdir()
            (bundle / "manifest.json").write_text(
                json.dumps(
                    {
                        "schema_version": 2,
                        "bundle_name": bundle.name,
                        "reason": "r",
                        "backend": "cuda",
                        "created_at_utc": "2026-11-01T00:00:00Z",
                        "event_count": 1,
                        "session_id": f"s{number}-0",
                        "session_status": None,
                        "session": None,
                        "files": [],
                    }
                )
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sink", type=Path, help="a sink made before, without rollups")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="stormlog-query-"))
    program = str(ROOT / "target" / "release" / "stormlog")
    reference = Path(os.environ.get("STORMLOG_REFERENCE") or reference_python())
    try:
        sink = options.sink or scratch / "sink"
        if options.sink is None:
            write_sink(sink, options.events, 8)
        print("| question | reference, s | ours, s | times faster |")
        print("|---|---|---|---|")

        def row(name: str, theirs: float, ours: float) -> None:
            print(f"| {name} | {theirs:.4f} | {ours:.4f} | {theirs / ours:.0f} |", flush=True)

        question = ["query", "sessions", str(sink), "--json"]
        theirs, _ = timed([str(reference.parent / "stormlog"), *question], options.rounds)
        ours, _ = timed([program, *question], options.rounds)
        row("`stormlog query sessions`, start to answer", theirs, ours)
        arguments = (str(sink), str(options.rounds), json.dumps(METRICS))
        one = python(sys.executable, IN_PROCESS, *arguments)
        other = python(reference, IN_PROCESS, *arguments)
        for name, seconds in other["seconds"].items():
            row(name, seconds, one["seconds"][name])
        print(f"\nmemory: {one['bytes'] / other['bytes']:.3f} of stormlog 0.3.9's")

        fast = min(
            timed(
                [
                    program,
                    "query",
                    "summary",
                    str(sink),
                    "--metric",
                    "peak_device_used_bytes",
                    "--group-by",
                    "session-rank",
                    "--json",
                ],
                1,
            )[0]
            for _ in range(3)
        )
        duckdb = min(float(python(sys.executable, DUCKDB, str(sink))["seconds"]) for _ in range(3))
        print(f"DuckDB / ours, peak per session and rank from cold: {duckdb / fast:.2f}")

        with_rollups = scratch / "with-rollups"
        shutil.copytree(sink, with_rollups)
        write_rollups(reference, with_rollups)
        for metric, seconds in python(sys.executable, ROLLUP, str(with_rollups)).items():
            print(f"fresh rollup, {metric}: {1000 * float(str(seconds)):.2f} ms of CPU time")

        for sinks in (125, 250, 500):
            folder = scratch / f"many-{sinks}"
            many_sinks(folder, sinks)
            _, cpu = timed([program, "query", "sessions", str(folder), "--json"], 3)
            print(f"{4 * sinks} sessions in {sinks} sinks: {cpu:.3f} s of CPU time")
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
