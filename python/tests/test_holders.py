"""The search for what holds memory, over plain objects: every way that Python can keep one."""

from __future__ import annotations

import functools
import gc
import logging
import logging.handlers
import sys
import threading
import time
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stormlog import _holders
from stormlog._holders import frames, paths

LARGE = 100_000


def blob() -> bytes:
    """A piece of memory of its own."""
    return bytes(bytearray(LARGE))


@pytest.fixture
def program() -> Iterator[types.ModuleType]:
    """A module of the user's, whose globals are roots."""
    module = types.ModuleType("training")
    module.__file__ = "/home/ada/training.py"
    sys.modules["training"] = module
    yield module
    del sys.modules["training"]


def search(**options: Any) -> _holders.Survey:
    options = {"counts_host": True, "libraries": False, **options}
    return _holders.survey(time.monotonic() + 60, **options)


def place_of(thing: object, found: _holders.Survey | None = None) -> _holders.Holder:
    storages = (found or search()).storages
    [holder] = [one for one in storages if one.address == id(thing)]
    return holder


def phrase_of(thing: object) -> str:
    holder = place_of(thing)
    assert holder.place is not None
    return holder.place.phrase


class Box:
    def __init__(self, held: object) -> None:
        self.held = held


class Slotted:
    __slots__ = ("held", "unset")

    def __init__(self, held: object) -> None:
        self.held = held


def closed_over(held: object) -> Callable[[], object]:
    seen = [held]

    def keep() -> object:
        return seen

    return keep


def cached(limit: int | None) -> Any:
    @functools.lru_cache(limit)
    def embed(number: int) -> object:
        return blob()

    embed(1)
    return embed


def failed(held: object) -> Exception:
    def step(batch: object) -> None:
        raise ValueError("no")

    try:
        step(held)
    except ValueError as error:
        return error
    raise AssertionError


def suspended(held: object) -> Iterator[object]:
    def produce() -> Iterator[object]:
        batch = held
        yield 1
        yield batch

    running = produce()
    next(running)
    return running


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda one: one, "`kept` in `training`"),
        (lambda one: [0, one], "`kept[1]` in `training`"),
        (lambda one: (0, one), "`kept[1]` in `training`"),
        (lambda one: {"logits": one}, "`kept['logits']` in `training`"),
        (lambda one: {7: [one]}, "`kept[7][0]` in `training`"),
        (lambda one: {one}, "`kept[...]` in `training`"),
        (lambda one: deque([0, one]), "`kept[1]` in `training`"),
        (lambda one: OrderedDict(a=one), "`kept['a']` in `training`"),
        (lambda one: defaultdict(list, a=[one]), "`kept['a'][0]` in `training`"),
        (Box, "`kept.held` in `training`"),
        (Slotted, "`kept.held` in `training`"),
        (closed_over, "`seen[0]` closed over by `keep`"),
        (lambda one: closed_over(one).__closure__, "`kept[0][0]` in `training`"),
        (lambda one: cached(None), "the `lru_cache` of `embed`"),
        (lambda one: cached(8), "the `lru_cache` of `embed`"),
        (lambda one: functools.partial(print, one), "`kept[0]` in `training`"),
        (lambda one: Box([one]).__eq__, "`kept.held[0]` in `training`"),
        (lambda one: [one].append, "`kept[0]` in `training`"),
        (suspended, "`kept` in `training`"),
        (lambda one: types.MappingProxyType({"a": one}), "`kept['a']` in `training`"),
    ],
)
def test_every_way_to_keep_an_object(
    program: types.ModuleType, make: Callable[[object], object], words: str
) -> None:
    program.kept = make(blob())  # type: ignore[attr-defined]
    [holder] = [one for one in search().storages if "training" in str(one) or "embed" in str(one) or "keep" in str(one)]
    assert holder.place is not None
    assert holder.place.phrase == words
    assert holder.bytes >= LARGE
    assert (holder.device, holder.category) == ("cpu", "other_named")
