"""Compares two looks at the objects of a process: which containers have grown, and by how much.

The growth of a container is estimated as the number of its new elements times the mean size of an
element. Growth that no object explains belongs to a container whose elements have memory that
cannot be read: autograd graphs, and objects of libraries such as figures and models.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ._adding_lines import summing_lines

# If containers explain less than this share of the growth, something that cannot be read may grow.
MOST_OF_IT = 0.5
# If at least this share of the elements of a container are tensors with an autograd graph, or
# objects of libraries whose memory Python does not see, that memory may be what grows.
_NEARLY_ALL = 0.9
# If a container has more elements than this, only this many are read, and the size of the container
# is extrapolated from them.
MOST_ELEMENTS = 100
# Up to this multiple of that many elements, the difference of two sizes counts as growth, but only
# up to a multiple of the mean size of the new elements.
_MOST_TIMES_READ, _LARGER = 5, 3
_LEAST_GROWTH = 1 << 16
# Of so many containers it is examined whether one contains another.
_MOST_COMPARED = 200


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


class Look(NamedTuple):
    # The time (`time.monotonic()`), and the bytes of memory of the process.
    at: float
    level: int
    # The containers by identity and kind.
    containers: dict[tuple[int, str], Any]
    # The arrays and texts outside of containers: by path, their bytes and their place.
    single: dict[str, tuple[int, Any]]
    # The addresses of all arrays and texts that variables reach.
    addresses: set[int]
    blocks: int
    is_complete: bool
    with_libraries: bool
    # How many objects the garbage collector has not looked at yet, and whether it is turned off.
    young: int
    # The number of objects that were reached, and the estimated bytes of all collections.
    objects: int
    bytes: int
    gc_is_off: bool
    # The lengths of collections of libraries, by identity and kind.
    lengths: dict[tuple[int, str], int]
    # The places of tensors with an autograd graph that are not in collections.
    with_graph: list[Any]


def growth(first: Look, last: Look) -> list[Grown]:
    """The containers, arrays and texts that hold more memory at the last look than at the first,
    the largest growth first. An object inside a container that has grown more is left out, because
    the bytes of the container include the object."""
    found, with_graphs, with_hidden = [], [], []
    for key, one in last.containers.items():
        before = first.containers.get(key)
        if before is None and key in first.lengths:
            length = first.lengths[key]
            before = one._replace(length=length, bytes=one.bytes * length // one.length)
        if before is None or one.length <= before.length or not _is_same(before.place, one.place):
            continue
        gained = one.length - before.length
        grown = _grown(before, one)
        found.append(
            Grown(one.place.phrase, one.kind, one.length, gained, one.bytes, grown, one.place, one)
        )
        if one.graphs >= _NEARLY_ALL * one.length:
            with_graphs.append(found[-1])
        elif one.hidden >= _NEARLY_ALL * one.length and one.place.relation != "cache":
            with_hidden.append(found[-1])
    found = _siblings_together(found)
    for path, (size, place) in last.single.items():
        grown = size - first.single.get(path, (0, None))[0]
        if path in first.single and grown > 0:
            found.append(Grown(place.phrase, "array", 1, 0, size, grown, place))
    whole = last.level - first.level
    left = whole - sum(one.grown for one in _outer(found))
    if left > MOST_OF_IT * whole:
        found = _with_unseen(found, left, first, last, with_graphs, with_hidden)
    return _outer(found)


def _with_unseen(
    found: list[Grown],
    left: int,
    first: Look,
    last: Look,
    with_graphs: list[Grown],
    with_hidden: list[Grown],
) -> list[Grown]:
    """What grows, and to what the growth ``left`` belongs that no object explains: graphs, or
    memory of libraries."""
    if with_graphs:
        return [*found, _of_graphs(with_graphs[0], left)] if len(with_graphs) == 1 else found
    summed = _summed(first, last)
    if len(summed) == 1:
        phrase = f"the autograd graph of {summed[0].phrase}"
        place = summed[0]._replace(in_graph=True)
        return [*found, Grown(phrase, "graphs", 1, 0, left, left, place)]
    holder = _only_outer(with_hidden) if first.lengths else None
    if holder is None:
        return found
    return [*(one for one in found if one.place != holder.place), _of_hidden(holder, left)]


def _summed(first: Look, last: Look) -> list[Any]:
    """The places of variables that had a tensor with an autograd graph at both looks, and to which
    the program adds other tensors: the graph of the sum grows with every addition."""
    found = {
        place._replace(line=""): place
        for place in last.with_graph
        if any(_is_same(before, place) for before in first.with_graph)
    }
    return [place for place in found.values() if summing_lines(place)]


def _is_same(one: Any, other: Any) -> bool:
    """Whether two places are of the same variable. A function that runs may have gone on to another
    line meanwhile."""
    file, _, _ = one.line.rpartition(":")
    return bool(one._replace(line="") == other._replace(line="")) and other.line.startswith(file)


def _only_outer(found: list[Grown]) -> Grown | None:
    """The container that contains all others of these; None when there is no such container."""
    shortest = min(found, key=lambda one: len(str(one.place)), default=None)
    path = "" if shortest is None else str(shortest.place)
    return shortest if all(str(one.place).startswith(path) for one in found) else None


def _of_hidden(one: Grown, left: int) -> Grown:
    """The growth ``left`` that no object explains, as the memory of the objects of libraries in a
    container, such as figures, models and images: the memory of these is not visible to Python."""
    size = int(left / one.gained * one.length)
    return one._replace(bytes=one.bytes + size, grown=one.grown + left)


def _grown(before: Any, now: Any) -> int:
    """The bytes by which a container has grown. Where most elements were read, newer ones may be
    larger than the mean."""
    gained = now.length - before.length
    of_mean = int(now.bytes / now.length * gained)
    if now.length > _MOST_TIMES_READ * MOST_ELEMENTS:
        return of_mean
    return max(of_mean, min(int(now.bytes - before.bytes), _LARGER * of_mean))


def _siblings_together(found: list[Grown]) -> list[Grown]:
    """The containers that grow; several containers in one container, such as the lists in
    ``{"train": [], "test": []}``, are summed up."""
    groups: dict[Any, list[Grown]] = {}
    for one in found:
        name = one.place.name
        # Threads that run the same function have variables of the same name.
        inside = (
            one.place._replace(name=name[: name.rindex("[")]) if name.endswith("]") else one.place
        )
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
    outer: dict[str, Grown] = {}
    for one in found[:_MOST_COMPARED]:
        path = str(one.place)
        if not any(path.startswith(other) for other in outer):
            outer[path] = one
    return list(outer.values())
