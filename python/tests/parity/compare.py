"""Runs the same cases in two interpreters and says where the answers differ."""

from __future__ import annotations

import os
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import analyses, artifacts, labels, projections, records, sessions

Case = tuple[str, Any]
Outcome = tuple[str, str]

GROUPS: dict[str, Callable[[random.Random], Case]] = {
    "records": records.case,
    "sessions": sessions.case,
    "projections": projections.case,
    "labels": labels.case,
    "analyses": analyses.case,
    "artifacts": artifacts.case,
}
WORKER = Path(__file__).with_name("worker.py")
SHOWN = 12
WRONG_TYPE = ("TypeError", "AttributeError")
# Messages of stormlog 0.3.9 that begin so come from Python itself; ours may be worded differently.
PYTHON_WORDS = ("invalid literal", "cannot convert", "int() argument", "dictionary update", "'<'")


def cases(group: str, seed: int, count: int) -> list[Case]:
    rnd = random.Random(f"{group}-{seed}")
    return [GROUPS[group](rnd) for _ in range(count)]


def answers(python: str, given: list[Case]) -> list[Outcome]:
    """What the package of an interpreter answers; hash order is the same in each."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": ""}
    done = subprocess.run(
        [python, str(WORKER)],
        input=pickle.dumps(given),
        stdout=subprocess.PIPE,
        check=True,
        env=environment,
        cwd=WORKER.parent,
    )
    result: list[Outcome] = pickle.loads(done.stdout)
    return result


def agree(reference: Outcome, ours: Outcome) -> bool:
    """Whether the answers are the same, or differ only where they may."""
    if reference == ours or (reference[0] == ours[0] and spelled(reference[1]) == ours[1]):
        return True
    if ours == ("ValueError", "record must be a mapping") and reference[0] in WRONG_TYPE:
        return True
    if "signed 64-bit" in ours[1]:
        return True
    if reference[0] in WRONG_TYPE and ours[0] in WRONG_TYPE:
        return True
    if reference[0] == "UnicodeError" and ours[0] in ("value", "UnicodeError"):
        return True  # a lone surrogate in a derived session id: no error here
    if reference[0] == ours[0] == "JSONDecodeError":
        return True  # the wording is Python's
    numbers = ("ValueError", "OverflowError")
    same = reference[0] == ours[0] or (reference[0] in numbers and ours[0] in numbers)
    return same and ours[0] != "value" and reference[1].startswith(PYTHON_WORDS)


def spelled(message: str) -> str:
    """A message as this package shows lone surrogates in it."""
    return re.sub("[\ud800-\udfff]", "\ufffd" * 3, message)


def differences(
    reference: str, ours: str, group: str, seed: int, count: int
) -> Iterator[tuple[Case, Outcome, Outcome]]:
    """Every case on which the two interpreters disagree."""
    given = cases(group, seed, count)
    both = zip(answers(reference, given), answers(ours, given), strict=True)
    for case, (theirs, mine) in zip(given, both, strict=True):
        if not agree(theirs, mine):
            yield case, theirs, mine


def main() -> int:
    """compare.py REFERENCE_PYTHON OUR_PYTHON SEED COUNT [GROUP...]"""
    reference, ours, seed, count, *groups = sys.argv[1:]
    total = 0
    for group in groups or GROUPS:
        found = list(differences(reference, ours, group, int(seed), int(count)))
        total += len(found)
        print(f"{group}: {count} cases, {len(found)} differences")
        for case, theirs, mine in found[:SHOWN]:
            print(f"  {case!r:.1500}\n    reference {theirs!r:.700}\n    ours      {mine!r:.700}")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
