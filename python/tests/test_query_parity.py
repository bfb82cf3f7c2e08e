"""The same questions over the same random artifacts here and in stormlog 0.3.9."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent / "parity" / "query_sets.py"
SETS = 40
SEED = 20261115


def run(python: str, *arguments: object) -> str:
    environment = {**os.environ, "PYTHONPATH": "", "PYTHONHASHSEED": "0"}
    command = [python, str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd="/"
    )
    return done.stdout


def difference(theirs: Any, ours: Any, place: str) -> str | None:
    """The first place where two answers differ."""
    if isinstance(theirs, float) and isinstance(ours, float):
        same = math.isclose(theirs, ours, rel_tol=1e-9)
    elif isinstance(theirs, dict) and isinstance(ours, dict):
        for key in [*theirs, *(key for key in ours if key not in theirs)]:
            if (key in theirs) != (key in ours):
                return f"{place}.{key}: only on one side"
            found = difference(theirs[key], ours[key], f"{place}.{key}")
            if found:
                return found
        return None
    elif isinstance(theirs, list) and isinstance(ours, list):
        for index, (one, other) in enumerate(zip(theirs, ours)):
            found = difference(one, other, f"{place}[{index}]")
            if found:
                return found
        same = len(theirs) == len(ours)
    else:
        same = type(theirs) is type(ours) and theirs == ours
    return None if same else f"{place}: {theirs!r:.300} != {ours!r:.300}"


def test_same_answers(reference_python: str, tmp_path: Path) -> None:
    folder = tmp_path / "sets"
    run(reference_python, "make", folder, SEED, SETS)
    theirs = run(reference_python, "ask", folder).splitlines()
    ours = run(sys.executable, "ask", folder).splitlines()
    assert len(theirs) == len(ours) == SETS
    found = [
        difference(json.loads(one), json.loads(other), f"set {number}")
        for number, (one, other) in enumerate(zip(theirs, ours))
    ]
    assert not any(found), "\n".join(text for text in found if text)


def test_a_difference_would_be_seen() -> None:
    assert difference({"a": [1]}, {"a": [1]}, "x") is None
    for theirs, ours in [({"a": 1}, {}), ({}, {"a": 1}), ([1], [1, 2]), (1, 1.0), (1, True)]:
        assert difference(theirs, ours, "x")
