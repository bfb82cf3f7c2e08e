"""Finds the containers of this process that grow. ``stormlog run`` requests such an inspection when
the host memory of the process grows.

An inspection consists of looks. A look lists all objects that the variables of the user's code
reach. Between two looks, memory usually grows by some megabytes. The growth of a container is
estimated as the number of its new elements times the mean size of an element. If the containers
explain at least half of the memory growth, three looks are made. If they explain less, two looks
follow that also include the variables of libraries. If the containers in these two looks explain
little of the growth, the garbage collector is asked for objects that no variable reaches. The rest
of the growth is native memory.

The answer is written to the inbox of the run (the directory in which a process leaves files for
``stormlog run``) after the last look. A first answer is written after the second look if a third
one follows. The first answer remains if the program is killed before the third look.

A look runs in pieces of a millisecond, on the thread that waits for requests of ``stormlog run``. A
whole inspection takes at most about ``_MOST_S`` seconds of processor time, and a program that runs
Python code loses no more time than that.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from . import _holders, _inbox, _retention
from ._adding_lines import adding_lines
from ._holders.walk import Stop

# The most processor time of one inspection, and of one look.
_MOST_S = 0.28
_MOST_OF_LOOK_S = 0.08
# The number of looks at the user's variables, and of looks that include those of libraries.
_LOOKS, _LOOKS_WITH_LIBRARIES = 3, 2
# The next look follows when memory has grown by this many bytes, but not sooner than _SOONEST_S and
# not later than _LATEST_S after the last look.
_GROWTH = 4 << 20
_SOONEST_S, _LATEST_S = 2.0, 40.0
_BETWEEN_READINGS_S = 0.5
# How many times memory must have grown by _GROWTH before the first look.
_RISES_BEFORE_LOOKS = 2
# Memory that imports take is no leak, so the first look waits while a module is imported, but no
# longer than this: some programs run entirely inside an import.
_LONGEST_IMPORT_S = 60.0
_REST_S = 0.0005
_LONGEST_LOOK_S = 20.0
# With at most this many memory blocks allocated by Python, the garbage collector can list all
# objects without a noticeable pause.
_MOST_BLOCKS = 400_000
# How many objects are examined in one piece.
_PIECE = 500
# The assumed bytes of a small object.
_SMALL_OBJECT = 48
# Arrays and texts that no variable reaches count only if they have at least this many bytes.
_LARGE = 1 << 16
# If containers explain less than the first share of the growth, the variables of libraries are
# searched too. If they then explain less than the second share, the garbage collector is asked.
_MOST_OF_IT, _LITTLE = 0.5, 0.2
# If at least this share of the elements of a container are tensors with an autograd graph, their
# graphs may be what grows.
_NEARLY_ALL = 0.9
# If a container has more elements than this, only this many are read, and the size of the container
# is extrapolated from them.
_MOST_ELEMENTS = 100
_MOST_HOLDERS = 8
_LEAST_GROWTH = 1 << 16
_LONGEST_PATH = 300


class Grown(NamedTuple):
    """A container, array or text that holds more memory than at the first look.

    ``length`` is the number of elements, and ``gained`` is the number of new ones. ``bytes`` is the
    size, and ``grown`` is the number of bytes by which it has grown.
    """

    phrase: str
    kind: str
    length: int
    gained: int
    bytes: int
    grown: int
    place: Any
    # The container as the last look found it; None for an array or a text.
    container: Any = None


class _Look(NamedTuple):
    # The time (`time.monotonic()`), and the bytes of anonymous memory of the process.
    at: float
    anonymous: int
    # The containers by identity and kind.
    containers: dict[tuple[int, str], Any]
    # The arrays and texts outside of containers: by path, their bytes and their place.
    single: dict[str, tuple[int, Any]]
    # The addresses of all arrays and texts that variables reach.
    addresses: set[int]
    blocks: int
    is_complete: bool


class Inspection:
    """One inspection. The thread that waits for requests calls ``step`` until the inspection has
    ended."""

    def __init__(self, inbox: str, request: str, spent: float) -> None:
        self._inbox, self._request = inbox, request
        self._looks: list[_Look] = []
        self._with_libraries = False
        # Seconds of processor time so far; importing this module has already taken some.
        self._spent = spent
        # Bytes of objects that no variable reaches; None until the garbage collector was asked.
        self._unreached: int | None = None
        self._asked_at = time.monotonic()
        # Used before the first look: the time of the last rise by _GROWTH and the memory level at
        # that time, or, before any rise, the time and the level of the first reading.
        self._rise: tuple[float, int] | None = None
        # The number of rises by _GROWTH so far.
        self._rises = 0
        # What the code shows about containers, by their paths.
        self._code: dict[str, list[str]] = {}

    def step(self) -> float | None:
        """Take the next look if it is due. Returns the seconds until the next call; None when the
        inspection has ended and its answer is written."""
        began = time.thread_time()
        try:
            pause = self._step(began)
        finally:
            self._spent += time.thread_time() - began
        if pause is None:
            self._answer(is_final=True)
        return pause

    def _step(self, began: float) -> float | None:
        if not self._looks and not self._with_libraries:
            pause = self._before_looks()
            if pause != 0:
                return pause
        if self._looks:
            last = self._looks[-1]
            waited = time.monotonic() - last.at
            grown = _anonymous() - last.anonymous
            if waited < _SOONEST_S or (grown < _GROWTH and waited < _LATEST_S):
                return _BETWEEN_READINGS_S
        rest = self._rest_of(began)
        self._looks.append(_look(rest, self._with_libraries))
        left = _MOST_S - self._spent - (time.thread_time() - began)
        if left < _MOST_OF_LOOK_S:
            return None
        if len(self._looks) < 2:
            return _BETWEEN_READINGS_S
        explained = self._explained()
        if not self._with_libraries and explained < _MOST_OF_IT:
            self._with_libraries = True
            self._looks.clear()
            return 0.0
        if len(self._looks) < (_LOOKS_WITH_LIBRARIES if self._with_libraries else _LOOKS):
            self._answer(is_final=False)
            return _BETWEEN_READINGS_S
        if explained < _LITTLE:
            self._unreached = _unreached(self._looks[-1].addresses, rest)
        return None

    def _before_looks(self) -> float | None:
        """The seconds to wait before the first look: 0 when the program has loaded and its memory
        still grows, None when it no longer grows. A program that is starting grows as well, and
        looks should not slow it."""
        now = time.monotonic()
        if now - self._asked_at < _LONGEST_IMPORT_S and _is_importing():
            self._rise, self._rises = None, 0
            return _BETWEEN_READINGS_S
        level = _anonymous()
        since, before = self._rise or (now, level)
        self._rise = (since, before)
        if level - before >= _GROWTH and now - since >= _SOONEST_S:
            self._rise, self._rises = (now, level), self._rises + 1
        if self._rises >= _RISES_BEFORE_LOOKS:
            return 0.0
        return _BETWEEN_READINGS_S if now - since < _LATEST_S else None

    def _rest_of(self, began: float) -> Callable[[], None]:
        """The function that a look calls between its pieces. It sleeps for ``_REST_S`` seconds, and
        ends the look when this step has used the processor time that a look may take."""
        allowed = min(_MOST_OF_LOOK_S, _MOST_S - self._spent)

        def rest() -> None:
            if time.thread_time() - began > allowed:
                raise Stop
            time.sleep(_REST_S)

        return rest

    def _explained(self) -> float:
        """The share of the process's memory growth that the growth of its containers explains."""
        first, last = self._looks[0], self._looks[-1]
        grown = sum(one.grown for one in _growth(first, last))
        return grown / max(last.anonymous - first.anonymous, 1)

    def _answer(self, *, is_final: bool) -> None:
        if len(self._looks) < 2:
            _remove(self._request)
            return
        first, last = self._looks[0], self._looks[-1]
        grown = _growth(first, last)
        small = max(last.blocks - first.blocks, 0) * _SMALL_OBJECT
        objects = max(sum(one.grown for one in grown), small) + (self._unreached or 0)
        is_complete = first.is_complete and last.is_complete and self._unreached is not None
        lines = [
            f"pid {os.getpid()}",
            f"time_ns {time.time_ns()}",
            f"seconds {last.at - first.at:.3f}",
            f"grown {last.anonymous - first.anonymous}",
            f"objects {objects}",
            f"complete {int(is_complete)}",
            f"cost_us {self._spent * 1e6:.0f}",
            f"final {int(is_final)}",
        ]
        for one in grown[:_MOST_HOLDERS]:
            numbers = f"{one.length} {one.gained} {one.bytes} {one.grown}"
            phrase = _escaped(one.phrase[:_LONGEST_PATH])
            lines.append(f"holder {one.kind} {numbers} {phrase}")
            lines += self._about_code(one)
        _inbox.leave(os.path.join(self._inbox, f"evidence-{os.getpid()}"), "\n".join(lines) + "\n")
        if is_final:
            _remove(self._request)

    def _about_code(self, one: Grown) -> list[str]:
        """What the code of the program shows about a container: the line that adds to it, if
        exactly one line does, and what becomes of its elements."""
        place = one.place._replace(in_graph=False)
        known = self._code.get(str(place))
        if known is not None or self._spent > _MOST_S:
            return known or []
        began = time.thread_time()
        try:
            added = adding_lines(place)
            retention = _retention.retention(place, one.container)
        finally:
            self._spent += time.thread_time() - began
        lines = []
        if len(added) == 1:
            line = added[0]
            lines.append(f"added {line.number} {_escaped(line.function)} {_escaped(line.file)}")
        if retention is not None:
            container = one.container
            most = container.most or 0 if container is not None else 0
            has_ids = container is not None and container.has_ids
            lines.append(f"retention {retention} {most} {int(has_ids)}")
        self._code[str(place)] = lines
        return lines


def _is_importing() -> bool:
    """Whether a thread of the program runs the code of a module that is being imported."""
    for frame in sys._current_frames().values():
        one: FrameType | None = frame
        while one is not None:
            code = one.f_code
            is_importlib = code.co_filename.startswith("<frozen importlib")
            if is_importlib and code.co_name == "_load_unlocked":
                return True
            one = one.f_back
    return False


def _look(rest: Callable[[], None], with_libraries: bool) -> _Look:
    deadline = time.monotonic() + _LONGEST_LOOK_S
    found = _holders.survey(
        deadline,
        rest=rest,
        counts_host=True,
        libraries=with_libraries,
        most_elements=_MOST_ELEMENTS,
    )
    single: dict[str, tuple[int, Any]] = {}
    for storage in found.storages:
        if storage.device == "cpu" and storage.place is not None and storage.container is None:
            before = single.get(str(storage.place), (0, None))[0]
            single[str(storage.place)] = (before + storage.bytes, storage.place)
    return _Look(
        time.monotonic(),
        _anonymous(),
        {(one.identity, one.kind): one for one in found.containers},
        single,
        {storage.address for storage in found.storages},
        sys.getallocatedblocks(),
        found.cut_short is None,
    )


def _unreached(known: set[int], rest: Callable[[], None]) -> int | None:
    """The bytes of large arrays and texts that no variable reaches, such as garbage in reference
    cycles and elements of objects that an extension module keeps. ``known`` has the addresses that
    variables reach. None when there are too many objects to look at, or when the search has used
    all of its time."""
    if sys.getallocatedblocks() > _MOST_BLOCKS:
        return None
    large: dict[int, int] = {}
    objects = gc.get_objects()
    try:
        while objects:
            rest()
            # The list is shortened piece by piece, so that objects that the program drops can be
            # freed.
            _add_large(large, objects[-_PIECE:])
            del objects[-_PIECE:]
    except Stop:
        return None
    return sum(size for address, size in large.items() if address not in known)


def _add_large(large: dict[int, int], objects: list[Any]) -> None:
    """Add to ``large`` the address and size of each array, text and CPU tensor among ``objects``
    and among the objects to which these refer. Arrays and texts are added only if they are large,
    tensors always."""
    array = getattr(sys.modules.get("numpy"), "ndarray", None)
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    for part in [*objects, *gc.get_referents(*objects)]:
        kind = type(part)
        if kind is array:
            if part.nbytes >= _LARGE:
                large[part.ctypes.data] = part.nbytes
        elif kind is tensor:
            if part.device.type == "cpu":
                storage = part.untyped_storage()
                large[storage.data_ptr()] = storage.nbytes()
        elif kind is bytes or kind is str or kind is bytearray:
            size = sys.getsizeof(part)
            if size >= _LARGE:
                large[id(part)] = size


def _growth(first: _Look, last: _Look) -> list[Grown]:
    """The containers, arrays and texts that hold more memory at the last look than at the first,
    the largest growth first. An object inside a container that has grown more is left out, because
    the bytes of the container include the object."""
    found, with_graphs = [], []
    for key, one in last.containers.items():
        before = first.containers.get(key)
        if before is None or one.length <= before.length or str(before.place) != str(one.place):
            continue
        gained = one.length - before.length
        grown = int(one.bytes / one.length * gained)
        found.append(
            Grown(one.place.phrase, one.kind, one.length, gained, one.bytes, grown, one.place, one)
        )
        if one.graphs >= _NEARLY_ALL * one.length:
            with_graphs.append(found[-1])
    found = _siblings_together(found)
    for path, (size, place) in last.single.items():
        grown = size - first.single.get(path, (0, None))[0]
        if path in first.single and grown > 0:
            found.append(Grown(place.phrase, "array", 1, 0, size, grown, place))
    left = last.anonymous - first.anonymous - sum(one.grown for one in _outer(found))
    if len(with_graphs) == 1 and left > _MOST_OF_IT * (last.anonymous - first.anonymous):
        found.append(_of_graphs(with_graphs[0], left))
    return _outer(found)


def _siblings_together(found: list[Grown]) -> list[Grown]:
    """The containers that grow; several containers in one container, such as the lists in
    ``{"train": [], "test": []}``, are summed up."""
    groups: dict[Any, list[Grown]] = {}
    for one in found:
        name = one.place.name
        inside = one.place._replace(name=name[: name.rindex("[")]) if name.endswith("]") else one
        groups.setdefault((inside, one.kind), []).append(one)
    return [
        group[0] if len(group) == 1 else _sum_of(group, inside.phrase)
        for (inside, _), group in groups.items()
    ]


def _sum_of(group: list[Grown], inside: str) -> Grown:
    first = group[0]
    length, gained, size, grown = (
        sum(numbers) for numbers in zip(*(one[2:6] for one in group), strict=True)
    )
    phrase = f"the {first.kind}s of {inside}"
    return Grown(phrase, first.kind, length, gained, size, grown, first.place, first.container)


def _of_graphs(one: Grown, left: int) -> Grown:
    """The growth ``left`` that no object explains, as the autograd graphs of the tensors in a
    container. A graph cannot be read while the program runs, but each of these tensors keeps one.
    """
    place = one.place._replace(in_graph=True)
    phrase = f"the autograd graphs of {one.length} tensors in {one.phrase}"
    size = int(left / one.gained * one.length)
    return Grown(phrase, "graphs", one.length, one.gained, size, left, place, one.container)


def _outer(found: list[Grown]) -> list[Grown]:
    found = sorted((one for one in found if one.grown >= _LEAST_GROWTH), key=lambda one: -one.grown)
    outer: list[Grown] = []
    for one in found:
        path = str(one.place)
        if not any(path.startswith(str(other.place)) for other in outer):
            outer.append(one)
    return outer


def _anonymous() -> int:
    """The bytes of anonymous memory of this process: its resident memory without the pages of files
    and of shared memory."""
    with open("/proc/self/statm", "rb") as file:
        words = file.read().split()
    return (int(words[1]) - int(words[2])) * _PAGE


_PAGE = os.sysconf("SC_PAGE_SIZE")


def _escaped(text: str) -> str:
    return _inbox.escaped(text).replace(" ", "\\s")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
