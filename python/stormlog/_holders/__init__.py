"""Finds which object of the program holds memory, as a path that the user recognizes.

A search goes forward from named roots: the globals of ``__main__`` and of the user's other modules,
the local variables of all threads, then the globals of libraries. It follows containers,
instances, classes, closures, caches, partials, bound methods, generators, exceptions with their
tracebacks, modules, optimizers, and the autograd graphs of tensors. It imports nothing, runs no
code of the program (no property, no ``__getattr__``, no ``__eq__``), follows no weak reference, and
keeps nothing alive when it returns.

``locate(addresses, deadline)``
    ``addresses`` maps the start of each device block to its size; ``deadline`` is a time of
    ``time.monotonic()``. Returns ``Located``: ``holders`` has a ``Holder`` for the start of each
    block whose holder was found; ``cut_short`` is the reason why the search ended early, or None.
    The search ends as soon as all blocks are found. If a block has several holders, the search
    prefers a collection, which can grow, to a plain variable. It takes about 2 µs per object.

``survey(deadline)``
    Lists all memory of tensors and arrays that the search finds. Returns ``Survey``: ``storages``
    lists one ``Holder`` for each storage, which is the memory of a tensor or an array, even if
    several objects share it. With ``counts_host=True`` large texts and byte strings are storages
    too, and ``containers`` lists the collections with at least 16 elements or 4 KiB, and outermost ones
    with objects whose memory Python does not see, with their
    lengths and estimated bytes. The search has four stages: the globals of the user's modules, the
    local variables, the sweep, and the globals of libraries. After each stage ``enough(storages)``
    is called, and the search ends when it returns True. ``libraries=False`` leaves out the globals
    of libraries, which take longest. The sweep runs only with ``sweep=True``: it asks the garbage
    collector for objects that no root reaches. This takes 70 ms or more, in which no other Python
    code runs, so only the inspection of an out-of-memory error uses it. With a ``traceback``, the
    local variables of the frames that the exception has left are searched too.

``Holder``: ``address``, ``bytes``, ``device`` ("cuda:0", "cpu"), ``category`` (one of
``CATEGORIES``), ``place`` and ``container``, both a ``Place`` or None, and ``collection``, the
``Container`` at ``container`` if a collection is there. ``str(place)`` is the path,
and ``place.phrase`` is the text for a sentence. ``container`` is the outermost collection on the
path that may be the one that grows; ``group`` groups holders by ``container``. For parameters,
gradients and optimizer state outside of collections, ``container`` is the variable of the model or
optimizer. ``in_graph`` is True when the autograd graph of a tensor keeps the storage:
``group(holders)`` sums up such holders as "the autograd graphs of 60 tensors in `aux`".

``Container``: ``place``, ``kind``, ``identity`` (a number that is the same in every survey of the
same object), ``length`` and ``bytes``. The bytes include every object that the search reached first
through this collection. If a collection is longer than ``most_elements``, only its first and last
elements are read (some elements of a set, which has no order), and the bytes are extrapolated.

``locate_in_graphs(addresses, tensors, deadline)``
    Finds which of the given blocks the autograd graphs of tensors hold. Returns a dictionary that
    maps the start of each such block to a ``Holder``.
    ``tensors`` is ``Located.with_graph`` of an earlier search. Tensors whose graphs were followed
    are removed from it, so that a later call continues with the remaining tensors.

When to search: at the end of a step, on the thread of the program. While it runs, the search holds
references to containers, but not to tensors. A search on another thread needs ``rest``, a function
that it calls after every millisecond of work; otherwise the program waits 5 ms for the interpreter
lock each time it has released the lock. A search with ``rest`` reads no gradient and no graph:
PyTorch's engine frees and replaces them without the interpreter, and reading them meanwhile can
crash the process.
``locate_in_graphs`` must be called only on the thread of the program.
"""

from __future__ import annotations

import time
import weakref
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from . import paths
from .paths import Place, Step
from .walk import (
    CATEGORIES,
    GRADIENTS,
    OPTIMIZER_STATE,
    PARAMETERS,
    Collection,
    Storage,
    Walk,
)

__all__ = [
    "CATEGORIES",
    "Container",
    "Group",
    "Holder",
    "Located",
    "Place",
    "Survey",
    "group",
    "key_of",
    "locate",
    "locate_in_graphs",
    "survey",
]

# If a collection has more elements than this, only its first and last elements are read. The second
# limit is for searches that count host memory.
_MOST_ELEMENTS = 20_000
_MOST_ELEMENTS_OF_HOST = 512
# Collections below both limits are not reported.
_SHORT, _SMALL_BYTES = 16, 4096


class Holder(NamedTuple):
    """A storage (the memory of a tensor or an array) and what holds it."""

    address: int
    bytes: int
    device: str
    category: str
    place: Place | None
    container: Place | None
    # What is known about the collection at ``container``; None for a model, an optimizer and an
    # array of objects.
    collection: Container | None = None

    @property
    def in_graph(self) -> bool:
        """Whether the storage is held by the autograd graph of the tensor at ``place``, and not by
        that tensor itself."""
        return self.place is not None and self.place.in_graph


class Container(NamedTuple):
    """A collection: a list, dictionary, set, deque or cache."""

    place: Place
    kind: str
    identity: int
    length: int
    bytes: int
    # The number of elements that it can have at most: 0 if it has no bound, None if unknown.
    most: int | None = None
    # Whether it is a dictionary whose keys look like ids.
    has_ids: bool = False
    # The number of elements that are tensors with an autograd graph.
    graphs: int = 0
    # The number of elements that are functions or methods.
    callables: int = 0
    # The number of objects in it whose memory only a library knows.
    hidden: int = 0
    # The class of the object that has it as an attribute, if it is a class of a library.
    owner: str = ""


class Located(NamedTuple):
    """The holders of the blocks that were searched for."""

    holders: dict[int, Holder]
    # Tensors whose graphs were not followed, for ``locate_in_graphs``.
    with_graph: deque[tuple[weakref.ref[Any], Step]]
    cut_short: str | None
    seconds: float


class Survey(NamedTuple):
    """The result of a survey."""

    storages: list[Holder]
    containers: list[Container]
    cut_short: str | None
    objects: int
    seconds: float
    # The lengths of collections of libraries, by identity and kind.
    lengths: dict[tuple[int, str], int]
    # The places of tensors with an autograd graph that are not in collections.
    with_graph: list[Place]
    # The estimated bytes of all collections, each counted once.
    bytes: int


class Group(NamedTuple):
    """The storages of one category that have the same holder, summed up."""

    # The container, or the place of a single storage; None when nothing is known.
    place: Place | None
    category: str
    # "graph" or "traceback" when one of these holds the storages, otherwise "".
    through: str
    storages: int
    bytes: int
    # How many tensors the graphs belong to, or how many exceptions the tracebacks belong to.
    owners: int

    @property
    def phrase(self) -> str:
        """The holder as text for a sentence."""
        if self.place is None:
            return "no variable"
        where = self.place._replace(in_graph=False).phrase
        if self.through == "graph":
            several = f"the autograd graphs of {self.owners} tensors in {where}"
            return several if self.owners > 1 else f"the autograd graph of {where}"
        if self.through == "traceback" and not self.place.traceback_of:
            several = f"the tracebacks of {self.owners} exceptions in {where}"
            return several if self.owners > 1 else f"the traceback of an exception in {where}"
        return where


def locate(
    addresses: Mapping[int, int], deadline: float, *, rest: Callable[[], None] | None = None
) -> Located:
    """Search for the holders of device blocks. ``addresses`` maps the start of each block to its
    size in bytes."""
    began = time.monotonic()
    wanted = _Wanted(addresses)
    walk = wanted.walk(deadline, rest)
    walk.run(libraries=True, sweep=False, done=wanted.is_complete)
    return Located(wanted.holders(walk), walk.with_graph, walk.cut_short, time.monotonic() - began)


def locate_in_graphs(
    addresses: Mapping[int, int],
    tensors: deque[tuple[weakref.ref[Any], Step]],
    deadline: float,
) -> dict[int, Holder]:
    """The holders of the given device blocks, as far as autograd graphs of tensors hold them."""
    wanted = _Wanted(addresses)
    walk = wanted.walk(deadline, None)
    walk.run_graphs(tensors, wanted.is_complete)
    return wanted.holders(walk)


class _Wanted:
    """The device blocks to search for, by start and size."""

    def __init__(self, addresses: Mapping[int, int]) -> None:
        self._addresses = addresses
        self._starts = sorted(addresses)
        # The address of a storage in each block that was found.
        self._found: dict[int, int] = {}

    def walk(self, deadline: float, rest: Callable[[], None] | None) -> Walk:
        """A search for the blocks."""
        return Walk(
            deadline,
            most_elements=_MOST_ELEMENTS,
            rest=rest,
            wanted=self._is_wanted,
            prefers_collections=True,
        )

    def _is_wanted(self, address: int) -> bool:
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return False
        start = self._starts[index]
        if address >= start + max(self._addresses[start], 1):
            return False
        self._found.setdefault(start, address)
        return True

    def is_complete(self) -> bool:
        """Whether every block was found."""
        return len(self._found) == len(self._starts)

    def holders(self, walk: Walk) -> dict[int, Holder]:
        """The holders of the blocks that were found."""
        return {
            start: _holder(walk, walk.storages[address])
            for start, address in self._found.items()
            if address in walk.storages
        }


def survey(
    deadline: float,
    *,
    rest: Callable[[], None] | None = None,
    counts_host: bool = False,
    sweep: bool = False,
    libraries: bool = True,
    most_elements: int | None = None,
    enough: Callable[[Iterable[Storage]], bool] | None = None,
    traceback: TracebackType | None = None,
    lengths: dict[tuple[int, str], int] | None = None,
) -> Survey:
    """All storages and collections that are found before the deadline. Collections of libraries
    that are longer than in ``lengths``, the result of an earlier survey, are searched first."""
    began = time.monotonic()
    most = _MOST_ELEMENTS_OF_HOST if counts_host else _MOST_ELEMENTS
    walk = Walk(
        deadline,
        most_elements=most_elements or most,
        rest=rest,
        counts_host=counts_host,
        traceback=traceback,
        lengths=lengths,
    )
    done = None if enough is None else lambda: enough(walk.storages.values())
    walk.run(libraries=libraries, sweep=sweep, done=done)
    containers = [
        _container(paths.render(one.step, walk.name_of_parameter), one)
        for one in walk.collections
        if counts_host and _is_reported(one)
    ]
    storages = [_holder(walk, storage) for storage in walk.storages.values()]
    with_graph = [
        paths.render(step, walk.name_of_parameter)
        for _, step in walk.with_graph
        if counts_host and paths.container(step) is None
    ]
    seconds = time.monotonic() - began
    whole = sum(one.bytes for one in walk.collections if one.parent is None)
    return Survey(
        storages,
        containers,
        walk.cut_short,
        walk.objects,
        seconds,
        walk.lengths,
        with_graph,
        int(whole),
    )


def _is_reported(one: Collection) -> bool:
    is_outer = one.parent is None and one.hidden > 0
    return one.length >= _SHORT or one.bytes >= _SMALL_BYTES or is_outer


def _container(place: Place, one: Collection) -> Container:
    return Container(
        place,
        one.kind,
        one.identity,
        one.length,
        int(one.bytes / one.weight),
        one.most,
        one.has_ids,
        round(one.graphs / one.weight),
        round(one.callables / one.weight),
        round(one.hidden / one.weight),
        one.owner,
    )


def group(holders: Iterable[Holder]) -> list[Group]:
    """Sum up holders with the same container and category, largest first. A holder without a
    container is grouped by its place."""
    sums: dict[tuple[Place | None, str, str], list[int]] = {}
    owners: dict[tuple[Place | None, str, str], set[object]] = {}
    for holder in holders:
        place, key = holder.place, key_of(holder)
        owner: object = place.traceback_of if place and key[2] == "traceback" else place
        one = sums.setdefault(key, [0, 0])
        one[0] += 1
        one[1] += holder.bytes
        owners.setdefault(key, set()).add(owner)
    groups = [Group(*key, count, size, len(owners[key])) for key, (count, size) in sums.items()]
    return sorted(groups, key=lambda one: -one.bytes)


def key_of(holder: Holder) -> tuple[Place | None, str, str]:
    """By what ``group`` sums up holders: place, category and ``through`` of the group."""
    through = "graph" if holder.in_graph else ""
    if holder.place is not None and holder.place.traceback_of and not through:
        through = "traceback"
    return (holder.container or holder.place, holder.category, through)


def _holder(walk: Walk, storage: Storage) -> Holder:
    place = container = collection = None
    step = walk.way_to(storage)
    if step is not None:
        place = paths.render(step, walk.name_of_parameter)
        is_of_model = storage.category in (PARAMETERS, GRADIENTS, OPTIMIZER_STATE)
        way = paths.container(step) or (paths.root(step) if is_of_model else None)
        if way is not None:
            container = paths.render(way, walk.name_of_parameter)
            found = walk.collection_at(way)
            collection = None if found is None else _container(container, found)
    return Holder(
        storage.address,
        storage.bytes,
        storage.device,
        storage.category,
        place,
        container,
        collection,
    )
