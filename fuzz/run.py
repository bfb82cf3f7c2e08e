"""Fuzzes one target for a time and prints what was done as JSON: ``python fuzz/run.py loaders``.

Builds the target with a nightly compiler, with the instrumentation that cargo-fuzz uses and without
needing cargo-fuzz. Starts from the kept corpus and the fixtures. Exits with 1 when an input was found
that panics, hangs or takes too much memory; it is in ``fuzz/artifacts``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

FUZZ = Path(__file__).resolve().parent
TARGETS = ("json", "record", "loaders", "pickle", "secrets")
TRIPLE = "x86_64-unknown-linux-gnu"
COVERAGE = ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")


def build(target: str) -> Path:
    flags = ["-Cpasses=sancov-module", "--cfg", "fuzzing", "-Ccodegen-units=1"]
    flags += [f"-Cllvm-args=-sanitizer-coverage-{option}" for option in COVERAGE]
    command = ["cargo", "+nightly", "build", "--release", "--target", TRIPLE, "--bin", target]
    command += ["--manifest-path", str(FUZZ / "Cargo.toml")]
    subprocess.run(command, check=True, env={**os.environ, "RUSTFLAGS": " ".join(flags)})
    return FUZZ / "target" / TRIPLE / "release" / target


def fuzz(program: Path, target: str, seconds: int) -> subprocess.CompletedProcess[str]:
    corpus, artifacts = FUZZ / "corpus" / target, FUZZ / "artifacts" / target
    corpus.mkdir(parents=True, exist_ok=True)
    artifacts.mkdir(parents=True, exist_ok=True)
    options = ["-max_len=4096", "-rss_limit_mb=2048", "-timeout=10", "-print_final_stats=1"]
    options += [f"-max_total_time={seconds}", f"-artifact_prefix={artifacts}/"]
    return subprocess.run([program, *options, corpus], stderr=subprocess.PIPE, text=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=600)
    options = parser.parse_args()
    program = build(options.target)
    if not (FUZZ / "corpus" / options.target).is_dir():
        subprocess.run([sys.executable, FUZZ / "seed.py"], check=True)
    begun = time.monotonic()
    done = fuzz(program, options.target, options.seconds)
    took = time.monotonic() - begun
    executions = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    count = int(executions[1]) if executions else None
    report = {
        "target": options.target,
        "seconds": round(took),
        "executions": count,
        "per_second": None if count is None else round(count / took),
        "found": done.returncode != 0,
    }
    if done.returncode:
        sys.stderr.write(done.stderr[-4000:])
    print(json.dumps(report))
    sys.exit(int(done.returncode != 0))


if __name__ == "__main__":
    main()
