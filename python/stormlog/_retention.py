"""Finds out whether a container that grows will ever hold less, from its type and from the byte
code of the program.

``retention`` returns a word, or None when nothing certain is known:

``bounded``
    The container has a bound: a ``deque(maxlen=9)``, a ``Queue(maxsize=9)``, an ``lru_cache(9)``.
    Or the program compares its length with a limit, or overwrites elements of a list.
``removed``
    The program removes elements, or replaces the container by another one.
``read``
    The program reads all elements, so the container may be the result that the program computes.
    Functions are no result: a list of callbacks that the program calls is ``kept``.
``kept``
    The program adds elements, nothing removes them, and nothing reads all of them.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

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
# Methods that describe an object to people; calling them is no use of what it contains.
_DESCRIBING = ("__repr__", "__str__", "__eq__", "__ne__", "__hash__", "__format__")
# Functions and attributes that give everything that an object contains.
_WHOLE = {"dump", "dumps", "vars", "asdict", "astuple", "deepcopy", "__dict__", "__getstate__"}
# If at least this share of the elements are functions, the container has callbacks.
_NEARLY_ALL = 0.9
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
        if code.co_name in _DESCRIBING:
            continue
        pairs = reading.pairs(code)
        stores += sum(_stores(code, [one for one, _ in pairs], target))
        uses.update(_uses(code, pairs, target, container, set()))
    if stores > 1 or "removed" in uses:
        return "removed"
    if "bounded" in uses or ("replaced" in uses and _is_list(container)):
        return "bounded"
    if "read" in uses and not _has_callbacks(container):
        return "read"
    if _is_taken_whole(place, reading):
        return "read"
    if "read" in uses:
        return "kept"
    # Where the program itself adds nothing, a library does, whose code is not read here: it may
    # remove elements too.
    return "kept" if uses & {"added", "replaced"} else None


def _is_list(container: Container | None) -> bool:
    return container is not None and container.kind == "list"


def _has_callbacks(container: Container | None) -> bool:
    return container is not None and container.callables >= _NEARLY_ALL * container.length


def _is_taken_whole(place: Place, reading: lines.Reading) -> bool:
    """Whether the program takes everything that the object contains which has the container as an
    attribute: ``pickle.dump(study)``, ``vars(self)``."""
    owners = {part.partition("[")[0] for part in place.name.split(".")[:-1]}
    if not owners:
        return False
    owners.add("self")
    for code in reading.codes():
        if _WHOLE.isdisjoint(code.co_names) or owners.isdisjoint(
            (*code.co_varnames, *code.co_names, *code.co_freevars, *code.co_cellvars)
        ):
            continue
        is_asked = False
        for one, _ in reading.pairs(code):
            names = one.argval if type(one.argval) is tuple else (one.argval,)
            if one.opname.startswith("LOAD_") and not _WHOLE.isdisjoint(names):
                if names[-1] in ("__dict__", "__getstate__"):
                    return True
                is_asked = True
            elif is_asked and one.opname.startswith("LOAD_") and not owners.isdisjoint(names):
                return True
            elif one.opname.startswith(("CALL", "STORE_", "POP_")):
                is_asked = False
    return False


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
    before: dis.Instruction | None = None
    for last, one in zip([None, *numbered], numbered, strict=False):
        if last is not None and not last.opname.startswith(("SWAP", "ROT_")):
            before = last
        names = one.argval if type(one.argval) is tuple else (one.argval,)
        if not one.opname.startswith(_STORES[target.relation]) or target.name not in names:
            continue
        if before is not None and (before.opname == "INPLACE_ADD" or before.argrepr == "+="):
            # ``self.text += line`` assigns the longer text.
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
        # ``if not hasattr(local, "pages"): local.pages = {}`` runs once.
        is_lazy = "hasattr" in code.co_names and target.name in code.co_consts
        is_first = code.co_name in _CONSTRUCTORS or code.co_name == "<module>"
        is_later = target.relation == "attribute" and not is_first
        is_later |= target.relation == "global" and one.opname.endswith("_GLOBAL")
        yield 2 if (is_again or is_later) and not is_lazy else 1


def _uses(
    code: CodeType,
    pairs: list[tuple[dis.Instruction, int]],
    target: lines.Target,
    container: Container | None,
    known: set[str],
) -> Iterator[str]:
    """How the instructions of one code object use the container: "added", "replaced" (an element),
    "removed", "bounded" (the length is compared with a limit), "read" (all elements) or "looked"
    (at most one element, or only the length). ``known`` has the local variables that were followed
    because the container is assigned to them."""
    numbered = [one for one, _ in pairs]
    for index, instruction in enumerate(numbered):
        above = lines.loads(instruction, target)
        if above is None:
            continue
        at = index + 1
        if target.is_element:
            at += 2
            if at > len(numbered) or not lines.is_subscript(numbered[at - 1]):
                # The object that has the container as an element.
                use = _use(numbered, index, index + 1, above, target)
                yield {"replaced": "added", "measured": "looked"}.get(use, use)
                continue
        alias = lines.alias_at(code, pairs, at, above)
        if alias is not None:
            if alias.name not in known:
                known.add(alias.name)
                for inner, inside, meant in lines.alias_in(code, pairs, alias):
                    yield from _uses(inner, inside, meant, container, known)
            continue
        use = _use(numbered, index, at, above, target)
        if use == "measured":
            length = 0 if container is None else container.length
            use = "bounded" if _is_limited(numbered, at, length) else "looked"
        yield use


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
        return "measured"
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
        return "replaced" if depth == 1 else "read"
    if name.startswith("STORE_S"):
        return "removed"
    if name.startswith("INPLACE_") or instruction.argrepr.endswith("="):
        return "added" if depth == 1 else "read"
    if is_slice:
        return "looked" if _is_of_last(numbered[at]) else "read"
    if lines.is_subscript(instruction):
        return "looked" if depth >= 1 else "read"
    return "looked" if name.startswith(_TESTS) else "read"


def _is_limited(numbered: list[dis.Instruction], call: int, length: int) -> bool:
    """Whether the length that the call returns is compared with a limit. A number that the length
    has exceeded long ago is no limit."""
    after = numbered[call + 1 : call + 4]
    for place, one in enumerate(after):
        if one.opname == "COMPARE_OP":
            limit: Any = after[place - 1].argval if place else None
            return type(limit) not in (int, float) or limit * _EXCEEDED >= length
        if not one.opname.startswith("LOAD_"):
            return False
    return False


# A length that is this many times as large as a number has exceeded it long ago.
_EXCEEDED = 2


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
