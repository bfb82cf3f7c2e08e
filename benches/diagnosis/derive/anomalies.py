"""Anomalies put into one rank of a trace, with the labels that follow from what was put in.

Each kind of anomaly has a definition of its smallest size, shortest duration and earliest onset,
and nothing that is put in is below that. Existing labels stay true: an anomaly that would change
one of them is not put in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from derive.sets import (
    BLOCK,
    Column,
    Event,
    RankColumns,
    Trace,
    Unsuitable,
    columns_of_ranks,
    highest_so_far,
    whole_blocks,
)

# The smallest and the largest size that is put in, as shares of the device's memory.
GROWTH, STEP, SPIKE = (0.0055, 0.15), (0.016, 0.15), (0.024, 0.15)
# The same, as shares of the highest allocation.
FRAGMENTATION = (0.2, 0.6)
SMALLEST_FRAGMENTATION = 0.18
# Garbage that is collected late hides anomalies of its own size.
GARBAGE_HIDES = {"leak": 8.0, "step": 3.0}
# The horizon is put this factor away from the true time until memory is full, so that the label
# (at risk or not) is certain.
SURE_OF_HORIZON = 2.1
NEVER_TOGETHER = (
    {"leak", "step"},
    {"drift", "hidden_step"},
    {"spike", "hidden_spike"},
    {"step", "hidden_step"},
    {"leak", "fragmentation"},
)
LASTING = {"leak", "drift", "step", "hidden_step", "fragmentation"}


@dataclass
class Addition:
    """What is added to the columns of a rank, and the labels for it."""

    columns: RankColumns
    label_rank: int | None
    allocated: Column = field(init=False)
    hidden: Column = field(init=False)
    cache: Column = field(init=False)
    spikes: list[tuple[int, int, float]] = field(default_factory=list)
    slowest_rate: float = 0.0
    fastest_rate: float = 0.0
    findings: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.allocated, self.hidden, self.cache = np.zeros((3, len(self.columns)))

    @property
    def room(self) -> float:
        """What the device has left."""
        columns = self.columns
        used = columns.reserved + columns.hidden + self.allocated + self.hidden
        return float(0.97 * columns.capacity - used.max())

    def label(
        self, kind: str, onset: float | None, magnitude: float, last: float | None = None
    ) -> None:
        """Note a finding; any onset up to `last` is right."""
        finding: dict[str, Any] = {"kind": kind, "rank": self.label_rank, "magnitude": magnitude}
        finding["onset_ns"] = None if onset is None else self.columns.moment_ns(onset)
        if last is not None:
            finding["onset_last_ns"] = self.columns.moment_ns(last)
        self.findings.append(finding)


@dataclass(frozen=True)
class Growth:
    """The shape of growth: a function from the share of time (0 to 1) to the share of the size, and
    the lowest and highest rate that one may read off at its end (1 is the rate of even growth)."""

    share: Callable[[Column], Column]
    slowest: float = 1.0
    fastest: float = 1.0

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Growth:
        """Even, in stairs, with pauses, or faster and faster."""
        match str(rng.choice(["even", "stairs", "pauses", "accelerating"])):
            case "stairs":
                stairs = int(rng.integers(9, 26))
                return cls(lambda part: np.ceil(part * stairs - 1e-9) / stairs)
            case "pauses":
                return cls.with_pauses(rng)
            case "accelerating":
                power = float(rng.uniform(1.5, 3))
                return cls(lambda part: part**power, 0.9 * power, power)
        return cls(lambda part: part)

    @classmethod
    def with_pauses(cls, rng: np.random.Generator) -> Growth:
        """Two to four pauses that do not overlap, the last of them over before the end."""
        count = int(rng.integers(2, 5))
        lasts = rng.uniform(0.04, 0.1, count)
        begins = 0.1 + 0.75 * (np.arange(count) + rng.uniform(0, 0.4, count)) / count

        def share(part: Column) -> Column:
            paused = sum(np.clip(part - begin, 0, last) for begin, last in zip(begins, lasts))
            return np.asarray((part - paused) / (1 - lasts.sum()))

        return cls(share, 1.0, float(1 / (1 - lasts.sum())))


def with_anomalies(trace: Trace, rng: np.random.Generator) -> Trace:
    """The trace with one to three anomalies more, all on one rank."""
    events = [dict(event) for event in trace.events]
    columns = chosen_rank(columns_of_ranks(events, trace.info), trace.info, rng)
    names = chosen_anomalies(possible_anomalies(trace.info, columns.on_cpu), trace.info, rng)
    addition = Addition(columns, columns.rank if trace.rank_matters else None)
    for name in sorted(names & {"leak", "drift"}):
        add_growth(addition, name, smallest_factor(trace.info, name), rng)
    for name in sorted(names & {"step", "hidden_step"}):
        add_step(addition, name, smallest_factor(trace.info, name), rng)
    for name in sorted(names & {"spike", "hidden_spike"}):
        add_spikes(addition, name, phases_of(events, columns), rng)
    allocated = allocated_with(addition, rng)
    if "fragmentation" in names:
        add_fragmentation(addition, float(allocated.max()), rng)
    reserved = reserved_with(addition, allocated)
    if "fragmentation" in names:
        check_fragmentation(addition, allocated, reserved)
    horizon = trace.horizon_hours
    if addition.fastest_rate > 0:
        horizon = horizon_of_growth(addition, rng)
    columns.write(
        allocated, reserved, columns.hidden + np.round(addition.hidden / BLOCK) * BLOCK, events
    )
    info = labelled(trace, addition, names, horizon)
    return replace(trace, events=events, info=info, horizon_hours=horizon)


def chosen_rank(
    ranks: list[RankColumns], info: dict[str, Any], rng: np.random.Generator
) -> RankColumns:
    """Any rank, more often than not one that has a finding already."""
    named = {label["rank"] for label in info["findings"]}
    with_finding = [columns for columns in ranks if columns.rank in named]
    if with_finding and rng.random() < 0.6:
        return with_finding[0]
    return ranks[int(rng.integers(len(ranks)))]


def possible_anomalies(info: dict[str, Any], on_cpu: bool) -> list[str]:
    """The anomalies that leave the labels of a trace true; a name that is listed twice is drawn
    more often."""
    present = {label["kind"] for label in info["findings"]}
    if present & {"rank_first_cause", "oom_risk"}:
        raise Unsuitable("what one rank does more would change who began, or when memory ends")
    names = [] if "transient_spike" in present else ["spike", "hidden_spike"]
    # A spike does not change the typical allocation of a rank; every other anomaly does.
    if "rank_imbalance" not in present:
        # Beside growing memory, a jump or a second growth would let memory run out earlier.
        if not present & {"allocator_leak", "hidden_drift", "step_change"}:
            names += ["drift", "drift", "hidden_step"]
            # Memory that the program gives back would hide memory that grows.
            names += [] if "down_step" in info["decoys"] else ["leak", "leak", "step"]
        if not present & {"fragmentation", "allocator_leak"}:
            names.append("fragmentation")
    if on_cpu:
        names = [name for name in names if name in ("leak", "step", "spike")]
    return names


def chosen_anomalies(
    possible: list[str], info: dict[str, Any], rng: np.random.Generator
) -> set[str]:
    """One to three anomalies that can be distinguished from each other."""
    wanted = int(rng.choice([1, 2, 3], p=[0.5, 0.4, 0.1]))
    if info["findings"]:
        wanted = min(wanted, 2)
    chosen: set[str] = set()
    for name in map(str, rng.permutation(possible)):
        if len(chosen) < wanted and not any(pair <= chosen | {name} for pair in NEVER_TOGETHER):
            chosen.add(name)
    if not chosen:
        raise Unsuitable("nothing more can be wrong with it")
    return chosen


def smallest_factor(info: dict[str, Any], name: str) -> float:
    """How much larger than usual an anomaly must be to be seen."""
    return GARBAGE_HIDES.get(name, 1.0) if "gc" in info["decoys"] else 1.0


def size_between(smallest: float, largest: float, rng: np.random.Generator) -> float:
    """A random size on a logarithmic scale, so that small ones are as likely as large ones."""
    if largest < smallest:
        raise Unsuitable("the device has no room for it")
    return float(np.exp(rng.uniform(np.log(smallest), np.log(largest))))


def add_growth(addition: Addition, name: str, factor: float, rng: np.random.Generator) -> None:
    """Growth from some time after the load to the end, for two fifths of the run or more."""
    columns, ends = addition.columns, addition.columns.ends
    smallest, largest = (share * columns.capacity for share in GROWTH)
    size = size_between(factor * smallest, min(largest, 0.8 * addition.room), rng)
    if columns.loaded > 0.5 * ends:
        raise Unsuitable("loads for too long")
    onset = rng.uniform(columns.loaded + 0.015 * ends, 0.58 * ends)
    growth = Growth.drawn(rng)
    grown = size * growth.share(np.clip((columns.times - onset) / (ends - onset), 0, 1))
    if name == "leak":
        addition.allocated += grown
    else:
        addition.hidden += grown
    parts = np.linspace(0, 1, 4001)
    tenth = parts[np.argmax(growth.share(parts) >= 0.1)]
    addition.slowest_rate += growth.slowest * size / (ends - onset)
    addition.fastest_rate += growth.fastest * size / (ends - onset)
    kind = "allocator_leak" if name == "leak" else "hidden_drift"
    addition.label(kind, onset, size, onset + float(tenth) * (ends - onset))


def add_step(addition: Addition, name: str, factor: float, rng: np.random.Generator) -> None:
    """A jump after the warm-up that lasts to the end."""
    columns = addition.columns
    smallest, largest = (share * columns.capacity for share in STEP)
    size = size_between(factor * smallest, min(largest, 0.8 * addition.room), rng)
    onset = rng.uniform(0.3, 0.8) * columns.ends
    jump = np.where(columns.times >= onset, size, 0.0)
    if name == "step":
        addition.allocated += jump
    else:
        addition.hidden += jump
    addition.label("step_change", onset, size)


def add_spikes(
    addition: Addition, name: str, phases: list[tuple[float, float]], rng: np.random.Generator
) -> None:
    """One to three excursions that are not regular, away from phases and from missed samples."""
    columns = addition.columns
    times, count = columns.times, len(columns)
    apart = float(np.median(np.diff(times)))
    longest = max(3, int(min(9, 0.03 * count) if count < 300 else 0.028 * count))
    smallest, largest = (share * columns.capacity for share in SPIKE)
    for moment in irregular_moments(int(rng.choice([1, 1, 2, 3])), rng):
        first = int(np.searchsorted(times, moment * columns.ends))
        after = first + int(rng.integers(2, longest + 1))
        if after + 3 >= count or np.diff(times[first : after + 1]).max() > 1.7 * apart:
            raise Unsuitable("samples are missing there")
        if any(
            enter - 4 * apart <= times[after] and times[first] <= leave + 4 * apart
            for enter, leave in phases
        ):
            raise Unsuitable("a phase explains it")
        size = size_between(smallest, min(largest, 0.9 * addition.room), rng)
        if name == "spike":
            addition.spikes.append((first, after, size))
        else:
            addition.hidden[first:after] += size * (1 + rng.normal(0, 0.015, after - first))
        addition.label("transient_spike", float(times[first]), size)


def irregular_moments(count: int, rng: np.random.Generator) -> Column:
    """Shares of the run, after the warm-up, far enough from each other, without a rhythm."""
    moments = np.sort(rng.uniform(0.3, 0.93, count))
    gaps = np.diff(moments)
    if count > 1 and gaps.min() < 0.07:
        raise Unsuitable("two spikes are one")
    if count > 2 and abs(gaps[0] / gaps[1] - 1) < 0.25:
        raise Unsuitable("three spikes are a rhythm")
    return moments


def phases_of(events: list[Event], columns: RankColumns) -> list[tuple[float, float]]:
    """When the rank entered and left its phases, the load aside."""
    entered: dict[str, float] = {}
    phases = []
    marks = [
        event
        for event in events
        if event["rank"] == columns.rank and event["event_type"].startswith("phase")
    ]
    for event in sorted(marks, key=lambda event: int(event["timestamp_ns"])):
        name = event["metadata"]["phase_scope"]["name"]
        time = (event["timestamp_ns"] - columns.began_ns) / 1e9
        if name != "model_load" and event["event_type"] == "phase_enter":
            entered[name] = time
        elif name in entered:
            phases.append((entered.pop(name), time))
    return phases + [(time, columns.ends) for time in entered.values()]


def add_fragmentation(addition: Addition, highest: float, rng: np.random.Generator) -> None:
    """A cache that grows several times, further and further above the highest allocation."""
    columns = addition.columns
    smallest, largest = (share * highest for share in FRAGMENTATION)
    size = size_between(smallest, min(largest, 0.9 * addition.room), rng)
    onset, ends = rng.uniform(0.28, 0.5) * columns.ends, rng.uniform(0.65, 0.95) * columns.ends
    climbs = int(rng.integers(5, 14))
    times = np.sort(np.append(rng.uniform(onset, ends, climbs - 1), onset))
    shares = rng.dirichlet(np.full(climbs, 3.0))
    for time, share in zip(times, shares):
        addition.cache += np.where(columns.times >= time, share * size, 0.0)
    tenth = float(times[np.argmax(np.cumsum(shares) >= 0.1)])
    addition.label("fragmentation", onset, size, tenth)


def check_fragmentation(addition: Addition, allocated: Column, reserved: Column) -> None:
    """Check that the cache above the highest allocation has grown by as much as the definition of
    fragmentation asks for, whatever else has changed."""
    excess = reserved - highest_so_far(allocated)
    first = int(np.argmax(addition.cache > 0))
    if excess[first:].min() < excess[first - 1] or (
        excess[-1] - excess[first - 1] < SMALLEST_FRAGMENTATION * allocated.max()
    ):
        raise Unsuitable("the cache was emptied, or filled by something else")


def allocated_with(addition: Addition, rng: np.random.Generator) -> Column:
    """The allocations; a spike reaches above all that was allocated."""
    columns = addition.columns
    allocated = columns.allocated + addition.allocated
    for first, after, size in addition.spikes:
        level = columns.allocated.max() + addition.allocated[first:after] + size
        allocated[first:after] = level * (1 + np.abs(rng.normal(0, 0.002, after - first)))
    return allocated


def reserved_with(addition: Addition, allocated: Column) -> Column:
    """The cache: it holds what was ever allocated, a spike's too, and what is fragmented."""
    columns = addition.columns
    if columns.on_cpu:
        return allocated
    reserved = columns.reserved + whole_blocks(highest_so_far(addition.allocated))
    for first, after, _ in addition.spikes:
        needed = highest_so_far(whole_blocks(1.03 * allocated[first:after]))
        reserved[first:after] = np.maximum(reserved[first:after], needed)
        reserved[after:] = np.maximum(reserved[after:], needed[-1])
    return np.maximum(reserved + whole_blocks(addition.cache), allocated)


def horizon_of_growth(addition: Addition, rng: np.random.Generator) -> float:
    """A horizon in hours: mostly one within which memory surely does not run out, sometimes one
    within which it surely does (labelled as a risk).

    A step's normal peak, and the rate at the end of growth that pauses or accelerates, can be
    estimated in several ways; the label is right for all of them.
    """
    columns = addition.columns
    steady = columns.allocated[len(columns) // 4 :]
    late = columns.allocated[-(len(columns) // 4) :]
    cached = min(float(columns.reserved[-1]), 1.02 * columns.allocated.max())
    peaks = [np.quantile(steady, 0.99), steady.max(), np.quantile(late, 0.95), late.max(), cached]
    hidden = float(np.median(columns.hidden[len(columns) // 2 :]))
    held = hidden + addition.allocated[-1] + addition.hidden[-1]
    nearest = float(columns.capacity - max(peaks) - held) / addition.fastest_rate / 3600
    farthest = float(columns.capacity - min(peaks) - held) / addition.slowest_rate / 3600
    if nearest <= 0:
        raise Unsuitable("memory has ended already")
    if rng.random() < 0.35:
        addition.label("oom_risk", None, farthest)
        return float(SURE_OF_HORIZON * farthest * rng.uniform(1, 4))
    return float(nearest / SURE_OF_HORIZON / rng.uniform(1, 4))


def labelled(
    trace: Trace, addition: Addition, names: set[str], horizon_hours: float
) -> dict[str, Any]:
    """The labels of the trace together with those of what was added."""
    findings = trace.info["findings"] + addition.findings
    optional = list(trace.info["optional"])
    if trace.rank_matters and names & LASTING:
        # The rank holds more than others, which the anomaly explains.
        optional.append({"kind": "rank_imbalance", "rank": addition.columns.rank})
    in_bytes = [
        label["magnitude"] for label in findings if not label["kind"].startswith(("rank", "oom"))
    ]
    return {
        **trace.info,
        "findings": findings,
        "optional": optional,
        "clean": False,
        "difficulty": "hard" if min(in_bytes) < 0.02 * addition.columns.capacity else "easy",
        "scenario": "+".join([trace.info["scenario"], *sorted(names)]),
        "oom_horizon_hours": horizon_hours,
    }
