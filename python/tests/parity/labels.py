"""Cases for classification, derived fields, fingerprints and byte texts."""

from __future__ import annotations

import random
from typing import Any

from .values import anything, number, plain, proxy, scalar, text

TYPES = ["warning", "critical", "error", "sample", "stop", "collector_degraded",
         "collector_recovered", "Warning", " error"]  # fmt: skip
METADATA = ["severity", "backend", "collector_health_status", "oom_reason", "oom_dump_path"]
PIECES = ["0x1F", "0X", "12", "1.5", ".5", "5.", "50%", "%", " ", "  ", "\t", "\n", ":", "a", "_",
          "-", "OOM", "Out of Memory", "fragmentation", "Error", "é", "0", "x", "\x1d", "1e5", "7"]  # fmt: skip
COUNTERS = ["allocator_allocated_bytes", "allocator_reserved_bytes", "device_total_bytes"]
KINDS = ["oom", "collector_degradation", "alert", "hidden_memory_anomaly", "OOM", "", None]
STATES = ["open", "resolved", "ignored", "regressed", "OPEN", " open ", "bogus", ""]


def case(rnd: random.Random) -> tuple[str, Any]:
    """One random case."""
    return rnd.choice([classified, derived, session, enriched, dimensions, fingerprint, words,
                       issue, sizes])(rnd)  # fmt: skip


def phrase(rnd: random.Random) -> Any:
    """A text as error messages and contexts have it."""
    if rnd.random() < 0.3:
        return anything(rnd)
    return "".join(rnd.choice(PIECES) for _ in range(rnd.randint(0, 7)))


def classified(rnd: random.Random) -> tuple[str, Any]:
    metadata = {key: phrase(rnd) for key in rnd.sample(METADATA, rnd.randint(0, 3))}
    if rnd.random() < 0.3:
        metadata["collector_health_status"] = rnd.choice(["degraded", " Unhealthy", "healthy"])
    if rnd.random() < 0.3:
        metadata["severity"] = rnd.choice(["warning", " Critical", "ERROR", "info"])
    event_type = rnd.choice(TYPES) if rnd.random() < 0.8 else scalar(rnd)
    given: Any = proxy(metadata) if rnd.random() < 0.1 else metadata
    return "classify", (event_type, given)


def counters(rnd: random.Random) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for key in COUNTERS:
        if rnd.random() < 0.9:
            event[key] = rnd.choice([rnd.randint(0, 9), rnd.randint(-5, 2**40), 0])
        elif rnd.random() < 0.6:
            event[key] = rnd.choice([None, "", "5", "x", True, 2.9, -2.9, [], {}, b"7", [1]])
    if rnd.random() < 0.7:
        event["collector"] = rnd.choice(
            ["c", "x.Fallback", "impartial", "legacy.unknown", "", None]
        )
    event["event_type"] = rnd.choice(["sample", "stop", "Stop", None])
    return event


def derived(rnd: random.Random) -> tuple[str, Any]:
    return rnd.choice(["derived_event", "derived_object"]), (counters(rnd),)


def session(rnd: random.Random) -> tuple[str, Any]:
    return "derived_session", ([counters(rnd) for _ in range(rnd.randint(0, 5))],)


def enriched(rnd: random.Random) -> tuple[str, Any]:
    return "enrich", ({**counters(rnd), text(rnd): plain(rnd), "derived": scalar(rnd)},)


def dimensions(rnd: random.Random) -> tuple[str, Any]:
    return "dimensions", (given_dimensions(rnd),)


def given_dimensions(rnd: random.Random) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for _ in range(rnd.randint(0, 4)):
        kind = rnd.random()
        key = text(rnd) if kind < 0.5 else rnd.choice(["backend", "reason", "B", "a"])
        made[key] = rnd.choice([phrase, anything, plain, number])(rnd)
    if rnd.random() < 0.03:
        made[rnd.choice([5, None, "", " "])] = 1
    return made


def fingerprint(rnd: random.Random) -> tuple[str, Any]:
    options: dict[str, Any] = {"kind": rnd.choice(KINDS), "dimensions": given_dimensions(rnd)}
    if rnd.random() < 0.2:
        options["schema_version"] = rnd.choice([1, 2, 0, -1, True, 1.0, 1.5])
    return "fingerprint", (options,)


def words(rnd: random.Random) -> tuple[str, Any]:
    operation = rnd.choice(["text_dimension", "alert_category", "error_stem", "issue_state"])
    value = rnd.choice(STATES) if operation == "issue_state" else phrase(rnd)
    return operation, (value,)


def issue(rnd: random.Random) -> tuple[str, Any]:
    link = {"session_id": rnd.choice([None, "s"]), "metadata": {text(rnd): anything(rnd)}}
    options: dict[str, Any] = dict(
        title="t", severity="warning", hit_count=rnd.choice([1, 3, 0, -1]), first_seen_ns=1,
        last_seen_ns=None, affected_sessions=rnd.choice([["b", "a", "b"], (), ["x"], ("z", "y")]),
        state=rnd.choice(STATES), details={text(rnd): anything(rnd)},
    )  # fmt: skip
    return "issue", ({"kind": "oom", "dimensions": given_dimensions(rnd)}, link, options)


def sizes(rnd: random.Random) -> tuple[str, Any]:
    if rnd.random() < 0.5:
        return "format_bytes", (number(rnd), rnd.choice([0, 1, 2, 3, 6]))
    units = ["B", "KB", "MB", "GB", "TB", "PB", "kb", None, 5]
    return "convert_bytes", (number(rnd), rnd.choice(units[:6]), rnd.choice(units))
