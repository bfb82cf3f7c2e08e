"""Leaves out samples or adds noise, which should not change the findings. Labels that no longer
hold become optional: neither finding them nor missing them counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from derive.sets import Event, Trace, samples_of_sessions

# By definition, a spike lasts at least two samples, and the first rank leads by at least five.
FEWEST_OF_A_SPIKE = 2
FEWEST_OF_A_LEAD = 5


def thinned(
    trace: Trace, kept: Callable[[int], npt.NDArray[np.bool_]], samples_per_kept: float
) -> Trace:
    """The trace with only some samples of each session: `kept` gets their number and returns which
    ones stay."""
    dropped: set[int] = set()
    sessions = samples_of_sessions(trace.events)
    for samples in sessions.values():
        dropped.update(
            id(sample) for sample, keep in zip(samples, kept(len(samples)), strict=True) if not keep
        )
    interval_ns = int(trace.info["sample_interval_ns"] * samples_per_kept)
    findings: list[dict[str, Any]] = []
    optional = list(trace.info["optional"])
    for label in trace.info["findings"]:
        if label["kind"] == "transient_spike":
            raised = [
                sample
                for sample in samples_of_spike(sessions, label, trace)
                if id(sample) not in dropped
            ]
            if len(raised) < FEWEST_OF_A_SPIKE:
                optional.append(label)
            else:
                findings.append({**label, "onset_ns": raised[0]["timestamp_ns"]})
        elif (
            label["kind"] == "rank_first_cause"
            and label["magnitude"] < FEWEST_OF_A_LEAD * interval_ns
        ):
            optional.append(label)
        else:
            findings.append(label)
    info = {**trace.info, "findings": findings, "optional": optional, "clean": not findings}
    info["sample_interval_ns"] = interval_ns
    return replace(
        trace, events=[event for event in trace.events if id(event) not in dropped], info=info
    )


def samples_of_spike(
    sessions: dict[tuple[int, str], list[Event]], label: dict[str, Any], trace: Trace
) -> list[Event]:
    """The raised samples of a labelled spike, in whichever column it is."""
    longest: list[Event] = []
    for (rank, _), samples in sessions.items():
        if trace.rank_matters and rank != label["rank"]:
            continue
        for level in (allocated, hidden):
            raised = raised_since(samples, label, level)
            longest = max(longest, raised, key=len)
    return longest


def allocated(sample: Event) -> int:
    return int(sample["allocator_allocated_bytes"])


def hidden(sample: Event) -> int:
    return int(sample["device_used_bytes"] - sample["allocator_reserved_bytes"])


def raised_since(
    samples: list[Event], label: dict[str, Any], level: Callable[[Event], int]
) -> list[Event]:
    """The samples from a spike's onset on that stay near its height, above what was usual before."""
    first = sum(sample["timestamp_ns"] < label["onset_ns"] for sample in samples)
    usual = [level(sample) for sample in samples[max(0, first - 60) : first]]
    if not usual:
        return []
    # A quantile and not the maximum, because an earlier spike may be among them.
    least = np.quantile(usual, 0.9) + 0.4 * label["magnitude"]
    after = first
    while after < len(samples) and level(samples[after]) > least:
        after += 1
    return samples[first:after]


def longest_record(trace: Trace) -> int:
    """How many samples the best recorded session has."""
    return max(map(len, samples_of_sessions(trace.events).values()), default=0)


def with_noise(trace: Trace, rng: np.random.Generator) -> Trace:
    """Every allocation lowered by random noise of about a thousandth of the device's memory."""
    events = [dict(event) for event in trace.events]
    for event in events:
        held = event["allocator_allocated_bytes"]
        if event["event_type"] == "sample" and held:
            capacity = event["device_total_bytes"] or 1.5 * event["device_used_bytes"]
            event["allocator_allocated_bytes"] = max(
                0, held - int(abs(rng.normal(0, 0.001 * capacity)))
            )
    return replace(trace, events=events)
