"""Values that callers should never pass, and a few that they do."""

from __future__ import annotations

import datetime
import decimal
import random
import unicodedata
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any


class Named:
    """An object of no special type, with different texts for people and programmers."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Unpickled:
    """Stands for an object that pickle cannot carry; built by the worker."""

    def __init__(self, kind: str, *arguments: Any) -> None:
        self.kind, self.arguments = kind, arguments

    def build(self) -> Any:
        return {"proxy": MappingProxyType}[self.kind](*(revive(item) for item in self.arguments))


def revive(value: Any) -> Any:
    """The value with its stand-ins replaced."""
    if isinstance(value, Unpickled):
        return value.build()
    if isinstance(value, dict):
        return {key: revive(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(revive(item) for item in value)
    return value


def proxy(mapping: dict[Any, Any]) -> Unpickled:
    return Unpickled("proxy", mapping)


TEXTS = [
    "", " ", "x", " x ", "5", " 5 ", "1_0", "-3", "1.5", "cuda", "CUDA", " mps ", "Rocm", "cpu",
    "cuda:3", "CPU:0", "/gpu:0", "/GPU", "/device:GPU:1", "gpu:", "cuda: 3", ":7", "a:b:2", "stop",
    "sample", "Warning", "error", "critical", "degraded", "unhealthy", "completed", "RUNNING ",
    "\x1c", "\x85", "\u200b", "\u2003y", "\ud800", "z\udfff", "é", "\U0001f600", "İ", "ΑΣ", "ß",
    "a\nb", "tab\tq", 'quote"', "back\\slash", "\x7f", "\x00", "legacy.unknown", "fallback",
]  # fmt: skip

NUMBERS: list[Any] = [
    0, 1, -1, 2, 3, 5, 7, 8, 1000, 2**40, 2**63 - 1, -(2**63), 0.0, -0.0, 1.0, 1.5, -2.5, 0.1,
    1e-5, 1e16, 1e22, 1e300, 5e-324, 0.1234567, 2.5000005, 123456789.12345678,
    float("nan"), float("inf"), float("-inf"),
]  # fmt: skip

OBJECTS: list[Any] = [
    [], ["a"], [1, [2]], (), (1, 2), {}, {"a": 1}, {1: 2, "1": 3}, {None: 0, True: 1, 2.5: 2},
    {(1, 2): 3}, {3}, frozenset(["q"]), b"x", b"5", decimal.Decimal("1.50"), PurePosixPath("/a/5"),
    datetime.datetime(2024, 1, 2), Named("name 5"), proxy({"a": [1]}),
    {"rank": 1, "world_size": 4}, {"local_rank": 2, "world_size": 3},
    {"session_id": "own", "backend": "cpu", "host": "there", "pid": 4, "job_id": "job"},
    {"total_memory": 5, "device_total": None}, {"name": "forward", "path": ["train", "forward"]},
]  # fmt: skip


def text(rnd: random.Random) -> str:
    """A text: known ones, their mixtures, and random characters."""
    kind = rnd.random()
    if kind < 0.6:
        return rnd.choice(TEXTS)
    if kind < 0.8:
        return rnd.choice(TEXTS) + rnd.choice(TEXTS)
    return "".join(character(rnd) for _ in range(rnd.randint(1, 6)))


def character(rnd: random.Random) -> str:
    """Any character except marks and symbols, because Python and Rust disagree about which of them
    are letters, and except those that the interpreter's version of Unicode does not have."""
    limit = rnd.choice([0x7F, 0x7F, 0xFF, 0x2FF, 0x3000, 0xFFFF, 0x1FFFF])
    while unicodedata.category(made := chr(rnd.randint(0, limit))) in ("Mn", "Mc", "So", "Cn"):
        pass
    return made


def number(rnd: random.Random) -> Any:
    """A number that fits 64 bits."""
    kind = rnd.random()
    if kind < 0.6:
        return rnd.choice(NUMBERS)
    if kind < 0.8:
        return rnd.randint(-(2 ** rnd.randint(1, 62)), 2 ** rnd.randint(1, 62))
    return rnd.uniform(-1, 1) * 10.0 ** rnd.randint(-20, 20)


def scalar(rnd: random.Random) -> Any:
    """Nothing, a flag, a number or a text."""
    kind = rnd.random()
    if kind < 0.15:
        return None
    if kind < 0.25:
        return rnd.random() < 0.5
    return number(rnd) if kind < 0.6 else text(rnd)


def anything(rnd: random.Random, depth: int = 2) -> Any:
    """Any value at all."""
    kind = rnd.random()
    if kind < 0.6 or depth == 0:
        return scalar(rnd)
    if kind < 0.8:
        return rnd.choice(OBJECTS)
    if kind < 0.9:
        items = [in_list(anything(rnd, depth - 1)) for _ in range(rnd.randint(0, 3))]
        return items if rnd.random() < 0.7 else tuple(items)
    return {text(rnd): anything(rnd, depth - 1) for _ in range(rnd.randint(0, 3))}


def in_list(value: Any) -> Any:
    """The value, unless it is a mapping with keys that are no strings.

    Stormlog 0.3.9 sorts such keys by their own order when they stand inside a list, and
    fails when they have none; here keys are sorted as text everywhere.
    """
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return {}
    return value


def plain(rnd: random.Random, depth: int = 3) -> Any:
    """What JSON can hold."""
    kind = rnd.random()
    if kind < 0.7 or depth == 0:
        return scalar(rnd)
    if kind < 0.85:
        return [plain(rnd, depth - 1) for _ in range(rnd.randint(0, 4))]
    return {text(rnd): plain(rnd, depth - 1) for _ in range(rnd.randint(0, 4))}


def mutated(
    rnd: random.Random, base: dict[Any, Any], keys: list[str], extra: list[Any]
) -> dict[Any, Any]:
    """The mapping with a few entries dropped, replaced or added."""
    made = dict(base)
    for _ in range(rnd.choice([0, 1, 1, 1, 2, 2, 3, 4])):
        kind = rnd.random()
        if kind < 0.25 and made:
            del made[rnd.choice(list(made))]
        elif kind < 0.32 and extra:
            made[rnd.choice(extra)] = anything(rnd)
        else:
            made[rnd.choice(keys)] = anything(rnd)
    if rnd.random() < 0.15:
        entries = list(made.items())
        rnd.shuffle(entries)
        made = dict(entries)
    return made
