"""Load the same sink with ours, stormlog 0.3.9, DuckDB and Polars; print ratios and memory.

    python benches/speed/compare_load.py [--events 1000000] [--ranks 8 64] [--rounds 3]

Every contender runs in a process of its own; rounds alternate between them, and the
median of each is compared. Memory is the peak resident size less that after the imports.
Stormlog 0.3.9 loads a tenth of the events, and its time and memory are scaled to all of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from make_sink import write_sink

ROOT = Path(__file__).resolve().parents[2]

MEASURE = """
import json, resource, sys, time
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
path = sys.argv[1]
{imports}
before = peak()
start = time.perf_counter()
{work}
seconds = time.perf_counter() - start
print(json.dumps({{"seconds": seconds, "bytes": peak() - before, "events": events}}))
"""

CONTENDERS = {
    "ours, Python": (
        "from stormlog.telemetry import load_telemetry_sessions",
        "events = sum(len(s.events) for s in load_telemetry_sessions(path))",
    ),
    "reference": (
        "from stormlog.telemetry import load_telemetry_sessions",
        "events = sum(len(s.events) for s in load_telemetry_sessions(path))",
    ),
    "DuckDB": (
        "import duckdb",
        "con = duckdb.connect()\n"
        'con.execute(f"create table t as select * from '
        "read_json('{path}/segment-*.jsonl', format='newline_delimited')\")\n"
        "events = con.execute('select count(*) from t').fetchone()[0]",
    ),
    "Polars": (
        "import polars",
        "events = polars.scan_ndjson(f'{path}/segment-*.jsonl').collect().height",
    ),
}


def run_python(name: str, python: Path, path: Path) -> dict[str, float]:
    """One measured load in a fresh interpreter."""
    imports, work = CONTENDERS[name]
    code = MEASURE.format(imports=imports, work=work)
    done = subprocess.run(
        [str(python), "-c", code, str(path)], check=True, capture_output=True, text=True, cwd="/"
    )
    return json.loads(done.stdout)


def run_rust(path: Path) -> dict[str, float]:
    """One measured load by the Rust library alone."""
    program = ROOT / "target" / "release" / "examples" / "load_sink"
    done = subprocess.run([str(program), str(path)], check=True, capture_output=True, text=True)
    result = json.loads(done.stdout)
    return {"seconds": result["seconds"], "bytes": result["peak_bytes"], "events": result["events"]}


def reference_python() -> Path:
    """An interpreter with stormlog 0.3.9, made where it is missing."""
    folder = ROOT / ".venv-reference"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "stormlog==0.3.9"], check=True)
    return python


def compare(events: int, ranks: int, rounds: int, scratch: Path) -> None:
    """Measure all contenders on one sink and print the table."""
    whole, tenth = scratch / f"whole-{ranks}", scratch / f"tenth-{ranks}"
    write_sink(whole, events, ranks)
    write_sink(tenth, events // 10, ranks)
    size = sum(file.stat().st_size for file in whole.glob("segment-*.jsonl"))
    ours, reference = Path(sys.executable), reference_python()
    measured: dict[str, list[dict[str, float]]] = {}
    for _ in range(rounds):
        measured.setdefault("ours, Rust", []).append(run_rust(whole))
        for name in ("ours, Python", "DuckDB", "Polars"):
            measured.setdefault(name, []).append(run_python(name, ours, whole))
        measured.setdefault("reference", []).append(run_python("reference", reference, tenth))
    loaded = {name: {row["events"] for row in rows} for name, rows in measured.items()}
    part = loaded.pop("reference").pop()
    (all_events,) = set.union(*loaded.values())

    def median(name: str, key: str) -> float:
        scale = all_events / part if name == "reference" else 1
        return scale * statistics.median(row[key] for row in measured[name])

    print(f"\n{events:,} events of {ranks} ranks, {size / 1e6:.0f} MB\n")
    print(
        "| contender | seconds | times slower than ours in Python | peak memory, MB | share of stormlog 0.3.9's |"
    )
    print("|---|---|---|---|---|")
    base = median("ours, Python", "seconds")
    reference_bytes = median("reference", "bytes")
    for name in ("ours, Rust", "ours, Python", "DuckDB", "Polars", "reference"):
        seconds, memory = median(name, "seconds"), median(name, "bytes")
        print(
            f"| {name} | {seconds:.3f} | {seconds / base:.1f} | {memory / 1e6:.0f} | {memory / reference_bytes:.2f} |"
        )
    duckdb = median("DuckDB", "seconds") / median("ours, Rust", "seconds")
    print(f"\nreference / ours in Python: {median('reference', 'seconds') / base:.0f}")
    print(f"DuckDB / ours in Rust: {duckdb:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    subprocess.run(
        ["cargo", "build", "-q", "--release", "-p", "stormlog-analysis", "--examples"],
        check=True,
        cwd=ROOT,
    )
    scratch = Path(tempfile.mkdtemp(prefix="stormlog-compare-"))
    try:
        for ranks in options.ranks:
            compare(options.events, ranks, options.rounds, scratch)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
