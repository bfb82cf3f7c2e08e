"""Runs every reading command on hostile and enormous inputs, each in a process of its own.

    hostile_inputs.py [--quick] [--only WORD] [--json] [--dir DIR] [--program WORD ...]

A cell is one input and one command. It fails when the process needs more than 400 MB of memory,
more than 64 MB of temporary files or more than 30 s, when it panics, when it ends with another
code than 0, 1 or 2, when its error does not name the input, or when it leaves temporary files.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

MOST_MEMORY_MB = 400
MOST_TEMPORARY_MB = 64
MOST_SECONDS = 30.0
# The address space of a command that fails is limited, so that it does not take the machine down.
MOST_ADDRESSES = 12 << 30

ROOT = Path(__file__).resolve().parents[2]
GIB = 1 << 30
MIB = 1 << 20


# A valid event of a rank on a GPU.
EVENT = json.loads((ROOT / "fixtures/runs/two_ranks/segment-000001.jsonl").open().readline())


def event(**fields: object) -> str:
    """A line with an event of the current format."""
    return json.dumps({**EVENT, **fields}) + "\n"


def zstd(content: bytes) -> bytes:
    """The content as the program `zstd` compresses it."""
    command = ["zstd", "-q", "-19", "-c"]
    return subprocess.run(command, input=content, capture_output=True, check=True).stdout


def sparse(path: Path, size: int, start: bytes = b"") -> None:
    """A file of which only the first bytes take room on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)


def repeated(text: str, size: int) -> bytes:
    return (text * (size // len(text) + 1)).encode()


def pack_of(members: dict[str, bytes], declared: tuple[int, int] | None = None) -> bytes:
    """A pack as `stormlog pack` writes it, with any members."""
    files, size = declared or (len(members), sum(map(len, members.values())))
    header = {"format": "stormlog-pack", "version": 1, "files": files, "bytes": size}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in {"stormlog-pack.json": json.dumps(header).encode(), **members}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return zstd(stream.getvalue())


def write(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


SHORT = '{"timestamp":1},'
MANIFEST = {"schema_version": 1, "format": "jsonl", "segments": [], "sessions": []}


# Inputs: each function writes one and returns its path.

INPUTS: dict[str, Callable[[Path], Path]] = {}
QUICK: set[str] = set()


def an_input(quick: bool = False) -> Callable[[Callable[[Path], Path]], Callable[[Path], Path]]:
    def add(make: Callable[[Path], Path]) -> Callable[[Path], Path]:
        INPUTS[make.__name__] = make
        if quick:
            QUICK.add(make.__name__)
        return make

    return add


@an_input(quick=True)
def pack_with_zstd_bomb(at: Path) -> Path:
    inner = zstd(repeated(event(), 200 * MIB))
    write(at / "bomb.stormlog", pack_of({"track.jsonl.zst": inner}))
    return at / "bomb.stormlog"


@an_input(quick=True)
def pack_with_gzip_bomb(at: Path) -> Path:
    inner = gzip.compress(b"[" + repeated(SHORT, 200 * MIB))
    write(at / "bomb.stormlog", pack_of({"track.json.gz": inner}))
    return at / "bomb.stormlog"


@an_input()
def pack_with_many_bombs(at: Path) -> Path:
    inner = zstd(repeated(event(), 15 * MIB))
    members = {f"track-{index}.jsonl.zst": inner for index in range(200)}
    write(at / "bombs.stormlog", pack_of(members))
    return at / "bombs.stormlog"


@an_input()
def pack_that_expands(at: Path) -> Path:
    write(at / "expands.stormlog", pack_of({"track.jsonl": repeated(event(), 240 * MIB)}))
    return at / "expands.stormlog"


@an_input(quick=True)
def pack_of_packs(at: Path) -> Path:
    content = pack_of({"track.jsonl": bytes(240 * MIB)})
    for _ in range(2):
        content = pack_of({"inner.stormlog": content})
    write(at / "nested.stormlog", content)
    return at / "nested.stormlog"


@an_input(quick=True)
def folder_of_packs(at: Path) -> Path:
    for index in range(6):
        content = repeated(event(session_id=f"s{index}"), 30 * MIB)
        write(at / f"folder/{index}.stormlog", pack_of({"track.jsonl": content}))
    return at / "folder"


@an_input()
def pack_of_many_files(at: Path) -> Path:
    members = {f"d{index % 100}/track-{index}.jsonl": b"{}\n" for index in range(20_000)}
    write(at / "many.stormlog", pack_of(members))
    return at / "many.stormlog"


@an_input(quick=True)
def truncated_pack(at: Path) -> Path:
    content = pack_of({"track.jsonl": event().encode() * 1000})
    write(at / "cut.stormlog", content[: len(content) // 2])
    return at / "cut.stormlog"


@an_input(quick=True)
def pack_of_wrong_magic(at: Path) -> Path:
    write(at / "wrong.stormlog", b"PK\x03\x04" + os.urandom(1000))
    return at / "wrong.stormlog"


@an_input()
def pack_that_declares_billions(at: Path) -> Path:
    content = pack_of({"track.jsonl": event().encode()}, (10**18, 10**18))
    write(at / "billions.stormlog", content)
    return at / "billions.stormlog"


def sparse_input(name: str, start: bytes, quick: bool) -> None:
    def make(at: Path) -> Path:
        sparse(at / name, 10 * GIB, start)
        return at / name

    make.__name__ = "sparse_" + name.replace(".", "_")
    an_input(quick)(make)


sparse_input("x.json", b"", True)
sparse_input("object.json", b'{"events": [', False)
sparse_input("list.json", b"[", False)
sparse_input("x.jsonl", b"", True)
sparse_input("event.jsonl", event().encode(), False)
sparse_input("x.csv", b"", True)
sparse_input("rows.csv", b"timestamp,context\n1,a\n", False)
sparse_input("x.pickle", b"", True)
sparse_input("start.pickle", b"\x80\x04}", False)
sparse_input("x.prof", b"", True)
sparse_input("x.stormlog", b"\x28\xb5\x2f\xfd", False)


@an_input(quick=True)
def folder_with_sparse_track(at: Path) -> Path:
    sparse(at / "run/track.json", 4 * GIB)
    sparse(at / "run/track.csv", 4 * GIB)
    write(at / "run/good-track.jsonl", event())
    return at / "run"


@an_input()
def folder_of_many_sparse_files(at: Path) -> Path:
    for index in range(50):
        sparse(at / f"run/track-{index}.json", 4 * GIB, b"[")
        sparse(at / f"run/track-{index}.jsonl", 4 * GIB, event().encode())
    return at / "run"


@an_input()
def sink_with_sparse_files(at: Path) -> Path:
    shutil.copytree(ROOT / "fixtures/runs/two_ranks", at / "sink")
    for name in ("rollups.json", "stormlog_run.json", "stormlog_attachments.json", "issues.json"):
        sparse(at / "sink" / name, 5 * GIB, b'{"a": "')
    sparse(at / "sink/segment-009999.jsonl", 5 * GIB, event().encode())
    return at / "sink"


@an_input(quick=True)
def sink_with_sparse_manifest(at: Path) -> Path:
    sparse(at / "sink/manifest.json", 5 * GIB, b"{")
    write(at / "sink/segment-000001.jsonl", event())
    return at / "sink"


@an_input()
def oom_bundle_with_sparse_events(at: Path) -> Path:
    manifest = {"schema_version": 1, "bundle_type": "oom", "reason": "x", "files": ["events.json"]}
    write(at / "oom_dump_1/manifest.json", json.dumps(manifest))
    sparse(at / "oom_dump_1/events.json", 5 * GIB, b"[")
    sparse(at / "oom_dump_1/metadata.json", 5 * GIB, b"{")
    sparse(at / "oom_dump_1/environment.json", 5 * GIB, b"{")
    return at / "oom_dump_1"


@an_input()
def timeline_that_is_sparse(at: Path) -> Path:
    sparse(at / "bundle/telemetry_timeline.json", 5 * GIB, b'{"timestamps": [')
    return at / "bundle"


@an_input()
def json_gz_bomb(at: Path) -> Path:
    write(at / "track.json.gz", gzip.compress(b"[" + repeated(SHORT, 300 * MIB)))
    return at / "track.json.gz"


@an_input(quick=True)
def jsonl_zst_bomb(at: Path) -> Path:
    write(at / "track.jsonl.zst", zstd(repeated(event(), 300 * MIB)))
    return at / "track.jsonl.zst"


@an_input()
def csv_zst_bomb(at: Path) -> Path:
    content = b"timestamp,context\n" + repeated("1,a\n", 300 * MIB)
    write(at / "track.csv.zst", zstd(content))
    return at / "track.csv.zst"


@an_input(quick=True)
def folder_of_bombs(at: Path) -> Path:
    content = zstd(repeated(event(), 15 * MIB))
    for index in range(200):
        write(at / f"bombs/track-{index}.jsonl.zst", content)
    return at / "bombs"


@an_input()
def sink_of_bombs(at: Path) -> Path:
    shutil.copytree(ROOT / "fixtures/runs/two_ranks", at / "sink")
    content = zstd(repeated(event(), 15 * MIB))
    for index in range(100):
        write(at / f"sink/segment-{index + 100:06}.jsonl.zst", content)
    return at / "sink"


@an_input(quick=True)
def deeply_nested_json(at: Path) -> Path:
    write(at / "deep.json", '{"events": ' + "[" * 3_000_000)
    return at / "deep.json"


@an_input()
def deeply_nested_lines(at: Path) -> Path:
    line = '{"timestamp": 1, "metadata": ' + '{"a":' * 500_000 + "\n"
    write(at / "deep.jsonl", line * 4)
    return at / "deep.jsonl"


@an_input()
def line_of_70_mib(at: Path) -> Path:
    write(at / "long.jsonl", event() + "x" * (70 * MIB) + "\n" + event())
    return at / "long.jsonl"


@an_input(quick=True)
def line_of_many_values(at: Path) -> Path:
    values = ",".join(["0"] * (30 * MIB))
    write(at / "values.jsonl", event()[:-2] + f', "metadata": {{"a": [{values}]}}}}\n' + event())
    return at / "values.jsonl"


@an_input()
def lines_of_many_values(at: Path) -> Path:
    values = "[],0,{}," * MIB + "0"
    write(at / "values.jsonl", (event()[:-2] + f', "metadata": {{"a": [{values}]}}}}\n') * 8)
    return at / "values.jsonl"


@an_input()
def manifest_of_many_values(at: Path) -> Path:
    write(at / "sink/manifest.json", '{"segments": [' + ",".join(["0"] * (30 * MIB)) + "]}")
    write(at / "sink/segment-000001.jsonl", event())
    return at / "sink"


@an_input()
def document_of_many_values(at: Path) -> Path:
    write(at / "track.json", '{"events": [' + ",".join(["{}"] * (15 * MIB)) + "]}")
    return at / "track.json"


@an_input(quick=True)
def document_without_events(at: Path) -> Path:
    write(at / "track.json", '{"a": [' + ",".join(["0"] * (40 * MIB)) + "]}")
    return at / "track.json"


@an_input()
def number_of_many_digits(at: Path) -> Path:
    write(at / "track.json", "1" * (100 * MIB))
    return at / "track.json"


@an_input()
def timeline_of_many_values(at: Path) -> Path:
    values = ",".join(["0"] * (20 * MIB))
    write(at / "telemetry_timeline.json", f'{{"timestamps": [{values}], "allocated": [{values}]}}')
    return at / "telemetry_timeline.json"


@an_input(quick=True)
def table_of_many_columns(at: Path) -> Path:
    write(at / "track.csv", "timestamp" + "," * (20 * MIB) + "\n1" + "," * (20 * MIB) + "\n")
    return at / "track.csv"


@an_input()
def row_of_many_cells(at: Path) -> Path:
    write(at / "track.csv", "timestamp,context\n1,a\n1" + "," * (60 * MIB) + "\n")
    return at / "track.csv"


@an_input(quick=True)
def cell_without_end(at: Path) -> Path:
    write(at / "track.csv", 'timestamp,context\n1,"' + "x\n" * (80 * MIB))
    return at / "track.csv"


@an_input()
def folder_of_many_files(at: Path) -> Path:
    for index in range(20_000):
        write(at / f"many/d{index % 50}/track-{index}.jsonl", event(session_id=f"s{index}"))
    return at / "many"


@an_input(quick=True)
def folder_of_many_sinks(at: Path) -> Path:
    manifest = json.dumps(MANIFEST)
    for index in range(2_000):
        write(at / f"many/sink-{index}/manifest.json", manifest)
        write(at / f"many/sink-{index}/segment-000001.jsonl", event(session_id=f"s{index}"))
    return at / "many"


@an_input()
def deep_folders(at: Path) -> Path:
    path = at / "deep"
    path.mkdir(parents=True)
    here = os.open(path, os.O_RDONLY)
    for _ in range(2_000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    write(path / "track.jsonl", event())
    return path


@an_input(quick=True)
def billions_in_counts(at: Path) -> Path:
    shutil.copytree(ROOT / "fixtures/runs/two_ranks", at / "sink")
    path = at / "sink/manifest.json"

    def enlarged(value: object) -> object:
        if isinstance(value, dict):
            return {key: enlarged(item) for key, item in value.items()}
        if isinstance(value, list):
            return [enlarged(item) for item in value]
        is_count = isinstance(value, int) and not isinstance(value, bool) and value != 1
        return 4_000_000_000_000_000 if is_count else value

    write(path, json.dumps(enlarged(json.loads(path.read_text()))))
    return at / "sink"


@an_input(quick=True)
def billions_in_events(at: Path) -> Path:
    line = (ROOT / "fixtures/runs/two_ranks/segment-000001.jsonl").read_text().splitlines()[0]
    lines = []
    for index in range(200):
        record = json.loads(line)
        for key, value in record.items():
            if isinstance(value, int) and not isinstance(value, bool) and key != "schema_version":
                record[key] = 2**62 - index * 2**50 if index % 2 else index * 2_000_000_000
        record["rank"], record["world_size"] = index * 10_000_000, 2**31
        lines.append(json.dumps(record) + "\n")
    write(at / "track.jsonl", "".join(lines))
    return at / "track.jsonl"


@an_input()
def sparse_times(at: Path) -> Path:
    lines = [event(timestamp_ns=index * 10**15) for index in range(9000)]
    write(at / "track.jsonl", "".join(lines))
    return at / "track.jsonl"


@an_input(quick=True)
def many_sessions(at: Path) -> Path:
    lines = (event(session_id=f"session-{index}", rank=index) for index in range(20_000))
    write(at / "track.jsonl", "".join(lines))
    return at / "track.jsonl"


@an_input()
def many_ranks(at: Path) -> Path:
    lines = (
        event(session_id="s", rank=index, world_size=20_000, timestamp_ns=index * 10**9)
        for index in range(20_000)
    )
    write(at / "track.jsonl", "".join(lines))
    return at / "track.jsonl"


@an_input()
def manifest_of_many_segments(at: Path) -> Path:
    segments = [
        {"filename": f"segment-{index:06}.jsonl", "event_count": 2**40} for index in range(200_000)
    ]
    write(at / "sink/manifest.json", json.dumps({**MANIFEST, "segments": segments}))
    write(at / "sink/segment-000001.jsonl", event())
    return at / "sink"


@an_input(quick=True)
def truncated_lines(at: Path) -> Path:
    content = (ROOT / "fixtures/runs/two_ranks/segment-000001.jsonl").read_bytes()
    write(at / "track.jsonl", content[: len(content) * 2 // 3])
    return at / "track.jsonl"


@an_input(quick=True)
def random_bytes(at: Path) -> Path:
    write(at / "track.json", os.urandom(30 * MIB))
    return at / "track.json"


@an_input()
def random_lines(at: Path) -> Path:
    write(at / "track.jsonl", os.urandom(30 * MIB))
    return at / "track.jsonl"


@an_input()
def cut_gzip(at: Path) -> Path:
    content = gzip.compress(event().encode() * 10_000)
    write(at / "track.jsonl.gz", content[: len(content) // 2])
    return at / "track.jsonl.gz"


@an_input(quick=True)
def cyclic_pickle(at: Path) -> Path:
    cycle: dict[str, object] = {"segments": [], "device_traces": [[]]}
    cycle["segments"] = [cycle, cycle]
    cycle["device_traces"] = [cycle["segments"], cycle]
    write(at / "x.pickle", pickle.dumps(cycle))
    return at / "x.pickle"


@an_input(quick=True)
def pickle_that_doubles(at: Path) -> Path:
    value: list[object] = [{"address": 1, "total_size": 2, "blocks": []}]
    for _ in range(60):
        value = [value, value]
    write(at / "x.pickle", pickle.dumps({"segments": value, "device_traces": value}))
    return at / "x.pickle"


@an_input()
def pickle_of_many_values(at: Path) -> Path:
    write(at / "x.pickle", b"\x80\x04(" + b"}" * (50 * MIB) + b".")
    return at / "x.pickle"


@an_input()
def pickle_that_declares_billions(at: Path) -> Path:
    write(at / "x.pickle", b"\x80\x04\x8d" + (2**62).to_bytes(8, "little") + b"x" * 100)
    return at / "x.pickle"


@an_input()
def profile_with_gzip_bomb(at: Path) -> Path:
    write(at / "x.prof", gzip.compress(bytes(300 * MIB)))
    return at / "x.prof"


@an_input()
def profile_of_many_fields(at: Path) -> Path:
    write(at / "x.prof", gzip.compress(b"\x32\x00" + b"\x12\x00\x22\x00\x2a\x00" * (9 * MIB)))
    return at / "x.prof"


# Commands: how each reads an input, with the folder for its output.

GOOD = str(ROOT / "fixtures/runs/two_ranks")

COMMANDS: dict[str, Callable[[str, str], list[str]]] = {
    "show": lambda path, out: ["show", path],
    "analyze": lambda path, out: ["analyze", path],
    "plot": lambda path, out: ["plot", path, "-o", f"{out}/x.html"],
    "plot png": lambda path, out: ["plot", path, "-o", f"{out}/x.png"],
    "compare": lambda path, out: ["compare", GOOD, path],
    "validate": lambda path, out: ["validate", path],
    "convert": lambda path, out: ["convert", path, "/dev/null", "--to", "jsonl", "--force"],
    "pack": lambda path, out: ["pack", path, "-o", f"{out}/x.stormlog"],
    "query runs": lambda path, out: ["query", "runs", path],
    "query attachments": lambda path, out: ["query", "attachments", path],
    "query sessions": lambda path, out: ["query", "sessions", path],
    "query events": lambda path, out: ["query", "events", path, "--limit", "5"],
    "query ooms": lambda path, out: ["query", "ooms", path],
    "query issues": lambda path, out: ["query", "issues", path],
    "query summary": lambda path, out: [
        *["query", "summary", path, "--metric", "peak_device_used_bytes"]
    ],
    "query correlate": lambda path, out: ["query", "correlate", path, "--at-ns", "1500000000"],
    "issues list": lambda path, out: ["issues", "list", path],
    "issues check": lambda path, out: ["issues", "check", path],
    "serve": lambda path, out: ["serve", path, "--listen", "127.0.0.1:0", "--json"],
    "tui": lambda path, out: ["tui", path],
}
QUICK_COMMANDS = {
    *["show", "analyze", "plot", "compare", "validate", "convert", "pack", "query events"],
    *["query sessions", "issues list", "serve"],
}


@dataclass
class Cell:
    """What one command did with one input."""

    input: str
    command: str
    code: int
    seconds: float
    memory_mb: float
    temporary_mb: float
    failures: list[str]


def size_of(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except OSError:
                continue
    return total


class Watched:
    """A process of a command, with what it needed."""

    def __init__(self, command: list[str], folder: Path, terminal: int | None = None) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        self.most_temporary = 0
        environment = {**os.environ, "TMPDIR": str(self.temporary), "HOME": str(folder)}
        environment.pop("STORMLOG_UNPACK_LIMIT", None)
        self.files: list[IO[bytes]] = []

        def stream(name: str) -> int:
            if terminal is not None:
                return terminal
            file = (folder / name).open("w+b")
            self.files.append(file)
            return file.fileno()

        self.start = time.monotonic()
        self.process = subprocess.Popen(
            ["bash", "-c", f'ulimit -v {MOST_ADDRESSES >> 10}; exec "$0" "$@"', *command],
            stdin=terminal if terminal is not None else subprocess.DEVNULL,
            stdout=stream("stdout"),
            stderr=stream("stderr"),
            env=environment,
            cwd=folder,
            start_new_session=True,
        )

    def wait(self, until: float) -> tuple[int, float]:
        """The code and the memory in MB, once it has ended; it is killed at the given time."""
        looked = 0.0
        while True:
            pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
            now = time.monotonic()
            if pid == 0 and now > until:
                os.killpg(self.process.pid, signal.SIGKILL)
                pid, status, used = os.wait4(self.process.pid, 0)
            if pid != 0:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                return self.process.returncode, used.ru_maxrss / 1024
            if now - looked > 0.1:
                self.most_temporary = max(self.most_temporary, size_of(self.temporary))
                looked = time.monotonic()
            time.sleep(0.01)

    def output(self) -> str:
        """What it has printed, at most 100,000 bytes of each stream."""
        texts = []
        for file in self.files:
            file.seek(0)
            texts.append(file.read(100_000).decode(errors="replace"))
            file.close()
        return "".join(texts)


def get(address: str) -> str:
    try:
        with urllib.request.urlopen(address, timeout=MOST_SECONDS) as answer:
            return str(answer.read(4_000_000).decode(errors="replace"))
    except (urllib.error.URLError, OSError, TimeoutError) as error:
        return f"GET failed: {error}"


def visit(watched: Watched, folder: Path) -> list[str]:
    """Opens the pages of a server; what failed."""
    import re

    while "url" not in (line := (folder / "stdout").read_text(errors="replace")):
        if watched.process.poll() is not None or time.monotonic() > watched.start + MOST_SECONDS:
            return []
        time.sleep(0.02)
    document = json.loads(line.splitlines()[0])
    url = document["url"].split("?")[0].rstrip("/")
    until = time.monotonic() + 2
    opened: set[str] = set()
    failures = []
    while time.monotonic() < until:
        pages = {"/", "/metrics", "/issues"}
        listed = get(url + "/")
        pages |= set(re.findall(r'href="(/run/[^"#?]+)"', listed)[:3])
        for page in pages - opened:
            opened.add(page)
            answer = get(url + page)
            if answer.startswith("GET failed") and "HTTP Error 4" not in answer:
                failures.append(f"{page}: {answer}")
        if any(page.startswith("/run/") for page in opened):
            break
        time.sleep(0.2)
    return failures


def measure(
    name: str, path: Path, command: str, program: list[str], folder: Path, most_seconds: float
) -> Cell:
    out = folder / "out"
    out.mkdir(parents=True)
    arguments = [*program, *COMMANDS[command](str(path), str(out))]
    failures: list[str] = []
    terminal = None
    drained = bytearray()
    if command == "tui":
        import fcntl
        import pty
        import struct
        import termios

        leader, terminal = pty.openpty()
        fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

        def drain() -> None:
            try:
                while data := os.read(leader, 1 << 16):
                    drained.extend(data[: max(0, 1_000_000 - len(drained))])
            except OSError:
                return

    watched = Watched(arguments, folder, terminal)
    if terminal is not None:
        os.close(terminal)
        threading.Thread(target=drain, daemon=True).start()

        def leave() -> None:
            for wait in (3.0, 1.0, 1.0):
                time.sleep(wait)
                try:
                    os.write(leader, b"q")
                except OSError:
                    return

        threading.Thread(target=leave, daemon=True).start()
    if command == "serve":
        failures += visit(watched, folder)
        if watched.process.returncode is None:
            watched.process.send_signal(signal.SIGINT)
    code, memory = watched.wait(watched.start + most_seconds + (5 if command == "serve" else 0))
    seconds = time.monotonic() - watched.start
    output = watched.output() if terminal is None else drained.decode(errors="replace")
    if memory > MOST_MEMORY_MB:
        failures.append(f"{memory:.0f} MB of memory")
    if watched.most_temporary > MOST_TEMPORARY_MB << 20:
        failures.append(f"{watched.most_temporary >> 20} MB of temporary files")
    if seconds > most_seconds + (5 if command == "serve" else 0):
        failures.append(f"{seconds:.0f} s")
    elif code not in (0, 1, 2):
        failures.append(f"ended with {code}: {output[-300:]!r}")
    if "panicked at" in output:
        failures.append(f"panicked: {output[output.index('panicked at') :][:300]!r}")
    named = [path.name, path.stem, *(["x.stormlog"] if command == "pack" else [])]
    if code == 1 and terminal is None and not any(name in output for name in named):
        failures.append(f"the error does not name the input: {output[-300:]!r}")
    left = [entry.name for entry in watched.temporary.iterdir()]
    if left and code >= 0:
        failures.append(f"left temporary files: {left[:3]}")
    return Cell(name, command, code, seconds, memory, watched.most_temporary / MIB, failures)


def cells(quick: bool, only: str) -> Iterator[tuple[str, list[str]]]:
    for name in INPUTS:
        if quick and name not in QUICK:
            continue
        commands = [it for it in COMMANDS if not quick or it in QUICK_COMMANDS]
        commands = [it for it in commands if only in f"{name} {it}"]
        if commands:
            yield name, commands


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="only the subset of the tests")
    parser.add_argument("--only", default="", help="only cells whose 'INPUT COMMAND' contains this")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dir", type=Path, help="folder for the inputs (about 1 GB)")
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS, help="limit of a cell")
    parser.add_argument("--program", nargs="+", default=[sys.executable, "-m", "stormlog"])
    arguments = parser.parse_args()
    # A shell ignores the signal in its background jobs; a handler is not inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    base = Path(tempfile.mkdtemp(prefix="stormlog-hostile-", dir=arguments.dir))
    found: list[Cell] = []
    try:
        for name, commands in cells(arguments.quick, arguments.only):
            # Made in a child, because the memory of this process counts as that of its children.
            maker = os.fork()
            if maker == 0:
                try:
                    INPUTS[name](base / name)
                except BaseException as error:
                    print(f"{name}: {error!r}", file=sys.stderr)
                    os._exit(1)
                os._exit(0)
            if os.waitstatus_to_exitcode(os.waitpid(maker, 0)[1]) != 0:
                return 1
            path = path_of(base / name, name)
            for command in commands:
                folder = base / "cell"
                cell = measure(name, path, command, arguments.program, folder, arguments.seconds)
                shutil.rmtree(folder, ignore_errors=True)
                found.append(cell)
                if not arguments.json:
                    state = "; ".join(cell.failures) or "ok"
                    print(
                        f"{cell.input:32} {cell.command:18} {cell.code:4} {cell.seconds:6.1f} s"
                        f" {cell.memory_mb:6.0f} MB {cell.temporary_mb:5.0f} MB  {state}",
                        flush=True,
                    )
            subprocess.run(["rm", "-rf", str(base / name)], check=False)
    finally:
        subprocess.run(["rm", "-rf", str(base)], check=False)
    failed = [cell for cell in found if cell.failures]
    summary = {
        "cells": len(found),
        "inputs": len({cell.input for cell in found}),
        "failed": len(failed),
        "most_memory_mb": round(max((cell.memory_mb for cell in found), default=0)),
        "most_temporary_mb": round(max((cell.temporary_mb for cell in found), default=0)),
        "most_seconds": round(max((cell.seconds for cell in found), default=0), 1),
    }
    if arguments.json:
        print(json.dumps({**summary, "failures": [asdict(cell) for cell in failed]}))
    else:
        print(json.dumps(summary))
    return 1 if failed or not found else 0


def path_of(folder: Path, name: str) -> Path:
    """The path that the function of an input returned in its process: its only entry."""
    (path,) = folder.iterdir()
    return path


if __name__ == "__main__":
    sys.exit(main())
