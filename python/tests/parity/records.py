"""Cases for records of every version, the event classes and the distributed identity."""

from __future__ import annotations

import random
from typing import Any

from .values import anything, mutated, proxy, scalar

EVENT: dict[Any, Any] = dict(
    schema_version=3, session_id="s", timestamp_ns=1, event_type="sample", collector="c",
    sampling_interval_ms=1, pid=1, host="h", job_id="j", rank=0, local_rank=0, world_size=1,
    device_id=0, allocator_allocated_bytes=1, allocator_reserved_bytes=1, allocator_active_bytes=1,
    allocator_inactive_bytes=1, allocator_change_bytes=1, device_used_bytes=1, device_free_bytes=1,
    device_total_bytes=10, context="x", metadata={},
)  # fmt: skip
LEGACY: dict[Any, Any] = dict(
    timestamp=1700000000.25, memory_allocated=100, memory_reserved=200, memory_change=-5,
    memory_mb=1.5, device="cuda:1", type="sample", message="m", backend="cuda", total_memory=1000,
    device_total=2000, total_bytes=3000, metadata={"k": 1}, metadata_x=4, metadata_rank=0,
    metadata_session_id="ms",
)  # fmt: skip
ALL_KEYS = [*EVENT, *LEGACY, "metadata_pid", "metadata_host", "metadata_backend", "metadata_"]
EXTRA = ["zzz", "Extra", "metadata_y", "\ud800", 5, None, ("t",)]
LAUNCHED = [
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_SIZE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_JOB_ID",
    "TORCHELASTIC_RUN_ID",
]  # fmt: skip
VARIABLES = [
    "0",
    "1",
    "2",
    "4",
    "8",
    "x",
    "",
    " ",
    " 3 ",
    "1_0",
    "+2",
    "\x1c3",
    "\u20035",
    "\u0663",
    "-1",
    "-0",
    "0x1",
    "1.0",
]
IDENTITY = ["job_id", "rank", "local_rank", "world_size"]


def case(rnd: random.Random) -> tuple[str, Any]:
    """One random case."""
    make = rnd.choice([validated, validated, converted, converted, converted, made, resolved])
    return make(rnd)


def versioned(rnd: random.Random) -> dict[Any, Any]:
    """A versioned record that is not yet broken."""
    record = {**EVENT, "schema_version": rnd.choice([2, 3, 3, 3])}
    if record["schema_version"] == 2 and rnd.random() < 0.9:
        del record["session_id"]
    if rnd.random() < 0.3:
        record.update(rank=rnd.randint(0, 4), local_rank=rnd.randint(0, 4), world_size=4)
    if rnd.random() < 0.3:
        record["metadata"] = {"k": anything(rnd), "session_id": anything(rnd), "rank": scalar(rnd)}
    return record


def validated(rnd: random.Random) -> tuple[str, Any]:
    record: Any = mutated(rnd, versioned(rnd), list(EVENT), EXTRA[:4])
    if record.get("schema_version") == 4:
        del record["schema_version"]
    if rnd.random() < 0.03:
        record = rnd.choice([proxy(record), anything(rnd), list(record.items())])
    return "validate", (record,)


def converted(rnd: random.Random) -> tuple[str, Any]:
    some = {key: LEGACY[key] for key in rnd.sample(list(LEGACY), 6)}
    base = dict(rnd.choice([versioned(rnd), LEGACY, {**some, "timestamp": 2}, {**EVENT, **LEGACY}]))
    if rnd.random() < 0.6:
        base.pop("schema_version", None)
    record: Any = mutated(rnd, base, ALL_KEYS, EXTRA)
    if record.get("schema_version") == 4:
        del record["schema_version"]
    if rnd.random() < 0.02:
        record = rnd.choice([proxy(record), anything(rnd)])
    options: dict[str, Any] = {}
    if rnd.random() < 0.3:
        options["default_session_id"] = rnd.choice(["d", "", None, " ", 5, "\ud800", [1]])
    if rnd.random() < 0.2:
        options["default_collector"] = rnd.choice(["dc", "", " ", 5, None])
    if rnd.random() < 0.2:
        options["default_sampling_interval_ms"] = rnd.choice([5, -1, "x", 1.5, None, True])
    if rnd.random() < 0.1:
        options["permissive_legacy"] = rnd.choice([False, 0, 1, None])
    return "from_record", (record, options)


def made(rnd: random.Random) -> tuple[str, Any]:
    version = rnd.choice([2, 3, 3])
    fields = {key: value for key, value in EVENT.items() if version == 3 or key != "session_id"}
    fields["schema_version"] = version
    values = mutated(rnd, fields, list(fields), [])
    if values.get("schema_version") == 4:
        values["schema_version"] = version
    return rnd.choice(["construct", "round_trip"]), (version, values)


def resolved(rnd: random.Random) -> tuple[str, Any]:
    options: dict[str, Any] = {}
    for key in IDENTITY:
        if rnd.random() < 0.4:
            options[key] = rnd.choice([0, 1, 2, 4]) if rnd.random() < 0.5 else anything(rnd)
    if rnd.random() < 0.5:
        options["metadata"] = {
            key: rnd.choice([0, 1, 2, 4]) if rnd.random() < 0.5 else anything(rnd)
            for key in rnd.sample(IDENTITY, 2)
        }
        if rnd.random() < 0.1:
            options["metadata"] = rnd.choice([None, {}, proxy({"rank": 1, "world_size": 2})])
    if rnd.random() < 0.6:
        options["env"] = {key: rnd.choice(VARIABLES) for key in rnd.sample(LAUNCHED, 5)}
    return "identity", (options,)
