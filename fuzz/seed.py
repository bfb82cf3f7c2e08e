"""Makes the inputs that fuzzing starts from: ``python fuzz/seed.py`` fills ``fuzz/corpus``."""

import gzip
import hashlib
import io
import json
import pickle
import struct
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "fuzz" / "corpus"
LARGEST = 4096
# The kinds of the target `loaders`, by their first byte; 12 more and damage is an error.
RAISE = 12
KINDS = {".jsonl": [0, 9, 11], ".json": [1, 3], ".csv": [2, 10], ".ndjson": [0]}


def keep(target: str, data: bytes) -> None:
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha1(data[:LARGEST], usedforsecurity=False).hexdigest()
    (folder / name).write_bytes(data[:LARGEST])


def keep_artifact(kind: int, data: bytes) -> None:
    for first in (kind, kind + RAISE):
        keep("loaders", bytes([first]) + data)


def plain(path: Path) -> bytes:
    data = path.read_bytes()
    try:
        return gzip.decompress(data)
    except (OSError, EOFError):
        return data


def seed_kept() -> None:
    """What earlier fuzzing has kept, as ``pack.py`` wrote it."""
    for path in sorted((ROOT / "fixtures/fuzz").glob("*.gz")):
        packed, start = gzip.decompress(path.read_bytes()), 0
        while start < len(packed):
            (length,) = struct.unpack_from("<I", packed, start)
            start += 4 + length
            keep(path.stem, packed[start - length : start])


def seed_artifacts() -> None:
    seen = set()
    for folder in ("fixtures/runs", "tests/conformance/artifacts"):
        for path in sorted((ROOT / folder).rglob("*")):
            if not path.is_file() or path.stat().st_size > 1 << 16:
                continue
            data = plain(path)
            if data[:400] in seen:
                continue
            seen.add(data[:400])
            for kind in KINDS.get(path.suffix, []):
                keep_artifact(kind, data)
            if path.name in ("manifest.json", "host.json"):
                for kind, other in (
                    (5, "segment-000001.jsonl"),
                    (6, "events.json"),
                    (7, "telemetry_timeline.json"),
                    (8, "segment-000001.ndjson"),
                ):
                    beside = path.parent / other
                    if beside.is_file():
                        keep_artifact(kind, data[:2800] + b"\xff" + plain(beside))
            if path.suffix == ".json":
                keep("json", data)
            for line in data.splitlines()[:2]:
                if line.startswith(b"{"):
                    keep("record", line)
    keep_artifact(4, b"{'a': None, 'b': [1, (2,), {'c': \"it's\"}], 'd': nan, 'e': '\\x41'}")


def seed_pickles() -> None:
    frame = {"filename": "train.py", "line": 3, "name": "main"}
    block = {
        "size": 512,
        "requested_size": 400,
        "address": 4096,
        "state": "active_allocated",
        "frames": [frame],
    }
    segment = {
        "device": 0,
        "address": 4096,
        "total_size": 1024,
        "stream": 0,
        "segment_type": "small",
        "allocated_size": 512,
        "active_size": 512,
        "blocks": [block, {"size": 512, "state": "inactive"}],
        "frames": [frame],
    }
    entries = [
        {"action": action, "addr": 4096, "size": 512, "stream": 0, "time_us": 7, "frames": [frame]}
        for action in (
            "alloc",
            "free_requested",
            "free_completed",
            "segment_alloc",
            "oom",
            "snapshot",
        )
    ]
    snapshot = {
        "segments": [segment],
        "device_traces": [entries, []],
        "allocator_settings": {"expandable_segments": False},
        "external_annotations": [{"stage": "START", "name": "step", "device": 0, "time_us": 3}],
    }
    for value in (snapshot, [segment], {}, [], {"segments": [], "device_traces": [entries[:1]]}):
        for protocol in (2, 3, 4, 5):
            keep("pickle", pickle.dumps(value, protocol))


def seed_packs() -> None:
    header = {"format": "stormlog-pack", "version": 1, "files": 2, "bytes": 4}
    names = (
        "events.json",
        "a/b/segment-000001.jsonl",
        "../x.json",
        "/x.json",
        "a//b",
        "in.stormlog",
    )
    contents = (
        b"{}",
        b'{"timestamp": 1}\n',
        gzip.compress(b"{}"),
        gzip.compress(bytes(100_000))[:50],
    )
    for name in names:
        for content in contents:
            keep("pack", b"\x02" + name.encode() + b"\xff" + content)
            keep("pack", b"\x02" + b"\xff".join([name.encode(), content, b"rank_1.json", b"{}"]))
    for kind in (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_LONGNAME):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, content in (
                ("stormlog-pack.json", json.dumps(header).encode()),
                ("events.json", b"{}"),
                ("manifest.json", b"{}"),
            ):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                if name == "events.json":
                    entry.type, entry.linkname = kind, "manifest.json"
                tar.addfile(entry, io.BytesIO(content))
        archive = stream.getvalue()
        for length in (len(archive), 2048, 1024, 700):
            keep("pack", b"\x01" + archive[:length])
    keep("pack", b"\x00\x28\xb5\x2f\xfd")
    keep("pack", b"\x00PK\x03\x04")


def seed_secrets() -> None:
    for name in ("forms.txt", "ordinary.txt"):
        for line in (ROOT / "fixtures/secrets" / name).read_text().splitlines():
            keep("secrets", line.encode())
            keep("secrets", line.replace(" ", "\0").encode())


if __name__ == "__main__":
    seed_kept()
    seed_artifacts()
    seed_pickles()
    seed_packs()
    seed_secrets()
    for folder in sorted(CORPUS.iterdir()):
        print(folder.name, len(list(folder.iterdir())))
