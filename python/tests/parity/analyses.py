"""Cases for phases, markers, gaps, ranks, collectives and profiles."""

from __future__ import annotations

import random
from typing import Any

from .values import anything

GIB = 1 << 30
SECOND = 10**9
TYPES = ["sample"] * 12 + ["SAMPLE", " sample", "start", "stop", "warning", "critical", "error",
                           "collector_degraded", "collector_recovered", "nccl", "marker"]  # fmt: skip
CONTEXTS = [None, None, None, "", "  ", "Some text ", "all-reduce done", "Broad_Cast", "room"]
METADATA: list[dict[str, Any]] = [
    {}, {}, {}, {"oom_reason": "r"}, {"oom_dump_path": None}, {"a": ["NCCL"]}, {"nccl": 1},
    {"op": {"kind": "reduce-scatter"}}, {"origin_thread_id": 1}, {"origin_phase_scope_id": "s:1"},
]  # fmt: skip
NAMES = ["train", "load", "fwd", "bwd", "", " ", "eval"]


def case(rnd: random.Random) -> tuple[str, Any]:
    """One random case."""
    return rnd.choice([gaps, ranks, ranks, collectives, markers, replay, replay, loose, patterns,
                       insights, configuration])(rnd)  # fmt: skip


def series(rnd: random.Random) -> list[dict[str, Any]]:
    """Events of a few ranks, with growth, jumps and noise, and often with flaws."""
    world = rnd.choice([1, 1, 2, 3, 4])
    count = rnd.choice([0, 1, 2, 3, 4, 5, 6, 8, 12, 20, 40])
    step = rnd.choice([SECOND, SECOND // 10, SECOND // 20, 1, 0])
    jobs = rnd.choice([[None], [None], ["j"], ["j", None], ["j", "k"]])
    total = rnd.choice([16 * GIB, 16 * GIB, 80 * GIB, None])
    events = []
    for rank in range(world):
        if world > 1 and rnd.random() < 0.15:
            continue
        start = rnd.choice([0, 0, rnd.randint(0, 20) * SECOND, rnd.randint(0, 10**8)])
        base, reserved = rnd.randint(0, 4) * GIB, rnd.randint(0, 4 * GIB)
        slope = rnd.choice([0, 0, rnd.randint(0, GIB // 4), -(GIB // 50)])
        jumps = {rnd.randint(0, count): rnd.randint(0, 3 * GIB) for _ in range(rnd.randint(0, 2))}
        stays = rnd.random() < 0.5
        noise = rnd.choice([0, 1 << 20, 64 << 20])
        for n in range(count):
            extra = sum(size for at, size in jumps.items() if at <= n) if stays else jumps.get(n, 0)
            used = max(0, base + reserved + slope * n + extra + rnd.randint(-noise, noise))
            limit = total or used
            held = max(0, reserved + rnd.randint(-noise, noise))
            events.append(
                {
                    "t": start + n * step + (rnd.randint(-3, 3) if rnd.random() < 0.05 else 0),
                    "type": rnd.choice(TYPES) if rnd.random() < 0.3 else "sample",
                    "rank": rank,
                    "ws": rnd.choice([world, world, world, 8, 1]) if world > 1 else 1,
                    "used": min(used, limit),
                    "res": held,
                    "alloc": int(held * rnd.choice([1, 1, 0.9, 0.5, 0.1])),
                    "total": total if rnd.random() < 0.97 else None,
                    "ms": rnd.choice([100, 100, 1000, 0]),
                    "pid": rnd.choice([1, 1, 2]),
                    "sid": rnd.choice(["s", "s", "u"]),
                    "job": rnd.choice(jobs),
                    "ctx": rnd.choice(CONTEXTS) if rnd.random() < 0.2 else None,
                    "meta": rnd.choice(METADATA) if rnd.random() < 0.2 else {},
                }
            )
    for event in events:
        event["t"] = max(0, event["t"])
        event["ws"] = max(event["ws"], event["rank"] + 1)
    if rnd.random() < 0.1:
        rnd.shuffle(events)
    if rnd.random() < 0.3:
        events += boundaries(rnd, (count or 1) * (step or 1), world)
    return events


def boundaries(rnd: random.Random, end: int, world: int) -> list[dict[str, Any]]:
    """Phases that are entered and, mostly, left."""
    events = []
    for sequence in range(1, rnd.randint(1, 8)):
        action = rnd.choice(["enter", "enter", "exit"])
        depth = rnd.randint(1, 3)
        path = [rnd.choice(NAMES) for _ in range(depth)]
        opened = rnd.randint(1, sequence)
        scope = {
            "action": action,
            "name": path[-1] or "x",
            "path": path,
            "depth": depth,
            "scope_id": f"s:{opened}",
            "parent_scope_id": rnd.choice([None, "s:1"]),
            "thread_id": rnd.choice([1, 1, 1, 2]),
            "thread_name": "T",
            "sequence": sequence,
        }
        if rnd.random() < 0.1:
            key = rnd.choice(list(scope))
            scope[key] = rnd.choice([None, 5, "x", ["a", 3], ["a", " ", "b"], 1.5])
        events.append(
            {
                "t": rnd.randint(0, max(1, end)) if rnd.random() < 0.5 else sequence,
                "type": f"phase_{action}",
                "rank": rnd.randrange(world),
                "ws": world,
                "sid": "s",
                "meta": {"phase_scope": scope},
            }
        )
    return events


def thresholds(rnd: random.Random) -> dict[str, float]:
    limits = {"gap_ratio_threshold": 0.05, "gap_spike_zscore": 2.0, "gap_drift_r_squared": 0.6,
              "gap_fragmentation_ratio": 0.3}  # fmt: skip
    if rnd.random() < 0.3:
        limits[rnd.choice(list(limits))] = rnd.choice([0.01, 0.5, 1.0, 3.0])
    return limits


def gaps(rnd: random.Random) -> tuple[str, Any]:
    return "gap_findings", (series(rnd), thresholds(rnd), rnd.random() < 0.3)


def ranks(rnd: random.Random) -> tuple[str, Any]:
    return "cross_rank", (series(rnd), rnd.random() < 0.3)


def collectives(rnd: random.Random) -> tuple[str, Any]:
    overrides = {}
    if rnd.random() < 0.4:
        overrides = {rnd.choice(["min_confidence", "min_synchrony_ratio"]): rnd.choice([0, 0.2])}
    if rnd.random() < 0.2:
        overrides[rnd.choice(["min_gap_bytes", "min_gap_ratio"])] = rnd.choice([0, 0.001])
    preset = rnd.choice(["low", "medium", "high", "high"])
    return "collective", (series(rnd), preset, overrides, rnd.random() < 0.3)


def markers(rnd: random.Random) -> tuple[str, Any]:
    return "timeline", (series(rnd), rnd.random() < 0.8, rnd.random() < 0.3)


def replay(rnd: random.Random) -> tuple[str, Any]:
    events = boundaries(rnd, 60, 2) + [{"t": rnd.randint(0, 90), "rank": 0} for _ in range(2)]
    for event in events:
        event.setdefault("sid", "s")
        event["ws"] = 2
    moment = {
        "timestamp_ns": rnd.randint(0, 90),
        "session_id": rnd.choice(["s", "s", "s", "other", None]),
        "rank": rnd.choice([None, 0, 0, 1]),
        "origin_thread_id": rnd.choice([None, None, 1, 2]),
        "origin_phase_scope_id": rnd.choice([None, None, "s:1", "s:2"]),
    }
    return "phase_replay", (events, moment)


def loose(rnd: random.Random) -> tuple[str, Any]:
    """Mappings of which anything may be missing or wrong."""
    events = []
    for event in boundaries(rnd, 60, 2) + [{"type": rnd.choice(TYPES), "t": n} for n in range(4)]:
        record = {
            "event_type": event["type"],
            "timestamp_ns": event["t"],
            "session_id": "s",
            "rank": event.get("rank", 0),
            "metadata": event.get("meta", rnd.choice(METADATA)),
            "context": rnd.choice(CONTEXTS),
            "local_rank": 0,
            "world_size": 2,
        }
        for key in list(record):
            kind = rnd.random()
            if kind < 0.05:
                del record[key]
            elif kind < 0.1:
                wrong = rnd.choice(["1", " 2 ", "x", None, 1.5, 7])
                record[key] = wrong if key != "metadata" else anything(rnd)
        events.append(record)
    return "loose_events", (events,)


def calls(rnd: random.Random) -> list[tuple[Any, ...]]:
    """Profiled calls of a few functions."""
    mib = 1 << 20
    functions = [(f"f{n}", rnd.randint(1, 200), rnd.random()) for n in range(rnd.randint(0, 5))]
    made = []
    allocated = rnd.randint(0, 500) * mib
    for place in range(rnd.choice([0, 1, 2, 3, 5, 9, 10, 15, 40])):
        if not functions:
            break
        name, size, leak = rnd.choice(functions)
        seconds = rnd.choice([0.0, rnd.random(), rnd.random() * 0.1, 0.25])
        grown = size * mib if rnd.random() < leak else -rnd.randint(0, 5) * mib
        before, allocated = allocated, max(0, allocated + grown)
        taken = rnd.choice([0, size * mib, size * mib * rnd.randint(1, 30)])
        peak = max(before, allocated) + rnd.randint(0, size) * mib
        reserved = int(allocated * rnd.choice([1, 1.2, 2, 4, 0]))
        made.append((name, seconds, before, allocated, peak, taken, 0, place * 1.5, reserved))
    return made


def patterns(rnd: random.Random) -> tuple[str, Any]:
    return "profile_report", (calls(rnd), series(rnd) if rnd.random() < 0.3 else None)


def insights(rnd: random.Random) -> tuple[str, Any]:
    return "profile_insights", (calls(rnd),)


def configuration(rnd: random.Random) -> tuple[str, Any]:
    names = ["min_samples_per_rank", "min_gap_bytes", "min_gap_ratio", "robust_zscore_threshold",
             "marker_window_ns", "min_synchrony_ratio", "min_confidence", "preset", "other"]  # fmt: skip
    overrides = {name: rnd.choice([0, 1, 3, 5, -1, 0.5, 2.0]) for name in names
                 if rnd.random() < 0.15}  # fmt: skip
    return "collective_config", (rnd.choice(["low", " High ", "", "medium", "none"]), overrides)
