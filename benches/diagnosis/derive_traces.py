"""Derives labelled traces from existing ones, to score the diagnosis on cases that are neither
purely synthetic nor the given ones.

    python benches/diagnosis/derive_traces.py SOURCE OUT KIND [--seed 1] [--copies 1] [--at-least 0]

SOURCE holds traces.json and labels.json as make_traces.py writes them; OUT becomes such a
directory, for score_diagnosis.py. KIND is one of

    anomalies       one to three anomalies more on one rank, labelled by what was put in
    decoys          ordinary behaviour that looks like trouble put into the clean traces, which
                    stay clean; the others are left out
    noise           every allocation lowered by noise of about a thousandth of the device's memory
    gaps            one sample in eight missing, at random
    first-of-two    of every two samples the first
    second-of-two   of every two samples the second

--copies makes several different traces of each (anomalies and decoys), --at-least leaves out runs
with fewer samples than that on their best recorded rank. A trace that cannot carry what is drawn
for it in several draws is left out, for example one that is too short, that has restarts, or whose
device is of unknown size. Where samples are dropped, the label of a spike that is left with one
sample, or of a first rank that leads by fewer than five samples, becomes optional.

Needs numpy. The same source and seed give the same traces every time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from derive.anomalies import with_anomalies
from derive.decoys import with_decoys
from derive.sets import Trace, Unsuitable, read_set, write_set
from derive.thinning import longest_record, thinned, with_noise

Kind = Callable[[Trace, np.random.Generator], Trace]
# How often something else is drawn for a trace before it is left out.
DRAWS = 6


def with_gaps(trace: Trace, rng: np.random.Generator) -> Trace:
    return thinned(trace, lambda count: rng.random(count) >= 1 / 8, samples_per_kept=8 / 7)


def first_of_two(trace: Trace, _: np.random.Generator) -> Trace:
    return thinned(trace, lambda count: np.arange(count) % 2 == 0, samples_per_kept=2)


def second_of_two(trace: Trace, _: np.random.Generator) -> Trace:
    return thinned(trace, lambda count: np.arange(count) % 2 == 1, samples_per_kept=2)


KINDS: dict[str, Kind] = {
    "anomalies": with_anomalies,
    "decoys": with_decoys,
    "noise": with_noise,
    "gaps": with_gaps,
    "first-of-two": first_of_two,
    "second-of-two": second_of_two,
}


def derived(source: Path, kind: Kind, seed: int, copies: int) -> Iterator[Trace]:
    """The traces of a set, changed; those that cannot be are left out."""
    for place, trace in enumerate(read_set(source)):
        for copy in range(copies):
            rng = np.random.default_rng([seed, place, copy])
            changed = first_suitable(kind, trace, rng)
            if changed is not None:
                yield changed if copies == 1 else replace(changed, name=f"{trace.name}-{copy}")


def first_suitable(kind: Kind, trace: Trace, rng: np.random.Generator) -> Trace | None:
    for _ in range(DRAWS):
        try:
            return kind(trace, rng)
        except Unsuitable:
            continue
    return None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--at-least", type=int, default=0)
    arguments = parser.parse_args()
    traces = derived(arguments.source, KINDS[arguments.kind], arguments.seed, arguments.copies)
    long_enough = (trace for trace in traces if longest_record(trace) >= arguments.at_least)
    count = write_set(arguments.out, long_enough)
    print(f"{count} traces in '{arguments.out}'")


if __name__ == "__main__":
    main()
