"""Cases for session summaries and their life cycle."""

from __future__ import annotations

import random
from typing import Any

from .values import anything, mutated, number, proxy, scalar, text

SUMMARY: dict[Any, Any] = dict(
    session_id="s", status="running", started_at_ns=5, ended_at_ns=7, host="h", pid=1, job_id="j",
    rank=0, local_rank=0, world_size=1, source="x",
)  # fmt: skip
STATUSES = ["running", "completed", "interrupted", "incomplete"]
WORDS = [*STATUSES, "Running", "COMPLETED ", "incomplete\n", "weird", "", " ", None, 5]


def case(rnd: random.Random) -> tuple[str, Any]:
    """One random case."""
    return rnd.choice([read, created, updated, finalized, inferred, chosen, status, legacy_id])(rnd)


def summary(rnd: random.Random) -> dict[str, Any]:
    """A sound summary."""
    return {
        **SUMMARY,
        "session_id": rnd.choice("abcde"),
        "status": rnd.choice(STATUSES),
        "started_at_ns": rnd.randint(0, 5),
        "ended_at_ns": rnd.choice([None, 0, 3, 4, 5, 6]),
    }


def read(rnd: random.Random) -> tuple[str, Any]:
    payload: Any = mutated(rnd, SUMMARY, list(SUMMARY), ["zzz", 5])
    if rnd.random() < 0.1:
        payload["status"] = rnd.choice(WORDS)
    if rnd.random() < 0.03:
        payload = rnd.choice([proxy(payload), anything(rnd)])
    return "summary_from_dict", (payload,)


def created(rnd: random.Random) -> tuple[str, Any]:
    options = {"source": "s", **mutated(rnd, SUMMARY, list(SUMMARY), [])}
    return "create_summary", (options,)


def updated(rnd: random.Random) -> tuple[str, Any]:
    options: dict[str, Any] = {}
    if rnd.random() < 0.5:
        options["status"] = rnd.choice(WORDS)
    if rnd.random() < 0.5:
        options["ended_at_ns"] = anything(rnd)
    if rnd.random() < 0.5:
        options["source"] = scalar(rnd)
    return "update_summary", (summary(rnd), options)


def finalized(rnd: random.Random) -> tuple[str, Any]:
    fields = summary(rnd)
    if rnd.random() < 0.1:
        fields["status"] = rnd.choice(WORDS)
    end = rnd.randint(0, 9) if rnd.random() < 0.7 else anything(rnd)
    return "finalize_summary", (fields, {"ended_at_ns": 9 if end is None else end})


def inferred(rnd: random.Random) -> tuple[str, Any]:
    return "infer_summary", (
        {
            "session_id": rnd.choice(["s", text(rnd) or "t"]),
            "source": scalar(rnd),
            "fallback_status": rnd.choice([*STATUSES, *WORDS]),
        },
        [event(rnd) for _ in range(rnd.randint(1, 5))],
    )


def event(rnd: random.Random) -> dict[str, Any]:
    fields: dict[str, Any] = dict(
        timestamp_ns=rnd.randint(0, 4), event_type=rnd.choice(["sample", "stop", "Stop"]),
        host=rnd.choice("xyz"), pid=rnd.randint(0, 3), job_id=rnd.choice([None, "j"]), rank=1,
        local_rank=1, world_size=2,
    )  # fmt: skip
    if rnd.random() < 0.2:
        fields[rnd.choice(list(fields))] = anything(rnd)
    if rnd.random() < 0.1:
        del fields[rnd.choice([key for key in fields if key != "timestamp_ns"])]
    if fields.get("host") == "":
        fields["host"] = "h"
    return fields


def chosen(rnd: random.Random) -> tuple[str, Any]:
    rows = [summary(rnd) for _ in range(rnd.randint(0, 6))]
    if rows and rnd.random() < 0.1:
        rows[0]["status"] = rnd.choice(["weird", "Completed", "", None])
    counts = [rnd.choice([0, 0, 1]) for _ in rows]
    return rnd.choice(["sort_summaries", "select_session", "select_loaded"]), (rows, counts)


def status(rnd: random.Random) -> tuple[str, Any]:
    return "session_status", (rnd.choice(WORDS) if rnd.random() < 0.6 else anything(rnd),)


def legacy_id(rnd: random.Random) -> tuple[str, Any]:
    parts = [rnd.choice([anything, number, scalar])(rnd) for _ in range(rnd.randint(0, 4))]
    return "legacy_session_id", (parts,)
