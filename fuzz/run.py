"""Fuzzes one target for a time and prints what was done as JSON: ``python fuzz/run.py loaders``.

Builds the target with a nightly compiler, with the instrumentation that cargo-fuzz uses and without
needing cargo-fuzz. Starts from the kept corpus and the fixtures. ``--jobs`` runs several fuzzers side by
side, each with a corpus of its own. At the end the new inputs that reach new code are added to
``fuzz/corpus``. Exits with 1 when an input was found that panics, hangs or takes too much memory; it is
in ``fuzz/artifacts``.

For a machine without Rust: copy ``run.py``, ``corpus/TARGET`` and the built program, and run it there
with ``--program PROGRAM --pack FILE``. The file contains the report, the findings and the new inputs.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

FUZZ = Path(__file__).resolve().parent
TARGETS = ("json", "record", "loaders", "pickle", "pack", "secrets")
TRIPLE = "x86_64-unknown-linux-gnu"
COVERAGE = ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")
MEMORY = Path("/dev/shm")
# A job that finds this many inputs finds the same defect again.
MOST_FINDINGS = 20
# Loading every new input once takes seconds; without an end, the result of the jobs would be lost.
MERGE_SECONDS = 120
# How many bytes of inputs a packed file has at most, before compression.
MOST_PACKED_BYTES = 25_000_000


def build(target: str) -> Path:
    flags = ["-Cpasses=sancov-module", "--cfg", "fuzzing", "-Ccodegen-units=1"]
    flags += [f"-Cllvm-args=-sanitizer-coverage-{option}" for option in COVERAGE]
    command = ["cargo", "+nightly", "build", "--release", "--target", TRIPLE, "--bin", target]
    command += ["--manifest-path", str(FUZZ / "Cargo.toml")]
    subprocess.run(command, check=True, env={**os.environ, "RUSTFLAGS": " ".join(flags)})
    return FUZZ / "target" / TRIPLE / "release" / target


@dataclass
class Job:
    """One fuzzer: it continues after a finding until its time is over."""

    program: Path
    corpus: Path
    folder: Path
    max_len: int
    executions: int = 0
    log: str = ""
    findings: list[Path] = field(default_factory=list)

    def fuzz(self, seconds: float) -> None:
        new, found, scratch = (self.folder / name for name in ("new", "found", "scratch"))
        for folder in (new, found, scratch):
            folder.mkdir(parents=True)
        options = [f"-max_len={self.max_len}", "-rss_limit_mb=2048", "-timeout=10"]
        options += ["-print_final_stats=1", f"-artifact_prefix={found}/"]
        end = time.monotonic() + seconds
        while (left := round(end - time.monotonic())) > 0 and len(self.findings) < MOST_FINDINGS:
            command: list[str | Path] = [self.program, *options, f"-max_total_time={left}"]
            command += [new, self.corpus]
            done = subprocess.run(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                cwd=scratch,
                env={**os.environ, "TMPDIR": str(scratch)},
            )
            executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
            self.executions += int(executed[1]) if executed else 0
            if done.returncode == 0:
                break
            self.log += done.stderr[-4000:]
            self.findings = sorted(found.iterdir())
            if executed is None:
                # The fuzzer did not start or was killed, and would be again.
                self.log += f"\nended with {done.returncode} before it reported anything\n"
                break

    @property
    def failed(self) -> bool:
        return bool(self.log)


def merge(program: Path, corpus: Path, jobs: list[Job], scratch: Path) -> list[Path]:
    """Adds the new inputs that reach new code to the corpus; the files that were added."""
    before = set(corpus.iterdir())
    folders = [job.folder / "new" for job in jobs]
    command: list[str | Path] = [program, "-merge=1", "-rss_limit_mb=2048", "-timeout=10"]
    command += [corpus, *folders]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    try:
        subprocess.run(
            command, env=environment, timeout=MERGE_SECONDS, check=True, capture_output=True
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        # Names are hashes of the content.
        for new in (file for folder in folders for file in folder.iterdir()):
            shutil.copyfile(new, corpus / new.name)
    return sorted(set(corpus.iterdir()) - before)


def pack(file: Path, report: dict[str, object], found: list[Path], new: list[Path]) -> None:
    """Writes the report, the findings and the new inputs as a tar file, the smallest inputs first."""
    with tarfile.open(file, "w:gz") as tar:
        text = json.dumps(report, indent=2).encode()
        member = tarfile.TarInfo("report.json")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
        for path in found:
            tar.add(path, f"artifacts/{path.name}")
        size = 0
        for path in sorted(new, key=lambda path: path.stat().st_size):
            size += path.stat().st_size
            if size > MOST_PACKED_BYTES:
                break
            tar.add(path, f"corpus/{path.name}")


def fuzz(program: Path, options: argparse.Namespace, root: Path) -> dict[str, object]:
    corpus, artifacts = FUZZ / "corpus" / options.target, FUZZ / "artifacts" / options.target
    artifacts.mkdir(parents=True, exist_ok=True)
    # Every second job tries short inputs only: these are faster, and long ones reach more.
    jobs = [
        Job(program, corpus, root / f"job-{number}", options.max_len // (4 if number % 2 else 1))
        for number in range(options.jobs)
    ]
    begun = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda job: job.fuzz(options.seconds), jobs))
    took = time.monotonic() - begun
    found = [Path(shutil.copy(path, artifacts)) for job in jobs for path in job.findings]
    new = merge(program, corpus, jobs, root)
    executions = [job.executions for job in jobs]
    report: dict[str, object] = {
        "target": options.target,
        "seconds": round(took),
        "jobs": executions,
        "executions": sum(executions),
        "per_second": round(sum(executions) / took),
        "new_inputs": len(new),
        "findings": sorted({path.name for path in found}),
        "found": any(job.failed for job in jobs),
    }
    for job in jobs:
        sys.stderr.write(job.log)
    if options.pack:
        pack(options.pack, report, found, new)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--jobs", type=int, default=1, help="fuzzers that run side by side")
    parser.add_argument("--max-len", type=int, default=4096, help="the longest input in bytes")
    parser.add_argument("--program", type=Path, help="a built target; nothing is built")
    parser.add_argument("--pack", type=Path, help="write report, findings and new inputs here")
    options = parser.parse_args()
    program = (options.program or build(options.target)).resolve()
    if not (FUZZ / "corpus" / options.target).is_dir():
        subprocess.run([sys.executable, FUZZ / "seed.py"], check=True, stdout=sys.stderr)
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="stormlog-fuzz-") as root:
        report = fuzz(program, options, Path(root))
    print(json.dumps(report))
    sys.exit(int(bool(report["found"])))


if __name__ == "__main__":
    main()
