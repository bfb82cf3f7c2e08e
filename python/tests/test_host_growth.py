"""What two looks at the objects of a process show: which containers have grown, and by how much."""

from __future__ import annotations

from typing import Any

from stormlog._holders import Container, Place
from stormlog._host_growth import Look, growth

MIB = 1 << 20


def container(name: str, length: int, size: int, **facts: Any) -> Container:
    place = facts.pop("place", Place(name, "global", "__main__"))
    return Container(place, "list", sum(map(ord, name)), length, size, **facts)


def look(level: int, *containers: Container, **facts: Any) -> Look:
    known = {(one.identity, one.kind): one for one in containers}
    empty = Look(0.0, level, known, {}, set(), 0, True, False, 0, 0, 0, False, {}, [])
    return empty._replace(**facts)


def grown(first: Look, last: Look) -> list[tuple[str, int]]:
    return [(one.phrase, one.grown // MIB) for one in growth(first, last)]


def test_newer_elements_may_be_larger() -> None:
    first = look(0, container("undo", 100, 100 * MIB))
    last = look(90 * MIB, container("undo", 140, 196 * MIB))
    # The mean size of an element is 1.4 MiB, that of the new ones 2.4 MiB.
    assert grown(first, last) == [("`undo` in `__main__`", 96)]
    # Of a long container only some elements are read, and the difference of two sizes is not exact.
    first = look(0, container("undo", 10_000, 100 * MIB))
    last = look(90 * MIB, container("undo", 10_100, 202 * MIB))
    assert grown(first, last) == [("`undo` in `__main__`", 2)]


def test_a_function_goes_on_to_other_lines() -> None:
    place = Place("rows", "local", "main", "a.py:7")
    first = look(0, container("rows", 100, 10 * MIB, place=place))
    moved = container("rows", 200, 20 * MIB, place=place._replace(line="a.py:9"))
    assert grown(first, look(10 * MIB, moved))[0][1] == 10
    other = container("rows", 200, 20 * MIB, place=place._replace(line="b.py:7"))
    assert grown(first, look(10 * MIB, other)) == []


def test_threads_have_variables_of_the_same_name() -> None:
    def local(number: int, length: int) -> Container:
        place = Place("local.pages", "global", "__main__")
        return container(f"pages{number}", length, length * MIB, place=place)

    first = look(0, local(1, 20), local(2, 20))
    last = look(20 * MIB, local(1, 30), local(2, 30))
    assert grown(first, last) == [("the lists of `local.pages` in `__main__`", 20)]


def test_memory_of_libraries_counts_for_the_only_container_of_their_objects() -> None:
    models = container("models", 20, MIB, hidden=20), container("models", 40, 2 * MIB, hidden=40)
    images = container("images", 20, MIB, hidden=20), container("images", 40, 2 * MIB, hidden=40)
    losses = container("losses", 20, MIB), container("losses", 40, 2 * MIB)
    libraries = {"lengths": {(1, "dict"): 5}}
    first = look(0, models[0], losses[0], **libraries)
    last = look(100 * MIB, models[1], losses[1])
    assert grown(first, last)[0] == ("`models` in `__main__`", 99)
    # With two such containers, either may be the one.
    first = look(0, models[0], images[0], **libraries)
    last = look(100 * MIB, models[1], images[1])
    assert [size for _, size in grown(first, last)] == [1, 1]


def test_a_registry_of_a_library_is_compared_by_its_length() -> None:
    figures = container("figures", 40, 40 * MIB)
    first = look(0, lengths={(figures.identity, "list"): 20})
    assert grown(first, look(20 * MIB, figures)) == [("`figures` in `__main__`", 20)]
