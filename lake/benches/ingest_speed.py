"""Samples per second and core, bytes per sample and peak anonymous memory of an ingest.

    python lake/benches/ingest_speed.py [--program lake/target/release/stormlog-lake] [--samples 2000000]

Needs the PyPI package pyarrow. Real recordings (fixtures/ and --recordings) give the bytes per sample: they are small, so each is repeated
under other session ids and times until there are --samples of them. Prints JSON. Build for release first;
a debug build is several tens of times slower.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import resource
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pyarrow

LAKE = Path(__file__).resolve().parent.parent
ROOT = LAKE.parent
SESSION = re.compile(rb'"session_id": "[^"]*"')
TIME = re.compile(rb'"timestamp_ns": (\d+)')
YEAR_NS = 31_536_000_000_000_000


def text_of(file: Path) -> bytes:
    if file.suffix == ".gz":
        return gzip.decompress(file.read_bytes())
    if file.suffix == ".zst":
        with pyarrow.input_stream(str(file), compression="zstd") as stream:
            return stream.read()
    return file.read_bytes()


def recordings(folders: list[Path]) -> list[list[bytes]]:
    """The lines of each file of events."""
    found = []
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if not any(part in file.name for part in (".jsonl", ".ndjson")) or not file.is_file():
                continue
            try:
                lines = [
                    line
                    for line in text_of(file).splitlines()
                    if TIME.search(line) and SESSION.search(line)
                ]
            except OSError:
                continue
            if len(lines) > 50:
                found.append(lines)
    return found


def repeat(found: list[list[bytes]], samples: int, folder: Path) -> tuple[int, int]:
    """Writes recordings until there are enough samples; gives samples and bytes."""
    folder.mkdir(parents=True)
    count = size = turn = 0
    while count < samples:
        for place, lines in enumerate(found):
            session = b'"session_id": "bench-%d-%d"' % (turn, place)
            shift = turn * 3_600_000_000_000 % YEAR_NS
            path = folder / f"track-{turn:05d}-{place:04d}.jsonl"
            with path.open("wb") as out:
                for line in lines:
                    line = SESSION.sub(session, line, count=1)
                    line = TIME.sub(
                        lambda at: b'"timestamp_ns": %d' % (int(at[1]) + shift), line, count=1
                    )
                    count += b'"event_type": "sample"' in line
                    out.write(line + b"\n")
            size += path.stat().st_size
            if count >= samples:
                break
        turn += 1
    return count, size


def one_file(folder: Path) -> None:
    """All recordings as one file of lines, as a log shipper leaves them."""
    with (folder / "all.jsonl").open("wb") as out:
        for file in sorted(folder.glob("track-*.jsonl")):
            out.write(file.read_bytes())
            file.unlink()


def one_folder_each(folder: Path) -> None:
    """Each recording in a folder of its own, so that an ingest analyzes each as a run."""
    for file in sorted(folder.glob("track-*.jsonl")):
        run = folder / file.stem
        run.mkdir()
        file.rename(run / file.name)


def measure(command: list[str]) -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = [0]

    def watch() -> None:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            try:
                anonymous = re.search(r"RssAnon:\s+(\d+)", status.read_text())
            except OSError:
                return
            if anonymous:
                peak[0] = max(peak[0], int(anonymous[1]))
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    wall = time.perf_counter() - start
    watcher.join()
    if code != 0:
        raise SystemExit(f"the ingest failed with {code}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": wall, "cpu_s": cpu, "peak_anonymous_mib": peak[0] / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=str(LAKE / "target/release/stormlog-lake"))
    parser.add_argument("--samples", type=int, default=2_000_000)
    parser.add_argument("--recordings", type=Path, action="append", default=[])
    parser.add_argument(
        "--files",
        choices=["one", "many", "runs"],
        default="one",
        help="one file; many in one folder, which is too large to be analyzed; or each in its own",
    )
    arguments = parser.parse_args()
    folders = [ROOT / "fixtures/recordings", ROOT / "fixtures/causes", *arguments.recordings]
    found = recordings(folders)
    with tempfile.TemporaryDirectory() as folder:
        runs, lake = Path(folder, "runs"), Path(folder, "lake")
        samples, size = repeat(found, arguments.samples, runs)
        if arguments.files == "one":
            one_file(runs)
        elif arguments.files == "runs":
            one_folder_each(runs)
        result = measure([arguments.program, "ingest", str(runs), "--to", str(lake)])
        stored = {
            table.name: sum(file.stat().st_size for file in table.rglob("*.parquet"))
            for table in sorted(lake.iterdir())
        }
        print(
            json.dumps(
                {
                    "program": arguments.program,
                    "files": arguments.files,
                    "recordings": len(found),
                    "samples": samples,
                    "source_bytes": size,
                    **{k: round(v, 3) for k, v in result.items()},
                    "samples_per_core_s": round(samples / result["cpu_s"]),
                    "samples_per_s": round(samples / result["wall_s"]),
                    "bytes_per_sample": round(stored["samples"] / samples, 2),
                    "stored_bytes": stored,
                },
                indent=2,
            )
        )


if __name__ == "__main__":
    main()
