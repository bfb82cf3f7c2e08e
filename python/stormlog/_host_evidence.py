"""Finds the containers of this process that grow. ``stormlog run`` requests such an inspection when
the host memory of the process grows.

An inspection consists of looks. A look lists all objects that the variables of the user's code
reach. Between two looks, memory usually grows by some megabytes; ``_host_growth`` compares them. If
the containers explain at least half of the memory growth, three looks are made. If they explain less, two looks
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
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar

from . import _holders, _inbox, _retention
from ._adding_lines import Line, adding_lines, calls_of, creating_lines, summing_lines
from ._holders.kinds import module_of_class
from ._holders.walk import Stop
from ._host_growth import MOST_ELEMENTS, MOST_OF_IT, Grown, Look, growth

# The most processor time of one inspection, and of one look.
_MOST_S = 0.28
_MOST_OF_LOOK_S = 0.08
# The least processor time for the looks, however long the import of this module took.
_LEAST_OF_LOOKS_S = 0.18
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
# With at most this many objects that the garbage collector has not looked at, so many samples of this
# size show their class, if at least this share of them has it. An object of a cycle takes at most
# this many bytes on average.
_MOST_YOUNG, _SAMPLES, _SAMPLE, _LEAST_OF_SAMPLE = 400_000, 10, 100, 0.2
_LARGEST_OF_CYCLE = 1 << 20
# How many objects are examined in one piece.
_PIECE = 500
# The assumed bytes of a small object.
_SMALL_OBJECT = 48
# Arrays and texts that no variable reaches count only if they have at least this many bytes.
_LARGE = 1 << 16
# If containers explain less than MOST_OF_IT of the growth, the variables of libraries are searched
# too. If they then explain less than this share, the garbage collector is asked.
_LITTLE = 0.2
_MOST_HOLDERS = 8
_LONGEST_PATH = 300


class Inspection:
    """One inspection. The thread that waits for requests calls ``step`` until the inspection has
    ended."""

    # Whether the variables of the user explained little in an earlier inspection of this process.
    # Then every second inspection searches the variables of libraries at once.
    _starts_with_libraries = False
    # What the code shows about containers, by their places without the line; kept for later
    # inspections.
    _code: ClassVar[dict[Any, list[str]]] = {}

    def __init__(self, inbox: str, request: str, spent: float) -> None:
        self._inbox, self._request = inbox, request
        self._looks: list[Look] = []
        self._with_libraries = Inspection._starts_with_libraries
        Inspection._starts_with_libraries = False
        # Seconds of processor time so far; importing this module has already taken some. On a busy
        # machine the import may take long, so the looks may always take some time.
        self._spent = spent
        self._allowed = max(_MOST_S, spent + _LEAST_OF_LOOKS_S)
        # Bytes of objects that no variable reaches; None until the garbage collector was asked.
        self._unreached: int | None = None
        self._asked_at = time.monotonic()
        # Whether the first look still waits for memory to rise.
        self._waits = True
        # Used before the first look: the time of the last rise by _GROWTH and the memory level at
        # that time, or, before any rise, the time and the level of the first reading.
        self._rise: tuple[float, int] | None = None
        # The number of rises by _GROWTH so far.
        self._rises = 0

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
        if self._waits:
            pause = self._before_looks()
            if pause != 0:
                return pause
            self._waits = False
        if self._looks:
            last = self._looks[-1]
            waited = time.monotonic() - last.at
            grown = _level() - last.level
            if waited < _SOONEST_S or (grown < _GROWTH and waited < _LATEST_S):
                return _BETWEEN_READINGS_S
        rest = self._rest_of(began)
        lengths = self._looks[0].lengths if self._looks else {}
        self._looks.append(_look(rest, self._with_libraries, lengths))
        left = self._allowed - self._spent - (time.thread_time() - began)
        if len(self._looks) < 2:
            return _BETWEEN_READINGS_S if left >= _MOST_OF_LOOK_S else None
        explained = self._explained()
        if not self._with_libraries and explained < MOST_OF_IT:
            if self._garbage() is not None:
                return None
            Inspection._starts_with_libraries = True
            if left >= _MOST_OF_LOOK_S:
                # This answer remains if the program ends before there are two more looks.
                self._answer(is_final=False)
            if left < _LOOKS_WITH_LIBRARIES * _MOST_OF_LOOK_S:
                return None
            self._with_libraries = True
            self._looks.clear()
            return 0.0
        if left < _MOST_OF_LOOK_S:
            return None
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
        level = _level()
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
        looks = _LOOKS_WITH_LIBRARIES if self._with_libraries else _LOOKS
        left = self._allowed - self._spent
        # Looks that include libraries share what is left; the others rarely need their time.
        share = left / max(looks - len(self._looks), 1) if self._with_libraries else left
        allowed = min(max(_MOST_OF_LOOK_S, share), left)

        def rest() -> None:
            if time.thread_time() - began > allowed:
                raise Stop
            time.sleep(_REST_S)

        return rest

    def _explained(self) -> float:
        """The share of the process's memory growth that the growth of its containers explains."""
        first, last = self._looks[0], self._looks[-1]
        grown = sum(one.grown for one in growth(first, last))
        return grown / max(last.level - first.level, 1)

    def _garbage(self) -> Grown | None:
        """The growth that no variable explains, as reference cycles, if the garbage collector is
        turned off and the number of objects that it has not looked at grows as well."""
        first, last = self._looks[0], self._looks[-1]
        new = last.young - first.young
        is_off = first.gc_is_off and last.gc_is_off
        if not is_off or not first.is_complete or not last.is_complete or new <= 0:
            return None
        whole = last.level - first.level
        left = whole - sum(one.grown for one in growth(first, last))
        blocks = last.blocks - first.blocks
        is_reached = last.objects - first.objects > _LITTLE * new
        is_reached |= last.bytes - first.bytes > _LITTLE * whole
        if (
            is_reached
            or left <= MOST_OF_IT * whole
            or left > _LARGEST_OF_CYCLE * new
            or 2 * blocks < new
        ):
            return None
        name = _most_frequent_class() if last.young <= _MOST_YOUNG else ""
        of_what = f"`{name}` objects" if name else "objects"
        phrase = f"the reference cycles of {of_what} that nothing refers to"
        place = _holders.Place("", "unreached", phrase)
        size = int(left / new * last.young)
        return Grown(phrase, "garbage", last.young, new, size, left, place)

    def _answer(self, *, is_final: bool) -> None:
        if len(self._looks) < 2:
            _remove(self._request)
            return
        first, last = self._looks[0], self._looks[-1]
        grown = growth(first, last)
        small = max(last.blocks - first.blocks, 0) * _SMALL_OBJECT
        objects = max(sum(one.grown for one in grown), small) + (self._unreached or 0)
        garbage = self._garbage()
        if garbage is not None:
            grown, objects = [garbage], objects + garbage.grown
        is_complete = first.is_complete and last.is_complete and self._unreached is not None
        lines = [
            f"pid {os.getpid()}",
            f"time_ns {time.time_ns()}",
            f"seconds {last.at - first.at:.3f}",
            f"grown {last.level - first.level}",
            f"objects {objects}",
            f"complete {int(is_complete)}",
            f"cost_us {self._spent * 1e6:.0f}",
            f"final {int(is_final)}",
        ]
        for one in grown[:_MOST_HOLDERS]:
            # The size is extrapolated from some elements, which may be larger than the others.
            size = min(one.bytes, last.level)
            numbers = f"{one.length} {one.gained} {size} {one.grown}"
            phrase = _escaped(one.phrase[:_LONGEST_PATH])
            lines.append(f"holder {one.kind} {numbers} {phrase}")
            lines += self._about_code(one, is_first=one is grown[0])
        _inbox.leave(os.path.join(self._inbox, f"evidence-{os.getpid()}"), "\n".join(lines) + "\n")
        if is_final:
            _remove(self._request)

    def _about_code(self, one: Grown, *, is_first: bool) -> list[str]:
        """What the code of the program shows about a container: the line that adds to it, if
        exactly one line does, and what becomes of its elements. For the container that grows most,
        the code is always read."""
        place = one.place._replace(in_graph=False)
        if one.kind == "garbage":
            disabled = calls_of("gc", "disable")
            return [_line("disabled", disabled[0])] if len(disabled) == 1 else []
        if one.kind == "graphs" and one.container is None:
            summing = summing_lines(place)
            return [_line("summed", summing[0])] if len(summing) == 1 else []
        known = self._code.get(place._replace(line=""))
        if known is not None or (self._spent > self._allowed and not is_first):
            return known or []
        began = time.thread_time()
        try:
            owner = one.container.owner if one.container is not None else ""
            # ``frames.put(frame)`` adds to the container ``frames.queue``.
            added = adding_lines(place) or (owner and adding_lines(_without_attribute(place))) or []
            retention = _retention.retention(place, one.container)
        finally:
            self._spent += time.thread_time() - began
        lines = []
        if len(added) == 1:
            lines.append(_line("added", added[0]))
        elif not added and owner:
            created = creating_lines(owner)
            lines += [_line("created", created[0])] if len(created) == 1 else []
        if retention is not None:
            container = one.container
            most = container.most or 0 if container is not None else 0
            has_ids = container is not None and container.has_ids
            lines.append(f"retention {retention} {most} {int(has_ids)}")
        self._code[place._replace(line="")] = lines
        return lines


def _without_attribute(place: Any) -> Any:
    return place._replace(name=place.name.rpartition(".")[0])


def _line(role: str, line: Line) -> str:
    return f"{role} {line.number} {_escaped(line.function)} {_escaped(line.file)}"


def _most_frequent_class() -> str:
    """The class that most of the objects have which the garbage collector has not looked at yet.
    Containers of the interpreter are left out; empty if there is no other class."""
    objects = gc.get_objects(generation=0)
    # Neighbours are sampled, because the objects of a cycle may alternate.
    starts = range(0, len(objects), max(len(objects) // _SAMPLES, 1))
    sample = [one for start in starts for one in objects[start : start + _SAMPLE]]
    objects.clear()
    classes = [type(one) for one in sample]
    sample.clear()
    of_modules = [one for one in classes if module_of_class(one) not in ("", "builtins")]
    names = Counter(str(type.__dict__["__name__"].__get__(one)) for one in of_modules)
    (name, count), *_ = [*names.most_common(1), ("", 0)]
    return name if count >= _LEAST_OF_SAMPLE * len(classes) and name.isidentifier() else ""


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


def _look(
    rest: Callable[[], None], with_libraries: bool, lengths: dict[tuple[int, str], int]
) -> Look:
    deadline = time.monotonic() + _LONGEST_LOOK_S
    found = _holders.survey(
        deadline,
        rest=rest,
        counts_host=True,
        libraries=with_libraries,
        most_elements=MOST_ELEMENTS,
        lengths=lengths,
    )
    single: dict[str, tuple[int, Any]] = {}
    for storage in found.storages:
        if storage.device == "cpu" and storage.place is not None and storage.container is None:
            before = single.get(str(storage.place), (0, None))[0]
            single[str(storage.place)] = (before + storage.bytes, storage.place)
    return Look(
        time.monotonic(),
        _level(),
        {(one.identity, one.kind): one for one in found.containers},
        single,
        {storage.address for storage in found.storages},
        sys.getallocatedblocks(),
        found.cut_short is None,
        with_libraries,
        gc.get_count()[0],
        found.objects,
        found.bytes,
        not gc.isenabled(),
        found.lengths,
        found.with_graph,
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


def _level() -> int:
    """The bytes of memory of this process that the kernel cannot reclaim: its resident memory
    without the pages of files."""
    with open("/proc/self/status", "rb") as file:
        lines = file.read().split(b"\n")
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(_UNRECLAIMABLE))


_UNRECLAIMABLE = (b"RssAnon:", b"RssShmem:")


def _escaped(text: str) -> str:
    return _inbox.escaped(text).replace(" ", "\\s")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
