"""Cases for loading: files and sinks, whole and mutated, as both packages read them.

What differs on purpose is left out: Unicode line separators, sinks without a segment,
segments outside their sink, version 4, CSV, bundles, compressed files.
"""

from __future__ import annotations

import atexit
import json
import random
import shutil
import tempfile
from typing import Any

from .records import EVENT, LEGACY
from .values import plain, scalar, text

# Messages of both packages contain this path, so both get the same one.
ROOT = tempfile.mkdtemp(prefix="stormlog-parity-")
atexit.register(shutil.rmtree, ROOT, ignore_errors=True)
SEPARATORS = str.maketrans(dict.fromkeys("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", "~"))
STATUSES = ["running", "completed", "interrupted", "incomplete", " Completed ", "lost", 5, None]


def case(rnd: random.Random) -> tuple[str, Any]:
    """One random case."""
    files, path = rnd.choice([document, lines, sink, sink])(rnd)
    packed = {name: whole(rnd, content) for name, content in files.items()}
    options: dict[str, Any] = {}
    if rnd.random() < 0.15:
        options["permissive_legacy"] = False
    if rnd.random() < 0.15:
        options["events_key"] = rnd.choice(["events", "records", "", "metadata"])
    session = rnd.choice([None, None, None, "a", "b", "nobody", ""])
    return "load", (ROOT, packed, path, options, session)


def whole(rnd: random.Random, content: str) -> bytes:
    """The text as bytes, now and then with a few of them changed."""
    made = bytearray(content.translate(SEPARATORS).encode("utf-8", "replace"))
    if rnd.random() < 0.35:
        for _ in range(rnd.choice([1, 1, 2, 4])):
            place = rnd.randint(0, len(made))
            kind = rnd.random()
            if kind < 0.3:
                del made[place:]
            elif kind < 0.5:
                del made[place : place + rnd.randint(1, 9)]
            elif kind < 0.8:
                made[place:place] = rnd.choice(
                    [b"{", b"}", b"[", b",", b'"', b"\n", b"\r", b" ", b"x", b"\xff", b"\xc3", b"5"]
                )
            elif place < len(made):
                made[place] = rnd.choice(b'{}[]",:0 9xe-\n')
    return bytes(made)


def record(rnd: random.Random) -> dict[Any, Any]:
    """A record, mostly valid."""
    kind = rnd.random()
    if kind < 0.7:
        made = {**EVENT, "session_id": rnd.choice(["a", "a", "b", "c"])}
        made["timestamp_ns"] = rnd.randint(0, 9)
        made["event_type"] = rnd.choice(["sample", "sample", "stop", "start"])
        if rnd.random() < 0.2:
            made["schema_version"] = 2
            del made["session_id"]
    elif kind < 0.95:
        made = {key: LEGACY[key] for key in rnd.sample(list(LEGACY), 6)} | {
            "timestamp": rnd.random()
        }
    else:
        made = {text(rnd): plain(rnd) for _ in range(rnd.randint(0, 3))}
    if rnd.random() < 0.1 and made:
        made[rnd.choice(list(made))] = plain(rnd)
    if rnd.random() < 0.05 and made:
        del made[rnd.choice(list(made))]
    if made.get("schema_version") == 4:
        del made["schema_version"]
    return made


def spell(rnd: random.Random, value: Any) -> str:
    """JSON in one of Python's layouts."""
    return json.dumps(
        value,
        ensure_ascii=rnd.random() < 0.7,
        sort_keys=rnd.random() < 0.5,
        separators=rnd.choice([None, None, (",", ":"), (" , ", " : ")]),
    )


def document(rnd: random.Random) -> tuple[dict[str, str], str]:
    records: Any = [record(rnd) for _ in range(rnd.randint(0, 5))]
    if rnd.random() < 0.1:
        records.append(scalar(rnd))
    value: Any = rnd.choice(
        [
            records,
            records,
            {"events": records},
            {"records": records, "events": records[:1]},
            {"events": {}, "timestamp": 5, "records": 5},
            record(rnd),
            plain(rnd),
        ]
    )
    content = spell(rnd, value)
    if rnd.random() < 0.2:
        content = json.dumps(value, indent=rnd.choice([1, 2, "\t"]))
    name = rnd.choice(["x.json", "x.txt", "events", "x.json.bak", "sub/y.json"])
    return {name: content}, name


def segment(rnd: random.Random) -> str:
    ends = rnd.choice([["\n"], ["\n"], ["\r\n"], ["\r"], ["\n", "\r", "\r\n", "\n\n", "\n  \n"]])
    made = "".join(spell(rnd, record(rnd)) + rnd.choice(ends) for _ in range(rnd.randint(0, 6)))
    if rnd.random() < 0.2:
        made += rnd.choice(["x", "{", spell(rnd, record(rnd)), "5", " ", "[]", "null", '"s"'])
    return made


def lines(rnd: random.Random) -> tuple[dict[str, str], str]:
    files = {"x.jsonl": segment(rnd)}
    if rnd.random() < 0.5:
        files["manifest.json"] = manifest(rnd, ["x.jsonl", "y.jsonl"])
    return files, "x.jsonl"


def sink(rnd: random.Random) -> tuple[dict[str, str], str]:
    names = [f"segment-{number:06}.jsonl" for number in rnd.sample(range(1, 12), rnd.randint(1, 3))]
    files = {name: segment(rnd) for name in names}
    listed = [name for name in names if rnd.random() < 0.9] + ["gone.jsonl"][: rnd.randint(0, 1)]
    if rnd.random() < 0.85:
        files["manifest.json"] = manifest(rnd, listed)
    if rnd.random() < 0.1:
        files[rnd.choice(["segment-x.jsonl", "notes.jsonl", "segment-000001.txt"])] = segment(rnd)
    inside = [".", "./", "manifest.json"] if "manifest.json" in files else [".", "./"]
    return files, rnd.choice([*inside, names[0]])


def manifest(rnd: random.Random, names: list[str]) -> str:
    sessions: Any = [summary(rnd, id) for id in rnd.sample(["a", "b", "c", "d"], rnd.randint(0, 3))]
    segments: Any = [
        {
            "filename": name,
            "event_count": rnd.choice([0, 3, -1, "4", None, 2.5]),
            "size_bytes": 5,
            "closed": rnd.choice([True, False, 1, "x", None]),
            "session_id": rnd.choice(["a", "a", "b", "b", None, "", " ", " a ", 5, [], {}]),
        }
        for name in names
    ]
    if rnd.random() < 0.1:
        sessions = rnd.choice([None, {}, "x", [5], [{}], sessions + sessions])
    if rnd.random() < 0.1:
        segments = rnd.choice([[*segments, 5, {}, {"filename": 5}], [*segments, *segments]])
    value = {
        "schema_version": rnd.choice([2, 2, 2, 1, 3, "2", None]),
        "format": rnd.choice(["stormlog.append_only_telemetry_sink", "other", None]),
        "sessions": sessions,
        "segments": segments,
    }
    if rnd.random() < 0.1:
        del value[rnd.choice(["schema_version", "format", "sessions"])]
    return json.dumps(value, indent=2) + "\n"


def summary(rnd: random.Random, id: str) -> dict[str, Any]:
    started = rnd.randint(0, 9)
    made: dict[str, Any] = dict(
        session_id=id, status=rnd.choice(STATUSES), started_at_ns=started,
        ended_at_ns=rnd.choice([None, started + 1, 5]), host="h", pid=1, job_id=None, rank=0,
        local_rank=0, world_size=1, source="stormlog.tracker",
    )  # fmt: skip
    if rnd.random() < 0.15:
        made[rnd.choice(list(made))] = rnd.choice([scalar(rnd), text(rnd)])
    if not isinstance(made["job_id"], str):
        made["job_id"] = None  # stormlog 0.3.9 keeps any value here; a job is named by text
    return made
