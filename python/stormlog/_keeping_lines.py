"""Finds the line of the program that makes the memory of a holder stay: the line that appends to a
list, assigns a variable again or registers another hook.

For memory of a device, the line that allocates is often an innocent line of the model. The line
that keeps the memory is found from the holder, by reading the program's byte code. It is named only
when exactly one line can do it, or when exactly one of the lines that can is in the stacks of the
allocations.
"""

from __future__ import annotations

import dis
import linecache
import re
from collections.abc import Collection, Iterable, Iterator
from types import CodeType
from typing import Any, NamedTuple

from . import _adding_lines as lines
from . import _core, _retention
from ._adding_lines import Line, Reading
from ._holders import Holder, Place
from ._holders.walk import GRADIENTS, OPTIMIZER_STATE, PARAMETERS

# What a line does: it adds to a collection, assigns a variable or an attribute, or registers
# something with an object of a library.
ADDS, ASSIGNS, REGISTERS = "adds_items", "assigns", "registers"
# A place in the program: its file and its line number.
Spot = tuple[str, int]

# The methods of PyTorch that add to a collection which the program itself does not see.
_REGISTERING = {
    "_forward_hooks": ("register_forward_hook",),
    "_forward_pre_hooks": ("register_forward_pre_hook",),
    "_backward_hooks": ("register_full_backward_hook", "register_backward_hook", "register_hook"),
    "_backward_pre_hooks": ("register_full_backward_pre_hook",),
    "_post_accumulate_grad_hooks": ("register_post_accumulate_grad_hook",),
    "_optimizer_step_pre_hooks": ("register_step_pre_hook",),
    "_optimizer_step_post_hooks": ("register_step_post_hook",),
    "param_groups": ("add_param_group",),
}
# The methods of a model or an optimizer that add memory of these categories.
_IN_MODEL = ("register_buffer", "register_parameter", "register_module", "add_module")
_OF_MODEL = {
    PARAMETERS: _IN_MODEL,
    GRADIENTS: _IN_MODEL,
    OPTIMIZER_STATE: ("add_param_group",),
}
# Fewer hooks than these may be there from the beginning. One is added in each of the windows whose
# survivors are looked for, and there are at least three of these.
_LEAST_HOOKS = 3
_CONSTRUCTORS = ("__init__", "__new__", "__post_init__", "__setstate__", "setUp", "setup")
_STORES = {
    "global": ("STORE_GLOBAL", "STORE_NAME"),
    "local": ("STORE_FAST", "STORE_DEREF", "STORE_NAME"),
    "closure": ("STORE_DEREF", "STORE_FAST"),
    "attribute": ("STORE_ATTR",),
}
_LOADS = {
    "global": ("LOAD_GLOBAL", "LOAD_NAME"),
    "local": ("LOAD_FAST", "LOAD_DEREF", "LOAD_NAME"),
    "closure": ("LOAD_DEREF", "LOAD_FAST"),
    "attribute": ("LOAD_ATTR",),
}
_CALLS = ("LOAD_ATTR", "LOAD_METHOD")
_JOINED = re.compile("(?:LOAD|STORE)_FAST")
_LONGEST_TEXT = 200
_Pairs = list[tuple[dis.Instruction, int]]


class Keeping(NamedTuple):
    """What the program's code shows about a holder."""

    # The line that makes the memory stay, and what it does; None when no single line is certain.
    line: Line | None
    role: str
    # What becomes of the elements of the holder; see `_retention`.
    retention: str | None

    def record(self) -> dict[str, Any]:
        """What is known, with the keys of a record."""
        found: dict[str, Any] = {}
        if self.retention is not None:
            found["retention"] = self.retention
        if self.line is not None:
            text = linecache.getline(self.line.file, self.line.number).strip()[:_LONGEST_TEXT]
            found["kept_role"] = self.role
            found["kept_at"] = {
                "file": _core.sendable_text(self.line.file),
                "line": self.line.number,
                "function": self.line.function,
                "source": _core.sendable_text(text) if text else None,
            }
        return found


def keeping(
    holders: list[Holder],
    stacks: Iterable[Collection[Spot]],
    reading: Reading,
    *,
    only_carried: bool = False,
) -> Keeping | None:
    """What the code shows about the holder that ``_holders.group`` makes of ``holders``; None when
    they have none. ``stacks`` are the stacks of the allocations that it holds. With
    ``only_carried``, an assignment is named only where the value surely contains the one before;
    otherwise the memory must be known to grow."""
    first = holders[0]
    place = first.container or first.place
    if place is None:
        return None
    place = place._replace(in_graph=False)
    retention = None
    if first.container is None:
        role, found = ASSIGNS, _assigning_lines(place, reading, only_carried)
    elif first.category in _OF_MODEL and first.collection is None:
        is_known_to_grow = not only_carried and place.relation != "unreached"
        role = REGISTERS
        found = _calling_lines(_OF_MODEL[first.category], reading) if is_known_to_grow else []
    else:
        role, found = _lines_of_collection(place, first, reading)
        retention = _retention.retention(place, first.collection, reading)
    return Keeping(_only(found, stacks), role, retention)


def facts(holder: Holder) -> dict[str, Any]:
    """What is known about the collection of a holder without reading code, with the keys of a
    record."""
    one = holder.collection
    if one is None:
        return {}
    found: dict[str, Any] = {"kind": one.kind, "items": one.length}
    if one.most:
        found["most_items"] = one.most
    if one.has_ids:
        found["has_ids"] = True
    return found


def _only(found: list[Line], stacks: Iterable[Collection[Spot]]) -> Line | None:
    if len(found) <= 1:
        return found[0] if found else None
    shown = {line for line in found for stack in stacks if (line.file, line.number) in stack}
    return shown.pop() if len(shown) == 1 else None


def _lines_of_collection(place: Place, holder: Holder, reading: Reading) -> tuple[str, list[Line]]:
    last = place.name.rpartition(".")[2]
    registering = _REGISTERING.get(last)
    if registering is not None and place.relation != "cache":
        is_long = holder.collection is not None and holder.collection.length >= _LEAST_HOOKS
        return REGISTERS, _calling_lines(registering, reading) if is_long else []
    found = lines.adding_lines(place, reading)
    if found or place.relation == "cache":
        return ADDS, found
    # ``table[key].append(item)``: the collection has collections as elements.
    if not place.name.endswith("]"):
        found = lines.adding_lines(place._replace(name=place.name + "[]"), reading)
    return ADDS, found or _lines_of_owner(place, reading)


def _lines_of_owner(place: Place, reading: Reading) -> list[Line]:
    """The lines that add to an object of a library which owns the collection, such as
    ``jobs.put(item)`` for the collection ``jobs.queue``. The user's code does not mention such a
    collection."""
    target = lines.target_of(place)
    owner = place.name.rpartition(".")[0]
    if target is None or not owner:
        return []
    for code in lines.codes_of(target, reading):
        if any(_is_access(one, target, _LOADS) for one, _ in reading.pairs(code)):
            return []
    return lines.adding_lines(place._replace(name=owner), reading)


def _calling_lines(methods: tuple[str, ...], reading: Reading) -> list[Line]:
    """The lines that call one of the methods and that run more than once."""
    found = set()
    for code in reading.codes():
        if not any(name in code.co_names for name in methods):
            continue
        pairs = reading.pairs(code)
        loops = _loops(pairs)
        for instruction, number in pairs:
            is_call = instruction.opname in _CALLS and instruction.argval in methods
            if (
                is_call
                and code.co_name not in _CONSTRUCTORS
                and _runs_again(code, instruction, loops)
            ):
                found.add(Line(code.co_filename, number, code.co_name))
    return sorted(found)


def _assigning_lines(place: Place, reading: Reading, only_carried: bool) -> list[Line]:
    """The lines that assign a variable or an attribute again, where the value may contain the one
    before: a variable is read in a loop before the loop assigns it (``h = cell(x, h)``), and an
    attribute outlives the call that assigns it. Lines whose function reads the value before come
    before other ones."""
    name = place.name
    while name.endswith("]") and "[" in name:
        # An element of a tuple, such as ``state[0]`` of ``out, state = lstm(x, state)``.
        name = name[: name.rindex("[")]
    target = lines.target_of(place._replace(name=name))
    if target is None or target.is_element:
        return []
    carried: set[Line] = set()
    others: set[Line] = set()
    for code in lines.codes_of(target, reading):
        for line, is_carried in _stores_again(code, reading.pairs(code), target):
            (carried if is_carried else others).add(line)
    return sorted(carried if carried or only_carried else others)


def _stores_again(
    code: CodeType, pairs: _Pairs, target: lines.Target
) -> Iterator[tuple[Line, bool]]:
    """The lines of a code object that assign the variable again, each with whether the value before
    is read first."""
    loops = _loops(pairs)
    for index, (store, number) in enumerate(pairs):
        if not _is_access(store, target, _STORES) or _is_of_constant(pairs, index, target):
            continue
        line = Line(code.co_filename, number, code.co_name)
        if target.relation == "attribute":
            if code.co_name not in _CONSTRUCTORS and _runs_again(code, store, loops):
                yield line, any(_is_access(one, target, _LOADS) for one, _ in pairs)
        elif store.opname == "STORE_NAME" and code.co_name != "<module>":
            # A name in the body of a class.
            continue
        elif _is_carried(pairs, store, target, loops):
            yield line, True


def _is_access(
    instruction: dis.Instruction, target: lines.Target, names: dict[str, tuple[str, ...]]
) -> bool:
    """Whether an instruction loads, or stores, the variable."""
    loaded, wanted = instruction.argval, names[target.relation]
    if type(loaded) is not tuple:
        return bool(loaded == target.name) and instruction.opname.startswith(wanted)
    # Newer versions of Python join two accesses in one instruction: ``STORE_FAST_LOAD_FAST``.
    kinds = _JOINED.findall(instruction.opname)
    return any(
        name == target.name and kind.startswith(wanted)
        for kind, name in zip(kinds, loaded, strict=False)
    )


def _is_of_constant(pairs: _Pairs, index: int, target: lines.Target) -> bool:
    """Whether the value that is stored is a constant, as in ``self.hidden = None``."""
    before = index - 1
    if target.relation == "attribute":
        # Skip the instructions that load the object.
        while before >= 0 and pairs[before][0].opname == "LOAD_ATTR":
            before -= 1
        before -= 1
    return before >= 0 and pairs[before][0].opname in ("LOAD_CONST", "LOAD_SMALL_INT")


def _loops(pairs: _Pairs) -> list[tuple[int, int]]:
    """The loops of a code object, each as the offsets of its first and its last instruction."""
    return [
        (one.argval, one.offset)
        for one, _ in pairs
        if type(one.argval) is int and "JUMP" in one.opname and one.argval <= one.offset
    ]


def _runs_again(code: CodeType, one: dis.Instruction, loops: list[tuple[int, int]]) -> bool:
    return code.co_name != "<module>" or any(first <= one.offset <= last for first, last in loops)


def _is_carried(
    pairs: _Pairs, store: dis.Instruction, target: lines.Target, loops: list[tuple[int, int]]
) -> bool:
    """Whether a value of the variable is carried to the next time that the store runs: a loop
    around the store reads the variable before it assigns it, or a function reads a global variable
    before it assigns it."""
    if store.opname == "STORE_GLOBAL":
        loops = [*loops, (0, store.offset)]
    return any(
        _is_read_first([one for one, _ in pairs if first <= one.offset <= last], target)
        for first, last in loops
        if first <= store.offset <= last
    )


def _is_read_first(instructions: list[dis.Instruction], target: lines.Target) -> bool:
    for one in instructions:
        if _is_access(one, target, _LOADS):
            return True
        if _is_access(one, target, _STORES):
            return False
    return False
