"""Random sequences of calls on a sink, and a program that makes them with the package that it can
import.

Run as a program it reads cases from its standard input and prints the outcome of each: the
answers of every call and every file at the end; what depends on the clock and the machine is
masked. The code that does this is that of the conformance kit (tests/conformance).
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

KIT = Path(__file__).resolve().parents[3] / "tests" / "conformance"
START = 1_650_000_000_000_000_000
SESSIONS = ("one", "two", "x")
STATUSES = ("completed", "interrupted", "incomplete", "running", " Completed ", "odd", "")
VALUES: tuple[Any, ...] = (None, 1, -5, 1.5, 1e-7, True, 'é\u2028"\\', "", [1, {"b": 1, "a": []}])


def case(rnd: random.Random) -> dict[str, Any]:
    """One case: the files that are already in the sink's directory, and the calls to make."""
    config: dict[str, Any] = {
        "flush_every_events": rnd.choice((1, 1, 2, 3, 50)),
        "rollover_max_events": rnd.choice((1, 2, 3, 100)),
        "retention_max_files": rnd.choice((1, 2, 8)),
        "write_rollups": rnd.random() < 0.6,
        "rollup_window_seconds": rnd.choice((1, 10, 60)),
    }
    if rnd.random() < 0.3:
        config["rollover_max_bytes"] = rnd.choice((1, 40, 700))
        config["retention_max_total_bytes"] = rnd.choice((700, 2000))
    given: dict[str, Any] = {"config": config, "ops": _operations(rnd)}
    if rnd.random() < 0.5:
        given["files"] = _files(rnd)
    return given


def _operations(rnd: random.Random) -> list[list[Any]]:
    real = rnd.random() < 0.6
    operations: list[list[Any]] = [["open"]]
    for number in range(rnd.randint(1, 12)):
        kind = rnd.random()
        if kind < 0.5:
            operations.append(["append", _record(rnd, number, real)])
        elif kind < 0.6:
            operations.append(["start_session", _summary(rnd)])
        elif kind < 0.7:
            operations.append(["flush", rnd.random() < 0.5])
        elif kind < 0.8:
            operations.append(["close", rnd.choice(STATUSES)])
        elif kind < 0.84:
            operations.append(["open"])
        else:
            looks = ("diagnostics", "current_session", "peek")
            operations.append([rnd.choice(looks)])
    operations += [["close"], ["diagnostics"]]
    if rnd.random() < 0.3:
        # A change from outside, and then the next sink.
        if rnd.random() < 0.5:
            operations.append(["extend", "segment-000001.jsonl", rnd.choice(("{", "\n\n", "{}\n"))])
        operations += [["open"], ["append", _record(rnd, 99, real)], ["close"], ["diagnostics"]]
    return operations


def _summary(rnd: random.Random) -> dict[str, Any]:
    return {
        "session_id": rnd.choice(SESSIONS),
        "status": rnd.choice(STATUSES[:4]),
        "started_at_ns": START + rnd.randint(-3, 3) * 1_000_000_000,
        "ended_at_ns": rnd.choice((None, START)),
        "host": "node-1",
        "pid": 4711,
        "job_id": rnd.choice((None, "job")),
        "rank": rnd.randint(0, 3),
        "local_rank": 0,
        "world_size": 4,
        "source": "stormlog.tracker",
    }


def _record(rnd: random.Random, number: int, real: bool) -> dict[str, Any]:
    if not real or rnd.random() < 0.03:
        record = {"n": number, "v": rnd.choice(VALUES)}
        if rnd.random() < 0.3:
            record["session_id"] = rnd.choice((*SESSIONS, None, 5))
        return record
    if rnd.random() < 0.05:
        return {"timestamp": START / 1e9 + number, "memory_allocated": 5, "device": "cuda:0"}
    metadata: dict[str, Any] = {}
    if rnd.random() < 0.4:
        metadata = rnd.choice(
            (
                {"severity": rnd.choice(("warning", "Critical 7 ", "info", 5))},
                {"collector_health_status": rnd.choice(("healthy", " Degraded ", "", 5))},
                {"oom_dump_path": rnd.choice(("/a", "/b", " ", None)), "oom_reason": "r"},
                {"s\u0065verity": "error", "step": number, "é": "\\severity"},
                {"session_id": "two"},
            )
        )
    kinds = ("sample",) * 6 + ("warning", "error", "critical", "stop", "é")
    transitions = ("collector_degraded", "collector_recovered")
    record = {
        "schema_version": rnd.choice((3,) * 9 + (2,)),
        "session_id": rnd.choice(("one",) * 8 + ("two",)),
        "timestamp_ns": START + (number + rnd.choice((0, 0, 0, -3, 20))) * 700_000_000,
        "event_type": rnd.choice(kinds + transitions),
        "collector": "stormlog.cuda_tracker",
        "sampling_interval_ms": 100,
        "pid": 4711,
        "host": "node-1",
        "device_id": rnd.randint(-1, 2),
        "allocator_allocated_bytes": rnd.randint(0, 5),
        "allocator_reserved_bytes": rnd.randint(0, 9),
        "allocator_active_bytes": None,
        "allocator_inactive_bytes": None,
        "allocator_change_bytes": rnd.randint(-5, 5),
        "device_used_bytes": rnd.randint(0, 2**40),
        "device_free_bytes": None,
        "device_total_bytes": None,
        "context": rnd.choice((None, "", "é")),
        "metadata": metadata,
    }
    if record["schema_version"] == 2:
        del record["session_id"]
    if rnd.random() < 0.7:
        world_size = rnd.randint(4, 5)
        record |= {"job_id": None, "rank": rnd.randint(0, 2), "world_size": world_size}
        record["local_rank"] = rnd.randint(0, 1)
    if rnd.random() < 0.02:
        record["pid"] = "no number"
    return record


def _files(rnd: random.Random) -> dict[str, str]:
    files: dict[str, str] = {}
    listed = []
    for index in range(1, rnd.randint(1, 4)):
        name = f"segment-{index:06}.jsonl"
        lines = [
            json.dumps(_record(rnd, n, True), sort_keys=True) for n in range(rnd.randint(0, 3))
        ]
        text = "".join(line + "\n" for line in lines) + rnd.choice(("", "", "", '{"torn', "\n"))
        if rnd.random() < 0.9:
            files[name] = text
        if rnd.random() < 0.8:
            listed.append(
                {
                    "filename": name,
                    "event_count": rnd.choice((len(lines), len(lines), 7, -1, "3")),
                    "size_bytes": rnd.choice((len(text), len(text), 0)),
                    "closed": rnd.random() < 0.7,
                    "session_id": rnd.choice((*SESSIONS, None)),
                }
            )
    known = {summary["session_id"]: summary for summary in map(_summary, [rnd] * rnd.randint(0, 3))}
    manifest = {
        "schema_version": rnd.choice((2, 2, 2, 1, "2")),
        "format": "stormlog.append_only_telemetry_sink",
        "sessions": list(known.values()),
        "segments": listed,
    }
    kind = rnd.random()
    if kind < 0.8:
        files["manifest.json"] = json.dumps(manifest, indent=2) + "\n"
    elif kind < 0.9:
        files["manifest.json"] = "{oops"
    return files


class _Context:
    """The context that the kit's calls expect."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def scratch(self) -> Path:
        scratch = self.root / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        return scratch

    def detoken(self, value: Any) -> Any:
        return value


def main() -> None:
    """Run the cases on standard input and print their outcomes."""
    sys.path.insert(0, str(KIT))
    import calls_core  # type: ignore[import-not-found]

    # Ids are made of paths, so both packages work in the same place.
    root = Path(sys.argv[1])
    outcomes = []
    for given in json.load(sys.stdin):
        outcome = calls_core.CALLS["core.sink_script"]({"input": given}, _Context(root))
        text = json.dumps(outcome, sort_keys=True).replace(str(root), "$ROOT")
        outcomes.append(json.loads(text))
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
