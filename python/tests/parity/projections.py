"""Cases for projected records, their ids and the views over them."""

from __future__ import annotations

import random
from typing import Any

from .records import EVENT, LEGACY, versioned
from .values import anything, mutated, plain, proxy, scalar, text

METADATA = ["backend", "severity", "severity_text", "phase_scope", "sampling.interval_ms", "k", "z"]
SCOPE = ["name", "path", "scope_id", "parent_scope_id", "sequence"]


def case(rnd: random.Random) -> tuple[str, Any]:
    """One random case."""
    return rnd.choice([projected, projected, projected, event, views])(rnd)


def metadata(rnd: random.Random) -> dict[Any, Any]:
    """Metadata that the projection looks into."""
    made: dict[Any, Any] = {key: anything(rnd) for key in rnd.sample(METADATA, rnd.randint(0, 4))}
    if rnd.random() < 0.4:
        scope = {key: anything(rnd) for key in rnd.sample(SCOPE, rnd.randint(0, 5))}
        if rnd.random() < 0.4:
            scope["path"] = [scalar(rnd) for _ in range(rnd.randint(0, 3))]
        made["phase_scope"] = scope if rnd.random() < 0.9 else proxy(scope)
    if rnd.random() < 0.5:
        made[text(rnd)] = plain(rnd)
    if rnd.random() < 0.1:
        made[rnd.choice([5, None, True, 2.5, (1,), "5", "None"])] = anything(rnd)
    return made


def record(rnd: random.Random) -> dict[Any, Any]:
    """A mapping that can most often be projected."""
    made = mutated(rnd, EVENT, list(EVENT), ["zzz", 5, None, True, 1.5, (1,)])
    if rnd.random() < 0.8:
        made["metadata"] = metadata(rnd)
    if rnd.random() < 0.3:
        made["event_type"] = rnd.choice(["Warning", " error ", "stop", "phase_exit", "peak"])
    if rnd.random() < 0.3:
        made["collector"] = rnd.choice(["stormlog.CUDA", "mps.cpu", "tensorflow", "x", "é.rocm"])
    return made


def projected(rnd: random.Random) -> tuple[str, Any]:
    made: Any = record(rnd)
    options: dict[str, Any] = {}
    if rnd.random() < 0.15:
        options["observed_timestamp_ns"] = rnd.choice([0, 5, -1, None, True, 1.5, "x"])
    if rnd.random() < 0.05:
        made = proxy(made)
    return rnd.choice(["project_mapping", "project_to_dict"]), (made, options)


def event(rnd: random.Random) -> tuple[str, Any]:
    base = rnd.choice([versioned(rnd), LEGACY, {**LEGACY, "timestamp": 3}])
    made = mutated(rnd, base, ["metadata", "context", "collector", "device_id", "event_type"], [])
    if rnd.random() < 0.5:
        made["metadata"] = metadata(rnd)
    if rnd.random() < 0.02:
        return "project_event", (anything(rnd),)
    return "project_event", (made,)


def views(rnd: random.Random) -> tuple[str, Any]:
    rows = []
    values = [anything(rnd) for _ in range(2)]
    for _ in range(rnd.randint(0, 5)):
        row = {**EVENT, "metadata": {}}
        key = rnd.choice(["host", "pid", "job_id", "rank", "device_id", "collector"])
        row[key] = rnd.choice([*values, 1, 1.0, True, "1", "a"])
        rows.append(row)
    return "unique_views", (rows,)
