"""Runs pickled cases with the `stormlog` of its interpreter and pickles what came of them."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parent.parent)

import parity.analysis_operations  # noqa: E402, F401
from parity.operations import OPERATIONS  # noqa: E402
from parity.values import revive  # noqa: E402

KINDS = (
    *(FileNotFoundError, IsADirectoryError, NotADirectoryError, OSError),
    *(OverflowError, UnicodeError, json.JSONDecodeError, ValueError),
    *(KeyError, TypeError, AttributeError),
)


def describe(value: Any) -> str:
    """The value as text in which types show: ints, floats and flags differ, as do tuples and lists."""
    if isinstance(value, Mapping):
        entries = ", ".join(f"{describe(key)}: {describe(item)}" for key, item in value.items())
        return f"{{{entries}}}"
    if isinstance(value, (list, tuple)):
        opening, closing = "[]" if isinstance(value, list) else "()"
        return opening + ", ".join(describe(item) for item in value) + closing
    return f"{value!r}"


def outcome(operation: str, arguments: tuple[Any, ...]) -> tuple[str, str]:
    """Either ("value", description) or (kind of error, message)."""
    try:
        return "value", describe(OPERATIONS[operation](*revive(arguments)))
    except Exception as error:
        kind = next((kind for kind in KINDS if isinstance(error, kind)), type(error))
        return kind.__name__, str(error)


if __name__ == "__main__":
    cases = pickle.load(sys.stdin.buffer)
    results = [outcome(operation, arguments) for operation, arguments in cases]
    pickle.dump(results, sys.stdout.buffer)
