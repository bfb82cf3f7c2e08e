"""Labelled sets on disk, and the samples of a rank as columns.

Knows traces.json and labels.json as benches/diagnosis/make_traces.py writes them; knows nothing of what is
derived from them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Event: TypeAlias = dict[str, Any]
Column: TypeAlias = npt.NDArray[np.float64]

# The allocator and the device hand out memory in multiples of this.
BLOCK = 2 * 2**20
# Nothing is put into shorter recordings: an anomaly could not be distinguished from a warm-up.
FEWEST_SAMPLES = 70
HELD = (
    "allocator_allocated_bytes",
    "allocator_reserved_bytes",
    "device_used_bytes",
    "device_free_bytes",
)


class Unsuitable(Exception):
    """What was drawn cannot be put into this trace; another draw may fit."""


@dataclass(frozen=True)
class Trace:
    """One recording with its labels."""

    name: str
    events: list[Event]
    info: dict[str, Any]
    horizon_hours: float

    @property
    def rank_matters(self) -> bool:
        return bool(self.info["world_size"] > 1)


def read_set(directory: Path) -> Iterator[Trace]:
    """The traces of a set, in the order of its list."""
    truth = json.loads((directory / "labels.json").read_text())["traces"]
    for name, entry in json.loads((directory / "traces.json").read_text()).items():
        path = directory / entry["file"]
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            events = [json.loads(line) for line in lines]
        yield Trace(name, events, truth[name], entry["oom_horizon_hours"])


def write_set(directory: Path, traces: Iterable[Trace]) -> int:
    """Write a set; return the number of traces."""
    (directory / "traces").mkdir(parents=True, exist_ok=True)
    listed, truth = {}, {}
    for trace in traces:
        file = f"traces/{trace.name}.jsonl.gz"
        lines = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in trace.events)
        # Without the time of writing, so that the same set is the same bytes.
        (directory / file).write_bytes(gzip.compress(lines.encode(), compresslevel=1, mtime=0))
        listed[trace.name] = {"file": file, "oom_horizon_hours": trace.horizon_hours}
        truth[trace.name] = trace.info
    (directory / "traces.json").write_text(json.dumps(listed))
    (directory / "labels.json").write_text(json.dumps({"traces": truth}))
    return len(listed)


def samples_of_sessions(events: list[Event]) -> dict[tuple[int, str], list[Event]]:
    """The samples of each rank's sessions, in time order."""
    sessions: dict[tuple[int, str], list[Event]] = {}
    for event in events:
        if event["event_type"] == "sample":
            sessions.setdefault((event["rank"], event["session_id"]), []).append(event)
    for samples in sessions.values():
        samples.sort(key=lambda event: int(event["timestamp_ns"]))
    return sessions


class RankColumns:
    """The samples of one rank as columns; times are seconds since the run began, on its own clock."""

    def __init__(self, samples: list[Event], length_s: float, began_ns: int | None) -> None:
        self.samples = samples
        self.rank: int = samples[0]["rank"]
        self.on_cpu: bool = samples[0]["device_id"] < 0
        self.capacity = capacity_of(samples)
        if began_ns is None:
            # Clocks differ and some recorders attach late, but all ranks end together.
            began_ns = samples[-1]["timestamp_ns"] - int(length_s * 1e9)
        self.began_ns: int = min(began_ns, samples[0]["timestamp_ns"])
        self.times = np.array(
            [(sample["timestamp_ns"] - self.began_ns) / 1e9 for sample in samples]
        )
        self.allocated = self._column("allocator_allocated_bytes")
        self.reserved = self._column("allocator_reserved_bytes")
        self.hidden = self._column("device_used_bytes") - self.reserved

    def __len__(self) -> int:
        return len(self.samples)

    def _column(self, name: str) -> Column:
        return np.array([sample[name] for sample in self.samples], dtype=np.float64)

    @property
    def ends(self) -> float:
        """The time of the last sample."""
        return float(self.times[-1])

    @property
    def loaded(self) -> float:
        """When the model was loaded: the time at which most of the later allocation was reached."""
        later = np.median(self.allocated[len(self) // 4 :])
        return float(self.times[np.argmax(self.allocated >= 0.6 * later)])

    def moment_ns(self, time: float) -> int:
        """A time of this rank as its clock shows it."""
        return int(self.began_ns + time * 1e9)

    def write(
        self, allocated: Column, reserved: Column, hidden: Column, events: list[Event]
    ) -> None:
        """Put columns into the samples, and adapt the other records of the rank in `events`, the
        events of the whole trace."""
        used = reserved + hidden
        if allocated.min() < 0 or used.max() > 0.995 * self.capacity:
            raise Unsuitable("more or less memory than the device has")
        for sample, *held in zip(self.samples, allocated, reserved, used, strict=True):
            sample.update(zip(HELD, map(int, held)))
            sample.update(allocator_active_bytes=None, allocator_inactive_bytes=None)
            if sample["device_free_bytes"] is not None:
                sample["device_free_bytes"] = int(self.capacity) - sample["device_used_bytes"]
        self._write_records_between(events)

    def _write_records_between(self, events: list[Event]) -> None:
        """Give every start, phase and error the counters of the sample before it."""
        stamps = [sample["timestamp_ns"] for sample in self.samples]
        for event in events:
            if event["rank"] == self.rank and event["event_type"] != "sample":
                before = int(np.searchsorted(stamps, event["timestamp_ns"], side="right")) - 1
                if before >= 0:
                    event.update({name: self.samples[before][name] for name in HELD})
                    event.update(allocator_active_bytes=None, allocator_inactive_bytes=None)


def capacity_of(samples: list[Event]) -> float:
    """The device's memory, where it is recorded or can be derived."""
    first = samples[0]
    if first["device_total_bytes"] is not None:
        return float(first["device_total_bytes"])
    if first["device_free_bytes"] is None:
        raise Unsuitable("the size of the device is unknown")
    return float(first["device_used_bytes"] + first["device_free_bytes"])


def columns_of_ranks(events: list[Event], info: dict[str, Any]) -> list[RankColumns]:
    """One per rank; a restarted rank or a short record is unsuitable."""
    sessions = samples_of_sessions(events)
    if len({rank for rank, _ in sessions}) < len(sessions):
        raise Unsuitable("a rank was restarted")
    if min(map(len, sessions.values())) < FEWEST_SAMPLES:
        raise Unsuitable("too short")
    length_s = (info["end_ns"] - info["start_ns"]) / 1e9
    began_ns = info["start_ns"] if info["world_size"] == 1 else None
    return [RankColumns(sessions[key], length_s, began_ns) for key in sorted(sessions)]


def whole_blocks(held: Column) -> Column:
    """Bytes rounded up to whole blocks."""
    return np.ceil(held / BLOCK) * BLOCK


def highest_so_far(column: Column) -> Column:
    """What a cache that is never emptied would hold."""
    return np.asarray(np.maximum.accumulate(column))
