"""Finds out whether a container that grows will ever hold less, from its type and from the byte
code of the program.

``retention`` returns a word, or None when nothing certain is known:

``bounded``
    The container has a bound: a ``deque(maxlen=9)``, a ``Queue(maxsize=9)``, an ``lru_cache(9)``.
``removed``
    The program removes elements, or replaces the container by another one.
``read``
    The program reads all elements, so the container may be the result that the program computes.
``kept``
    The program adds elements, nothing removes them, and nothing reads all of them.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from types import CodeType

from . import _adding_lines as lines
from . import _stack
from ._holders import Container, Place

_REMOVING = {
    "clear",
    "difference_update",
    "discard",
    "get_nowait",
    "intersection_update",
    "pop",
    "popitem",
    "popleft",
    "remove",
    "symmetric_difference_update",
}
# Methods that read at most one element.
_LOOKING = {"count", "empty", "full", "get", "index", "move_to_end", "qsize", "__contains__"}
_MEASURING = {"len", "bool", "id", "isinstance", "type"}
_TESTS = ("CONTAINS_OP", "COMPARE_OP", "IS_OP", "UNARY_NOT", "TO_BOOL", "POP_JUMP", "POP_TOP")
_STORES = {
    "global": ("STORE_GLOBAL", "STORE_NAME", "DELETE_GLOBAL", "DELETE_NAME"),
    "local": ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "DELETE_FAST", "DELETE_DEREF"),
    "closure": ("STORE_DEREF", "STORE_FAST", "DELETE_DEREF"),
    "attribute": ("STORE_ATTR", "DELETE_ATTR"),
}
_CONSTRUCTORS = ("__init__", "__new__", "__post_init__", "__setstate__", "setUp", "setup")
_MOST_INSTRUCTIONS = 20_000


def retention(
    place: Place, container: Container | None, reading: lines.Reading | None = None
) -> str | None:
    """What becomes of the elements of a container; see the description of the module."""
    if container is not None and container.most is not None:
        return "bounded" if container.most else "kept"
    target = lines.target_of(place)
    if target is None or _is_interactive():
        return None
    reading = reading or lines.Reading()
    uses: set[str] = set()
    instructions, stores = 0, 0
    for code in lines.codes_of(target, reading):
        instructions += len(code.co_code) // 2
        if instructions > _MOST_INSTRUCTIONS:
            return None
        numbered = [one for one, _ in reading.pairs(code)]
        stores += sum(_stores(code, numbered, target))
        uses.update(_uses(numbered, target))
    if stores > 1 or "removed" in uses:
        return "removed"
    if "read" in uses:
        return "read"
    # Where the program itself adds nothing, a library does, whose code is not read here: it may
    # remove elements too.
    return "kept" if "added" in uses else None


def _is_interactive() -> bool:
    """Whether a user may still read the container, in a notebook or at a prompt."""
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules


def _stores(code: CodeType, numbered: list[dis.Instruction], target: lines.Target) -> Iterator[int]:
    """For each instruction that assigns to the variable or deletes it, how often it is likely to
    run: once, or several times (2)."""
    loops = [
        (one.argval, one.offset)
        for one in numbered
        if type(one.argval) is int and "JUMP" in one.opname and one.argval <= one.offset
    ]
    for one in numbered:
        names = one.argval if type(one.argval) is tuple else (one.argval,)
        if not one.opname.startswith(_STORES[target.relation]) or target.name not in names:
            continue
        if one.opname.startswith("STORE_FAST_LOAD_FAST") and names[0] != target.name:
            continue
        if (
            target.relation == "global"
            and one.opname == "STORE_NAME"
            and code.co_name != "<module>"
        ):
            # A name in the body of a class.
            continue
        is_again = any(first <= one.offset <= last for first, last in loops)
        is_later = target.relation == "attribute" and code.co_name not in _CONSTRUCTORS
        is_later |= target.relation == "global" and one.opname.endswith("_GLOBAL")
        yield 2 if is_again or is_later else 1


def _uses(numbered: list[dis.Instruction], target: lines.Target) -> Iterator[str]:
    """How the instructions of one code object use the container: "added", "removed", "read" (all
    elements) or "looked" (at most one element, or only the length)."""
    for index, instruction in enumerate(numbered):
        above = lines.loads(instruction, target)
        if above is None:
            continue
        at = index + 1
        if target.is_element:
            at += 2
            if at > len(numbered) or not lines.is_subscript(numbered[at - 1]):
                # The object that has the container as an element.
                yield _use(numbered, index, index + 1, above, target)
                continue
        yield _use(numbered, index, at, above, target)


def _use(
    numbered: list[dis.Instruction], loaded: int, at: int, above: int, target: lines.Target
) -> str:
    after = numbered[at] if at < len(numbered) else None
    if after is None:
        return "read"
    if above == 0 and after.opname in ("LOAD_ATTR", "LOAD_METHOD"):
        name = after.argval
        if name in _REMOVING:
            return "removed"
        if name in lines.ADDING:
            return "added"
        return "looked" if name in _LOOKING else "read"
    is_argument = above == 0 and after.opname in ("CALL", "CALL_FUNCTION") and after.arg == 1
    if is_argument and _is_measured(numbered, loaded, target):
        return "looked"
    taken = _stack.consumer(numbered[at:], above)
    if taken is None:
        return "read"
    instruction, depth = taken
    name = instruction.opname
    if name.startswith(("SWAP", "ROT_")):
        # ``counts[key] += 1``
        return "added"
    if name == "DELETE_SUBSCR":
        return "removed"
    is_slice = name.endswith("_SLICE") or _makes_slice(numbered[numbered.index(instruction) - 1])
    if name == "STORE_SUBSCR" and not is_slice:
        return "added" if depth == 1 else "read"
    if name.startswith("STORE_S"):
        return "removed"
    if name.startswith("INPLACE_") or instruction.argrepr.endswith("="):
        return "added" if depth == 1 else "read"
    if is_slice:
        return "looked" if _is_of_last(numbered[at]) else "read"
    if lines.is_subscript(instruction):
        return "looked" if depth >= 1 else "read"
    return "looked" if name.startswith(_TESTS) else "read"


def _makes_slice(instruction: dis.Instruction) -> bool:
    return instruction.opname == "BUILD_SLICE" or type(instruction.argval) is slice


def _is_of_last(instruction: dis.Instruction) -> bool:
    """Whether the first instruction of a slice shows that it has only the last few elements, as
    ``[-4:]`` has, and not most of them, as ``samples[100:]`` has."""
    first = instruction.argval
    start = first.start if type(first) is slice else first
    return type(start) is int and start < 0


def _is_measured(numbered: list[dis.Instruction], loaded: int, target: lines.Target) -> bool:
    """Whether the container that instruction ``loaded`` loads is the argument of ``len`` or of a
    similar function."""
    before = loaded - (2 if target.relation == "attribute" else 1)
    if before > 0 and numbered[before].opname == "PUSH_NULL":
        before -= 1
    return before >= 0 and numbered[before].argval in _MEASURING
