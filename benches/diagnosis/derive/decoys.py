"""Ordinary behaviour put into a clean trace, on all its ranks alike; it stays clean.

Every change ends in the first quarter of the run, is taken back, is regular, is marked by a phase,
or is smaller than the smallest finding of its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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

# The latest that a load may end, as a share of the run, to leave a warm-up after it.
LATEST_LOAD = 0.18


@dataclass(frozen=True)
class Draws:
    """Three numbers from 0 to 1, the same for all ranks: how high, when or how often, and one more."""

    height: float
    time: float
    more: float


@dataclass(frozen=True)
class Setting:
    """What a behaviour may depend on, in shares: of the run for times, of the device for memory."""

    times: Column
    loaded: float
    floor: float

    @property
    def since_load(self) -> Column:
        return np.maximum(self.times - self.loaded, 0)

    def at_least_samples(self, length: float, samples: float) -> float:
        """The length, made longer if it would contain fewer samples than this."""
        return max(length, samples / len(self.times))


def collected_garbage(setting: Setting, draws: Draws) -> Column:
    """Rises and is collected again at long intervals."""
    rounds = setting.since_load / (0.1 + 0.2 * draws.time) + draws.more
    return (0.006 + 0.02 * draws.height) * (rounds % 1.0)


def given_back(setting: Setting, draws: Draws) -> Column:
    """A jump downwards."""
    share = 0.1 + 0.2 * draws.height
    return np.where(setting.times > 0.25 + 0.6 * draws.time, -share * setting.floor, 0.0)


def settling(setting: Setting, draws: Draws) -> Column:
    """Growth that flattens out in the warm-up."""
    lasts = min(0.02 + 0.03 * draws.time, (0.25 - setting.loaded) / 4)
    return (0.005 + 0.03 * draws.height) * (1 - np.exp(-setting.since_load / lasts))


def warm_up_step(setting: Setting, draws: Draws) -> Column:
    """A jump in the warm-up."""
    at = setting.loaded + (0.2 - setting.loaded) * draws.time
    return np.where(setting.times > at, 0.015 + 0.06 * draws.height, 0.0)


def small_step(setting: Setting, draws: Draws) -> Column:
    """A jump that is too small for a finding."""
    return np.where(setting.times > 0.3 + 0.5 * draws.time, 0.002 + 0.005 * draws.height, 0.0)


def small_drift(setting: Setting, draws: Draws) -> Column:
    """Growth that is too small for a finding."""
    begins = 0.2 + 0.3 * draws.time
    return 0.0018 * draws.height * np.clip((setting.times - begins) / (1 - begins), 0, 1)


def regular(setting: Setting, draws: Draws) -> Column:
    """Three or more evaluations without phase marks."""
    every = 0.09 + 0.17 * draws.time
    lasts = setting.at_least_samples(0.012 + 0.02 * draws.more, 3.2)
    if every < 2.5 * lasts:
        raise Unsuitable("sampled too rarely for evaluations")
    since = (setting.times - setting.loaded) % every - 0.5 * every
    return np.where((since > 0) & (since < lasts), 0.01 + 0.05 * draws.height, 0.0)


def warm_up_peak(setting: Setting, draws: Draws) -> Column:
    """A single excursion in the warm-up."""
    begins = max(setting.loaded + 0.02, 0.1 + 0.1 * draws.time)
    since = setting.times - begins
    lasts = setting.at_least_samples(0.012, 3.2)
    return np.where((since >= 0) & (since < lasts), 0.02 + 0.08 * draws.height, 0.0)


def marked_phase(setting: Setting, draws: Draws) -> tuple[float, float]:
    """When a marked evaluation begins and ends."""
    begins = 0.3 + 0.55 * draws.time
    return begins, begins + setting.at_least_samples(0.015, 4.2)


def marked(setting: Setting, draws: Draws) -> Column:
    """A single excursion that is marked as an evaluation."""
    begins, ends = marked_phase(setting, draws)
    inside = (setting.times >= begins) & (setting.times < ends)
    return np.where(inside, 0.01 + 0.06 * draws.height, 0.0)


Behaviour = Callable[[Setting, Draws], Column]

ALLOCATED: dict[str, Behaviour] = {
    "collected_garbage": collected_garbage,
    "given_back": given_back,
    "settling": settling,
    "warm_up_step": warm_up_step,
    "small_step": small_step,
}
HIDDEN: dict[str, Behaviour] = {
    "hidden_settling": settling,
    "hidden_warm_up_step": warm_up_step,
    "hidden_small_step": small_step,
    "hidden_small_drift": small_drift,
    "hidden_evaluations": regular,
}
ABOVE_PEAK: dict[str, Behaviour] = {
    "warm_up_peak": warm_up_peak,
    "evaluations": regular,
    "marked_evaluation": marked,
}
EMPTIED = "emptied_cache"


def with_decoys(trace: Trace, rng: np.random.Generator) -> Trace:
    """The clean trace with one to three kinds of ordinary behaviour more."""
    if trace.info["findings"]:
        raise Unsuitable("not clean")
    events = [dict(event) for event in trace.events]
    names = chosen_behaviour(trace.info, rng)
    draws = {name: Draws(*map(float, rng.random(3))) for name in names}
    for columns in columns_of_ranks(events, trace.info):
        setting = setting_of(columns)
        put_into(columns, setting, draws, events, rng)
        if "marked_evaluation" in names:
            mark(events, columns, marked_phase(setting, draws["marked_evaluation"]))
    info = {**trace.info, "decoys": trace.info["decoys"] + names}
    return replace(trace, events=events, info=info)


def chosen_behaviour(info: dict[str, Any], rng: np.random.Generator) -> list[str]:
    """One to three kinds of behaviour. At most one is an evaluation, so that rhythms do not mix."""
    possible = [*ALLOCATED, *HIDDEN, *ABOVE_PEAK, EMPTIED]
    if "gc" in info["decoys"]:
        possible.remove("collected_garbage")
    evaluated = bool({"evals", "eval_above", "few_phase_evals"} & set(info["decoys"]))
    chosen: list[str] = []
    for name in map(str, rng.permutation(possible)[: int(rng.integers(1, 4))]):
        is_evaluation = name in ("evaluations", "marked_evaluation")
        if not (is_evaluation and evaluated):
            chosen.append(name)
        evaluated |= is_evaluation
    if not chosen:
        raise Unsuitable("it has evaluations of its own")
    return chosen


def setting_of(columns: RankColumns) -> Setting:
    loaded = columns.loaded / columns.ends
    if loaded > LATEST_LOAD:
        raise Unsuitable("loads for too long")
    floor = float(np.quantile(columns.allocated[len(columns) // 4 :], 0.03)) / columns.capacity
    return Setting(columns.times / columns.ends, loaded, floor)


def put_into(
    columns: RankColumns,
    setting: Setting,
    draws: dict[str, Draws],
    events: list[Event],
    rng: np.random.Generator,
) -> None:
    """Write the columns of one rank with everything drawn."""

    def put(behaviours: dict[str, Behaviour]) -> Column:
        chosen = [
            behave(setting, draws[name]) for name, behave in behaviours.items() if name in draws
        ]
        total = sum(chosen, np.zeros(len(columns)))
        return np.where(setting.times > setting.loaded, total, 0.0) * columns.capacity

    floor_added, hidden_added, above = put(ALLOCATED), put(HIDDEN), put(ABOVE_PEAK)
    peak = float(np.quantile(columns.allocated[len(columns) // 4 :], 0.999))
    raised = (peak + above + floor_added) * (1 + rng.normal(0, 0.004, len(columns)))
    allocated = np.where(above > 0, raised, columns.allocated + floor_added)
    if columns.on_cpu:
        columns.write(allocated, allocated, np.zeros(len(columns)), events)
        return
    reserved = columns.reserved + whole_blocks(highest_so_far(np.maximum(floor_added, 0)))
    reserved = np.maximum(reserved, highest_so_far(whole_blocks(1.02 * allocated)))
    if EMPTIED in draws:
        empty_cache(
            reserved, allocated, peak, int((0.2 + 0.6 * draws[EMPTIED].time) * len(columns))
        )
    columns.write(
        allocated, reserved, columns.hidden + np.round(hidden_added / BLOCK) * BLOCK, events
    )


def empty_cache(reserved: Column, allocated: Column, peak: float, first: int) -> None:
    """Empty the cache at `first`: from then on it holds what was needed since, and at least the
    peak of a step."""
    needed = highest_so_far(whole_blocks(1.03 * allocated[first:]))
    least = min(1.02 * peak, float(reserved[first]))
    reserved[first:] = np.maximum(needed, np.ceil(least / BLOCK) * BLOCK)


def mark(events: list[Event], columns: RankColumns, phase: tuple[float, float]) -> None:
    """Put the events of a phase, given in shares of the run, before the samples that follow them."""
    # Entered shortly before its first sample, as a program would.
    begins = phase[0] - 0.2 / len(columns)
    for share, action in ((begins, "enter"), (phase[1], "exit")):
        moment_ns = columns.moment_ns(share * columns.ends)
        later = [sample for sample in columns.samples if sample["timestamp_ns"] >= moment_ns]
        scope = {"name": "evaluation", "path": ["evaluation"], "depth": 1, "action": action}
        event = {**later[0], "timestamp_ns": moment_ns, "event_type": f"phase_{action}"}
        event["metadata"] = {**later[0]["metadata"], "phase_scope": scope}
        place = next(index for index, other in enumerate(events) if other is later[0])
        events.insert(place, event)
