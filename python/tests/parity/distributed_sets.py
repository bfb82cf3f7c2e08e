"""Random artifacts of distributed runs, and what the diagnostics tab makes of them.

    ANY_PYTHON distributed_sets.py make FOLDER SEED COUNT
    ANY_PYTHON distributed_sets.py ask FOLDER > answers.jsonl

What differs on purpose is left out: damaged lines, missing segments, values that are no byte
counts, and series whose samples all have the same time.
"""

from __future__ import annotations

import csv
import io
import json
import random
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

T0 = 1_762_000_000_000_000_000
SECOND = 1_000_000_000
GB = 1 << 30
SESSIONS = ["s1", "s2", "s3", "é5"]
STATUSES = ["completed", "interrupted", "incomplete", "running"]
TYPES = ["sample"] * 9 + [
    "start",
    "stop",
    "warning",
    "critical",
    "error",
    "phase_enter",
    "phase_exit",
    "Sample",
    " WARNING ",
]
CONTEXTS = [None, "", "  ", "nccl all_reduce", "High fragmentation: 40%", " padded "]
FOLDERS = [
    "",
    "rank_1",
    "run-Rank2",
    "local_rank_3",
    "crank4",
    "node/rank-0",
    "rank7x/deep",
    "rankx",
    "a_RANK_05",
]


def event(rnd: random.Random, who: dict[str, Any], step: int) -> dict[str, Any]:
    kind = rnd.choice(TYPES) if rnd.random() < 0.5 else "sample"
    metadata: dict[str, Any] = {}
    if kind.startswith("phase"):
        name = rnd.choice(["train", "step", "load"])
        metadata["phase_scope"] = {
            "action": kind[6:],
            "name": name,
            "path": ["root", name][rnd.randrange(2) :],
            "depth": 1,
            "scope_id": f"{who['session_id']}:{rnd.randrange(3)}",
            "parent_scope_id": None,
            "thread_id": rnd.choice([1, 2]),
            "thread_name": "T",
            "sequence": step,
        }
    if kind == "error" and rnd.random() < 0.5:
        metadata["oom_reason"] = rnd.choice(["message_pattern:out of memory", ""])
    reserved = rnd.randrange(50, 60) * GB // 10
    hidden = rnd.choice([0, 0, 0, step, 30]) * GB // 10
    return {
        "schema_version": 3,
        "session_id": who["session_id"],
        "timestamp_ns": T0 + (10 * step + rnd.choice([0, 0, 0, 3, 3])) * SECOND // 10,
        "event_type": kind,
        "collector": "stormlog.cuda_tracker",
        "sampling_interval_ms": 100,
        "pid": 7,
        "host": "node-a",
        "job_id": who["job_id"],
        "rank": who["rank"],
        "local_rank": who["rank"],
        "world_size": who["world_size"],
        "device_id": 0,
        "allocator_allocated_bytes": rnd.randrange(reserved // 4, reserved),
        "allocator_reserved_bytes": reserved,
        "allocator_active_bytes": None,
        "allocator_inactive_bytes": None,
        "allocator_change_bytes": 0,
        "device_used_bytes": reserved + hidden,
        "device_free_bytes": None,
        "device_total_bytes": rnd.choice([None, 16 * GB, 16 * GB, 80 * GB]),
        "context": rnd.choice(CONTEXTS),
        "metadata": metadata,
    }


def identity(rnd: random.Random) -> dict[str, Any]:
    rank = rnd.randrange(4)
    return {
        "session_id": rnd.choice(SESSIONS),
        "rank": rank,
        "job_id": rnd.choice([None, "J", "J", "K"]),
        "world_size": rnd.choice([rank + 1, 4, 4, 8]),
    }


def events(rnd: random.Random, who: dict[str, Any]) -> list[dict[str, Any]]:
    return [event(rnd, who, step) for step in range(rnd.choice([0, 1, 3, 9, 14]))]


def summary(rnd: random.Random, who: dict[str, Any]) -> dict[str, Any]:
    start = T0 + rnd.randrange(5) * SECOND
    return {
        "session_id": who["session_id"],
        "status": rnd.choice(STATUSES),
        "started_at_ns": start,
        "ended_at_ns": rnd.choice([None, start + rnd.randrange(20) * SECOND]),
        "host": rnd.choice(["node-a", "node-b"]),
        "pid": rnd.choice([7, 8]),
        "job_id": who["job_id"],
        "rank": who["rank"],
        "local_rank": who["rank"],
        "world_size": who["world_size"],
        "source": rnd.choice(["stormlog.tracker", "x"]),
    }


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def sink(rnd: random.Random, folder: Path) -> None:
    people = [identity(rnd) for _ in range(rnd.choice([1, 1, 1, 2]))]
    segments = []
    for number, who in enumerate(people, 1):
        lines = [json.dumps(one) for one in events(rnd, who) or [event(rnd, who, 0)]]
        name = f"segment-{number:06d}.jsonl"
        write(folder / name, "".join(f"{line}\n" for line in lines))
        segments.append(
            {
                "filename": name,
                "event_count": len(lines),
                "size_bytes": 5,
                "closed": True,
                "session_id": who["session_id"],
            }
        )
    write(
        folder / "manifest.json",
        {
            "schema_version": 2,
            "format": "stormlog.append_only_telemetry_sink",
            "sessions": [summary(rnd, who) for who in people if rnd.random() < 0.8],
            "segments": segments,
        },
    )


def export(rnd: random.Random, folder: Path) -> None:
    rows = events(rnd, identity(rnd))
    if rnd.random() < 0.3:
        rows += events(rnd, identity(rnd))
    name = rnd.choice(
        [
            "events.json",
            "my_events_1.json",
            "track.json",
            "a.track.b.json",
            "other.json",
            "EVENTS.json",
        ]
    )
    write(
        folder / name, rnd.choice([rows, {"events": rows}, {"events": rows, "note": 1}, {"a": 1}])
    )


def table(rnd: random.Random, folder: Path) -> None:
    rows = events(rnd, identity(rnd))
    names = list(event(rnd, identity(rnd), 0))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(names)
    for one in rows:
        cells = (json.dumps(one[name]) if name == "metadata" else one[name] for name in names)
        writer.writerow(["" if cell is None else cell for cell in cells])
    write(folder / rnd.choice(["events.csv", "track_1.csv", "plain.csv"]), text.getvalue())


def old(rnd: random.Random, folder: Path) -> None:
    who = identity(rnd)
    extra = rnd.choice(
        [{}, {"rank": who["rank"], "world_size": who["world_size"]}, {"session_id": "old"}]
    )
    rows = [
        {
            "timestamp": 1_762_000_000.5 + step,
            "memory_allocated": 5 * step,
            "memory_reserved": 9 * step,
            "device": rnd.choice(["cuda:0", "cpu"]),
            "event_type": rnd.choice(["sample", "stop"]),
            **extra,
        }
        for step in range(rnd.randrange(4))
    ]
    write(folder / rnd.choice(["old_events.json", "old_track_2.json", "old_events_3.json"]), rows)


def diagnose(rnd: random.Random, folder: Path) -> None:
    count = rnd.choice([0, 1, 3, 6])
    start = rnd.choice([1_762_000_000, 1_762_000_000.25])
    payload: dict[str, Any] = {
        "timestamps": [start + step * rnd.choice([0.5, 0.5, 1.3]) for step in range(count)],
        "allocated": [rnd.randrange(GB) for _ in range(count - (rnd.random() < 0.1 and count > 0))],
    }
    if rnd.random() < 0.9:
        payload["reserved"] = [
            rnd.randrange(2 * GB) for _ in range(count - (rnd.random() < 0.1 and count > 0))
        ]
    numbers = [0, 1, 2, 5, "3", 2.0, -1, None, True, "x", 1.5]
    for key, chance in (("rank", 0.3), ("local_rank", 0.2), ("world_size", 0.3)):
        for place in (
            payload,
            payload.setdefault("metadata", {}),
            payload.setdefault("distributed_identity", {}),
        ):
            if rnd.random() < chance / 2:
                place[key] = rnd.choice(numbers)
    for key in ("metadata", "distributed_identity"):
        if not payload[key] or rnd.random() < 0.1:
            payload[key] = rnd.choice([None, [], "x", {}])
    write(folder / "telemetry_timeline.json", payload)
    if rnd.random() < 0.7:
        who = identity(rnd)
        # Without a time stormlog 0.3.9 takes the present.
        created = rnd.choice(
            ["2025-11-02T05:06:07Z", "2025-11-02T05:06:07.25+00:00", "2025-11-02T05:06:07"]
        )
        manifest: dict[str, Any] = {
            "command_line": "x",
            "files": [],
            "risk_detected": True,
            "created_iso": created,
        }
        for key, values in {
            "session_id": [who["session_id"], who["session_id"], None, "", "  ", 5],
            "session_status": [*STATUSES, None, "", "odd", " Completed "],
            "session": [summary(rnd, who), summary(rnd, who), {"session_id": "s1"}, None, []],
        }.items():
            if rnd.random() < 0.7:
                manifest[key] = rnd.choice(values)
        write(folder / "manifest.json", rnd.choice([manifest, manifest, manifest, [1], "{"]))


MAKERS = [sink, sink, export, export, table, old, diagnose, diagnose]


def make(folder: Path, seed: int, count: int) -> None:
    """Writes that many sets."""
    for number in range(count):
        rnd = random.Random(f"{seed}-{number}")
        for place in range(rnd.randrange(1, 5)):
            inside = folder / f"set{number}" / rnd.choice([f"p{place}", f"p{place}", "shared"])
            rnd.choice(MAKERS)(rnd, inside / rnd.choice(FOLDERS))


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def free_words(warning: str) -> str:
    """A warning without the words of the parser."""
    leads = (
        "Failed to parse JSON telemetry file",
        "Failed to read timeline payload",
        "CSV parse error",
    )
    return warning.split(": ", 1)[0] if warning.startswith(leads) else warning


def outcome(paths: list[Path], session_id: str | None, ranks: set[int] | None) -> Any:
    from stormlog.tui import distributed_diagnostics as tab

    try:
        loaded = tab.load_distributed_artifacts(paths, session_id)
    except ValueError as error:
        return {"error": str(error)}
    model = tab.build_distributed_model(loaded.events, ranks)
    return {
        "selected": loaded.selected_session_id,
        "sessions": [
            [
                asdict(one.summary),
                [asdict(row) for row in one.events],
                one.sources_loaded,
                len(one.warnings),
            ]
            for one in loaded.sessions
        ],
        "events": [asdict(row) for row in loaded.events],
        "warnings": [free_words(text) for text in loaded.warnings],
        "sources": loaded.sources_loaded,
        "markers": [asdict(marker) for marker in loaded.markers],
        "model": asdict(model),
    }


def answers(root: Path) -> dict[str, Any]:
    rnd = random.Random(root.name)
    files = sorted(
        path for path in root.rglob("*") if path.is_file() and path.name != "manifest.json"
    )
    folders = sorted(path for path in root.iterdir() if path.is_dir())
    below = sorted(path for path in root.rglob("*") if path.is_dir())
    found = {}
    for name, paths in {
        "root": [root],
        "folders": folders,
        "below": below,
        "files": files,
        "twice": [root, root],
        "shuffled": rnd.sample(below + files, len(below + files)),
        "missing": [root / "none", *files[:1]],
    }.items():
        ranks = rnd.choice([None, None, {0}, {0, 1, 9}, set()])
        session = rnd.choice([None, None, None, rnd.choice(SESSIONS), "nope"])
        found[f"{name} {session} {ranks}"] = plain(outcome(paths, session, ranks))
    return found


def main() -> None:
    action, folder, *numbers = sys.argv[1:]
    if action == "make":
        make(Path(folder), *map(int, numbers))
    else:
        for root in sorted(Path(folder).iterdir()):
            print(json.dumps(answers(root)))


if __name__ == "__main__":
    main()
