"""The same random calls here and in stormlog 0.3.9: the same answers, the same errors.

`python -m parity.compare REFERENCE_PYTHON OUR_PYTHON SEED COUNT` runs more of them.
"""

from __future__ import annotations

import sys

import pytest

from parity import compare

CASES_PER_GROUP = 1500
# These write files.
CASES = {"artifacts": 800}
SEED = 20240501


@pytest.mark.parametrize("group", compare.GROUPS)
def test_same_answers(group: str, reference_python: str) -> None:
    count = CASES.get(group, CASES_PER_GROUP)
    found = compare.differences(reference_python, sys.executable, group, SEED, count)
    shown = [
        f"{case!r:.2000}\n  reference {theirs!r:.2000}\n  ours      {mine!r:.2000}"
        for case, theirs, mine in found
    ]
    assert not shown, f"{len(shown)} of {count} differ:\n" + "\n".join(shown[:5])


def test_a_difference_would_be_seen() -> None:
    value = ("value", "{'rank': 0}")
    assert compare.agree(value, value)
    assert not compare.agree(value, ("value", "{'rank': 0.0}"))
    assert not compare.agree(value, ("ValueError", "rank must be an integer"))
    assert not compare.agree(("ValueError", "pid must be >= -1"), ("ValueError", "pid is bad"))
    assert not compare.agree(("TypeError", "x"), ("ValueError", "x"))
