"""Random sets of artifacts, and every question about them.

    REFERENCE_PYTHON query_sets.py make FOLDER SEED COUNT
    ANY_PYTHON query_sets.py ask FOLDER > answers.jsonl

Stormlog 0.3.9 makes the sets, because it also writes their rollups. What differs on purpose
is left out: damaged lines, missing segments, relative paths, series whose samples all have the
same time.
"""

from __future__ import annotations

import csv
import io
import json
import random
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

T0 = 1_762_000_000_000_000_000
SECOND = 1_000_000_000
SESSIONS = ["s1", "s2", "s3", "S 4", "é5"]
JOBS = [None, None, "J", "K"]
STATUSES = ["completed", "interrupted", "incomplete", "running"]
TYPES = ["sample"] * 6 + [
    "start",
    "stop",
    "warning",
    "critical",
    "error",
    "collector_degraded",
    "collector_recovered",
    "phase_enter",
    "phase_exit",
    "checkpoint",
    " error",
]
CONTEXTS = [
    None,
    "",
    "High fragmentation: 40%",
    "OOM in room 5",
    "Step 17 took 9.5s",
    "x" * 130 + ": y",
    "cuda:0 0xdead",
    "  ",
]
TIMES = [
    "2025-11-01T12:26:40Z",
    "2025-11-01T12:26:45.5+00:00",
    "2025-11-01 12:26:43",
    "2025-11-01",
    "nope",
    None,
    "",
    "20251101T122640",
    "2025-W44-6",
    "2025-11-01T12:26:40,25Z",
    "2025-11-01T12",
    "2025-11-01T12:26:40+0200",
    "2025-11-01T12:26:40.1234567Z",
]
METADATA: dict[str, tuple[float, list[Any]]] = {
    "backend": (0.6, ["cuda", "CUDA", "rocm", None, "", 5, ["a"]]),
    "severity": (0.25, ["warning", "CRITICAL", " error ", "info", "x", 5, None]),
    "collector_health_status": (0.3, ["healthy", "degraded", "Unhealthy", "", None, 3]),
    "oom_reason": (0.15, ["A 5", "message_pattern:out of memory", None, 7]),
    "oom_dump_path": (0.1, ["p/q", None, 5, ""]),
    "collector_last_error": (0.2, ["Boom 5: x", "RuntimeError", None, "", 5]),
    "collector_partial_fields": (0.2, [["b", "a"], [], "x", None, [1, "z"]]),
    "collector_consecutive_failures": (0.1, [1, "2", None]),
}


def some(rnd: random.Random, choices: dict[str, list[Any]], chance: float) -> dict[str, Any]:
    """Some of the keys with one of their values each."""
    return {key: rnd.choice(values) for key, values in choices.items() if rnd.random() < chance}


def event(rnd: random.Random, session: str, step: int) -> dict[str, Any]:
    kind = rnd.choice(TYPES)
    metadata = {
        key: rnd.choice(values)
        for key, (chance, values) in METADATA.items()
        if rnd.random() < chance
    }
    if kind.startswith("phase"):
        name = rnd.choice(["train", "step", "load"])
        metadata["phase_scope"] = {
            "action": kind[6:],
            "name": name,
            "path": ["root", name][rnd.randrange(2) :],
            "depth": 1,
            "scope_id": f"{session}:{rnd.randrange(3)}",
            "parent_scope_id": None,
            "thread_id": rnd.choice([1, 2]),
            "thread_name": "T",
            "sequence": step,
        }
    rank, reserved = rnd.randrange(3), rnd.randrange(50, 100)
    return {
        "schema_version": 3,
        "session_id": session,
        "timestamp_ns": T0
        + rnd.choice([10 * step, 10 * step, 10 * rnd.randrange(20), 7 * step]) * SECOND // 10,
        "event_type": kind,
        "collector": rnd.choice(["stormlog.cuda_tracker", "legacy.unknown"]),
        "sampling_interval_ms": 100,
        "pid": rnd.choice([1, -1]),
        "host": "node-a",
        "job_id": rnd.choice(JOBS),
        "rank": rank,
        "local_rank": rank,
        "world_size": rnd.choice([3, 4, 8]),
        "device_id": rnd.choice([0, 1, -1]),
        "allocator_allocated_bytes": rnd.randrange(reserved + 1),
        "allocator_reserved_bytes": reserved,
        "allocator_active_bytes": None,
        "allocator_inactive_bytes": None,
        "allocator_change_bytes": 0,
        "device_used_bytes": rnd.randrange(60, 200),
        "device_free_bytes": None,
        "device_total_bytes": rnd.choice([None, 200, 1000]),
        "context": rnd.choice(CONTEXTS),
        "metadata": metadata,
    }


def session(rnd: random.Random, name: str) -> dict[str, Any]:
    start = T0 + rnd.randrange(5) * SECOND
    return {
        "session_id": name,
        "status": rnd.choice(STATUSES),
        "started_at_ns": start,
        "ended_at_ns": rnd.choice([None, start + rnd.randrange(20) * SECOND]),
        "host": "node-a",
        "pid": 4242,
        "job_id": rnd.choice([*JOBS, ""]),
        "rank": rnd.randrange(3),
        "local_rank": rnd.randrange(3),
        "world_size": rnd.choice([1, 3, 4]),
        "source": "stormlog.tracker",
    }


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def sink(rnd: random.Random, folder: Path) -> None:
    names = rnd.sample(SESSIONS, rnd.randrange(1, 4))
    segments = []
    for number in range(1, rnd.randrange(2, 5)):
        owner = rnd.choice(names)
        writer = owner if rnd.random() < 0.9 else rnd.choice(SESSIONS)
        lines = [json.dumps(event(rnd, writer, step)) for step in range(rnd.randrange(14))]
        text = "".join(f"{line}\n" for line in lines)
        name = f"segment-{number:06d}.jsonl"
        write(folder / name, text)
        segments.append(
            {
                "filename": name,
                "event_count": len(lines),
                "size_bytes": len(text),
                "closed": True,
                "session_id": owner if rnd.random() < 0.9 else rnd.choice([None, "zz"]),
            }
        )
    write(
        folder / "manifest.json",
        {
            "schema_version": 1 if rnd.random() < 0.08 else 2,
            "format": "stormlog.append_only_telemetry_sink",
            "sessions": [session(rnd, name) for name in names if rnd.random() < 0.85],
            "segments": segments,
        },
    )
    if rnd.random() < 0.5:
        roll_up(folder, rnd.choice([2, 5, 60]) * SECOND)


def roll_up(folder: Path, window_ns: int) -> None:
    from stormlog import telemetry, telemetry_rollups, telemetry_sink

    telemetry_rollups.write_telemetry_rollups(
        folder,
        telemetry_rollups.build_telemetry_rollups(
            telemetry.load_telemetry_sessions(folder),
            telemetry_sink.read_telemetry_sink_manifest(folder),
            window_duration_ns=window_ns,
        ),
    )


def oom_bundle(rnd: random.Random, folder: Path) -> None:
    write(
        folder / "manifest.json",
        {
            "schema_version": 2,
            "bundle_name": folder.name,
            "created_at_utc": rnd.choice(TIMES),
            "reason": rnd.choice(["message_pattern:out of memory", "torch.X 5", "", None, 5]),
            "backend": rnd.choice(["cuda", "Cuda 1", "", None, 7]),
            "event_count": rnd.choice([1, "5", 2.7, True, None, "x"]),
            "session_id": rnd.choice([*SESSIONS, None, "", 5]),
            "session_status": rnd.choice([*STATUSES, None, "", "odd"]),
            "session": rnd.choice([None, session(rnd, "s1")]),
            "files": [],
        },
    )
    details = [{"exception_type": "E", "exception_module": "m"}, {"exception_type": 5}, [], "{"]
    if rnd.random() < 0.7:
        write(folder / "metadata.json", rnd.choice(details))
    if rnd.random() < 0.5:
        write(folder / "events.json", [event(rnd, "s1", 1)])


def diagnose_bundle(rnd: random.Random, folder: Path) -> None:
    manifest = {
        "command_line": "x",
        "files": [],
        "risk_detected": True,
        "session_id": rnd.choice([*SESSIONS, None, "", 5]),
        **some(
            rnd,
            {
                "session_status": [*STATUSES, None, "", "odd", " Completed "],
                "session": [session(rnd, "s2"), {"session_id": "s1"}, None, []],
            },
            0.7,
        ),
    }
    write(folder / "manifest.json", manifest)


def sidecar(rnd: random.Random, folder: Path) -> None:
    choices: dict[str, list[Any]] = {
        "url": ["u", "v"],
        "path": ["p", "a/../b", "/abs"],
        "session_id": [*SESSIONS],
        "job_id": ["J", "K"],
        "rank": [0, 1, "2"],
        "start_ns": [T0, T0 + 5 * SECOND],
        "end_ns": [T0 + SECOND, T0 + 6 * SECOND],
        "created_at_utc": TIMES,
        "run_id": ["r1", "r2", "rX"],
        "storage": ["copy", "x"],
        "source_namespace": ["n"],
        "source_ref": ["f", "g"],
        "attachment_id": ["i"],
        "metadata": [{"a": 1}, 5],
    }
    entries = [
        {"title": f"t{rnd.randrange(3)}", "kind": rnd.choice("kl"), **some(rnd, choices, 0.35)}
        for _ in range(rnd.randrange(1, 5))
    ]
    document = {"schema_version": 1, "format": "stormlog.attachments", "attachments": entries}
    write(folder / "stormlog_attachments.json", document)


def envelope(rnd: random.Random, folder: Path) -> None:
    document: dict[str, Any] = {
        "schema_version": 1,
        "format": "stormlog.run_envelope",
        "metadata": {},
        "run_id": rnd.choice(["r1", "r2", "job:J", "session:s1", "implicit:job:J"]),
        **some(
            rnd,
            {
                "title": ["t"],
                "job_id": ["J", "K"],
                "started_at_ns": [T0, 0],
                "ended_at_ns": [T0 + 10 * SECOND],
                "source_namespace": ["n"],
                "source_ref": ["f"],
                "tags": [["a"]],
            },
            0.4,
        ),
    }
    if rnd.random() < 0.6:
        listed = [rnd.choice(SESSIONS) for _ in range(rnd.randrange(3))]
        document["sessions"] = [{"session_id": name, "metadata": {}} for name in listed]
    if rnd.random() < 0.5:
        document["attachments"] = [
            {
                "title": "et",
                "kind": "k",
                "storage": "copy",
                "metadata": {},
                "url": "u",
                **some(
                    rnd,
                    {
                        "session_id": [*SESSIONS],
                        "job_id": ["J"],
                        "rank": [1],
                        "run_id": ["r2", "zz"],
                        "path": ["pp"],
                        "start_ns": [T0],
                        "source_namespace": ["m"],
                    },
                    0.4,
                ),
            }
        ]
    write(folder / "stormlog_run.json", document)


def flat(rnd: random.Random, folder: Path) -> None:
    events = [event(rnd, rnd.choice(SESSIONS), step) for step in range(rnd.randrange(8))]
    kind = rnd.randrange(4)
    if kind == 0:
        write(folder / "events.json", rnd.choice([events, {"events": events}, {"a": 1}]))
    elif kind == 1:
        write(folder / "x.jsonl", "".join(f"{json.dumps(one)}\n" for one in events))
    elif kind == 2:
        table = io.StringIO()
        names = list(event(rnd, "s1", 0))
        writer = csv.writer(table)
        writer.writerow(names)
        for one in events:
            cells = (json.dumps(one[name]) if name == "metadata" else one[name] for name in names)
            writer.writerow(["" if cell is None else cell for cell in cells])
        write(folder / "track.csv", table.getvalue())
    else:
        write(
            folder / "old_track.json",
            [
                {
                    "timestamp": 1_762_000_000.5 + step,
                    "memory_allocated": 5 * step,
                    "memory_reserved": 9 * step,
                    "device": rnd.choice(["cuda:0", "cpu"]),
                    "context": rnd.choice(CONTEXTS),
                }
                for step in range(3)
            ],
        )


def make(folder: Path, seed: int, count: int) -> None:
    """Writes that many sets."""
    for number in range(count):
        rnd = random.Random(f"{seed}-{number}")
        root = folder / f"set{number}"
        root.mkdir(parents=True)
        for place in range(rnd.randrange(1, 4)):
            sink(rnd, root / f"sink{place}")
        for place in range(rnd.randrange(3)):
            oom_bundle(rnd, rnd.choice([root, root / "sink0"]) / f"oom{place}")
        for place in range(rnd.randrange(2)):
            diagnose_bundle(rnd, root / f"diag{place}")
        if rnd.random() < 0.5:
            sidecar(rnd, rnd.choice([root, root / "sub"]))
        for place in range(rnd.randrange(3)):
            envelope(rnd, rnd.choice([root, root / f"e{place}"]))
        if rnd.random() < 0.5:
            flat(rnd, rnd.choice([root / "flat", root]))


def plain(value: Any) -> Any:
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def rows(question: Callable[[], Iterable[Any]]) -> Any:
    answer = [plain(row.as_dict()) for row in question()]
    for row in answer:
        # What we know beyond stormlog 0.3.9.
        row.pop("effective_status", None)
    return answer


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


def answers(root: Path) -> dict[str, Any]:
    """Every question about a set, with some random filters, and what was found wrong."""
    from stormlog import query

    rnd = random.Random(root.name)
    store = query.open([root])
    found: dict[str, Any] = {
        "sessions": rows(store.list_sessions),
        "runs": rows(store.list_runs),
        "run attachments": rows(store.list_run_attachments),
        "attachments": rows(store.list_attachments),
        "ooms": rows(store.list_oom_bundles),
        "events": rows(store.query_events),
        "issues": rows(store.list_issues),
        "catalog": plain(store.catalog.as_dict()),
    }
    for metric in METRICS:
        for group_by in (None, "session", "session-rank", "rank", "status"):
            rows_of = rows(lambda: store.summarize(metric, group_by=group_by))
            found[f"{metric} by {group_by}"] = rows_of
    for _ in range(4):
        wanted = {
            "at_ns": T0 + rnd.randrange(14) * SECOND,
            "window_ns": rnd.choice([0, SECOND, 60 * SECOND]),
            "scope": rnd.choice(["session", "distributed"]),
            **some(rnd, {"session_id": ["s1", "s2"], "job_id": ["J", "K"], "rank": [0, 1, 2]}, 0.4),
        }
        result = store.correlate(query.CorrelationFilter(**wanted))
        found[f"correlate {wanted}"] = plain(result.as_dict())
    for _ in range(4):
        wanted = some(
            rnd,
            {
                "session_id": ["s1", "s2"],
                "event_type": ["sample", "error"],
                "rank": [0, 1],
                "collector": ["legacy.unknown"],
                "status": ["completed", "running"],
                "time_start_ns": [T0 + 3 * SECOND],
                "time_end_ns": [T0 + 9 * SECOND],
                "has_alert": [True, False],
                "collector_health_status": ["healthy", "degraded", ""],
                "backend": ["cuda", "CUDA", ""],
                "limit": [0, 3, 50],
            },
            0.25,
        )
        fresh = query.open([root])
        found[f"events {wanted}"] = rows(lambda: fresh.query_events(query.EventFilter(**wanted)))
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
