"""Finds the lines of the program that can add to a container, by reading the program's byte code.

A thread of the recorder cannot see the program add an element, because the interpreter never
switches threads at that moment. But when only one line of the program's own code can add to a
container, that line added the element. The code is read, never run, and nothing is imported or
traced. ``tracemalloc`` would name the line that allocated an element, but doubles the cost of every
allocation while it is on.
"""

from __future__ import annotations

import dis
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from . import _stack
from ._holders import Place, roots

ADDING = {
    "add",
    "append",
    "appendleft",
    "extend",
    "extendleft",
    "insert",
    "put",
    "put_nowait",
    "setdefault",
    "update",
}
_LOADS = {
    "global": ("LOAD_GLOBAL", "LOAD_NAME"),
    "local": ("LOAD_FAST", "LOAD_DEREF", "LOAD_NAME", "STORE_FAST_LOAD_FAST"),
    "closure": ("LOAD_DEREF", "LOAD_FAST", "STORE_FAST_LOAD_FAST"),
    "attribute": ("LOAD_ATTR",),
}
_LOADS_OF_CLASS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD")
_TO_LOCAL = ("STORE_FAST", "STORE_DEREF")
_MOST_CODES = 5000
_MOST_INSTRUCTIONS = 20_000
# Between two calls of ``rest``, at most this many objects or instructions are read.
_BETWEEN_RESTS = 50


class Line(NamedTuple):
    """A line of the program."""

    file: str
    number: int
    function: str


class Target(NamedTuple):
    """How the code refers to the container."""

    # The variable or attribute, and the key of `_LOADS` for the instructions that load it.
    name: str
    relation: str
    # Whether the container is an element of the named object (``caches[0]``).
    is_element: bool
    # The function that a local or closure variable belongs to; otherwise empty.
    function: str


class Reading:
    """The code of the user's modules. Each code object is read at most once, also when it is read
    for several containers.

    ``rest`` is called after each short piece of work; to end the reading, it raises an exception.
    ``also`` is code that neither a module nor a thread refers to any more, such as that of the
    frames that an exception has left.
    """

    def __init__(
        self, rest: Callable[[], None] = lambda: None, also: Iterable[CodeType] = ()
    ) -> None:
        self._rest, self._also = rest, tuple(also)
        self._done = 0
        self._codes: list[CodeType] | None = None
        self._pairs: dict[int, list[tuple[dis.Instruction, int]]] = {}

    def codes(self) -> list[CodeType]:
        """The code objects of the user's modules, at most ``_MOST_CODES``."""
        if self._codes is None:
            self._codes = list(users_codes(self._also, self.tick))
        return self._codes

    def pairs(self, code: CodeType) -> list[tuple[dis.Instruction, int]]:
        """The instructions of one of these code objects, each with its line number."""
        found = self._pairs.get(id(code))
        if found is None:
            found = []
            for pair in numbered(code):
                found.append(pair)
                self.tick()
            # The code object is in ``_codes``, so no other one gets its id.
            self._pairs[id(code)] = found
        return found

    def tick(self) -> None:
        """Count an object or an instruction that was read."""
        self._done += 1
        if self._done % _BETWEEN_RESTS == 0:
            self._rest()


def adding_lines(place: Place, reading: Reading | None = None) -> list[Line]:
    """The lines that add to a container; ``place`` is the path to it, such as ``__main__.items``.
    For the cache of a function (``functools.lru_cache``), the result is the line that defines the
    function. The list is empty when it could be incomplete: when the code loads an adding method
    without calling it (``add = items.append``), or when the code is too long or too complex to
    read."""
    reading = reading or Reading()
    if place.relation == "cache":
        return _definitions(place.scope, reading)
    target = target_of(place)
    if target is None:
        return []
    found: set[Line] = set()
    instructions = 0
    for code in codes_of(target, reading):
        instructions += len(code.co_code) // 2
        if instructions > _MOST_INSTRUCTIONS:
            return []
        lines = _lines(code, reading.pairs(code), target)
        if lines is None:
            return []
        found.update(lines)
    return sorted(found)


def calls_of(module: str, function: str) -> list[Line]:
    """The lines of the program that call a function of a module, as ``gc.disable()``."""
    found = set()
    for code in users_codes():
        if function not in code.co_names:
            continue
        pairs = list(numbered(code))
        for (before, _), (instruction, number) in itertools.pairwise(pairs):
            is_of_module = before.opname.startswith(("LOAD_GLOBAL", "LOAD_NAME"))
            is_attribute = instruction.opname in ("LOAD_METHOD", "LOAD_ATTR")
            if is_of_module and is_attribute:
                if (before.argval, instruction.argval) == (module, function):
                    found.add(Line(code.co_filename, number, code.co_name))
    return sorted(found)


def summing_lines(place: Place) -> list[Line]:
    """The lines that add a value to a variable and assign the sum to it: ``total = total + loss``,
    ``self.total += loss``."""
    target = target_of(place)
    if target is None or target.is_element:
        return []
    found = set()
    for code in codes_of(target):
        pairs = list(numbered(code))
        for index, (instruction, number) in enumerate(pairs):
            if loads(instruction, target) != 0:
                continue
            rest = [one for one, _ in pairs[index + 1 :]]
            taken = _stack.consumer(rest, 0)
            if taken is None or taken[1] != 1 or not _is_sum(taken[0]):
                continue
            after = rest[rest.index(taken[0]) + 1 :][:2]
            stores = [one for one in after if one.opname.startswith("STORE_")][:1]
            names = [one.argval if type(one.argval) is str else one.argval[0] for one in stores]
            if names == [target.name]:
                found.add(Line(code.co_filename, number, code.co_name))
    return sorted(found)


def _is_sum(instruction: dis.Instruction) -> bool:
    is_addition = instruction.opname in ("BINARY_ADD", "INPLACE_ADD")
    return is_addition or instruction.argrepr in ("+", "+=")


def creating_lines(name: str) -> list[Line]:
    """The lines that refer to a class by its name, such as the line that creates an object of it.
    Imports do not count."""
    found = set()
    for code in users_codes():
        if name not in code.co_names:
            continue
        for instruction, number in numbered(code):
            is_load = instruction.opname.startswith(_LOADS_OF_CLASS)
            if is_load and instruction.argval == name:
                found.add(Line(code.co_filename, number, code.co_name))
    return sorted(found)


def target_of(place: Place) -> Target | None:
    if place.relation not in ("global", "local", "closure") or place.in_graph:
        return None
    name = place.name
    is_element = name.endswith("]")
    if is_element:
        name = name[: name.index("[")] if name.count("[") == 1 else ""
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    *owner, name = name.split(".")
    if owner:
        return Target(name, "attribute", is_element, "")
    return Target(
        name, place.relation, is_element, "" if place.relation == "global" else place.scope
    )


def codes_of(target: Target, reading: Reading | None = None) -> Iterator[CodeType]:
    """The code objects of the user's modules that can refer to the container. At most
    ``_MOST_CODES`` code objects are examined."""
    for code in (reading or Reading()).codes():
        if target.relation == "closure":
            is_meant = target.name in code.co_freevars or target.name in code.co_cellvars
        elif target.relation == "local":
            is_own = code.co_name == target.function and (
                target.name in code.co_varnames or target.name in code.co_cellvars
            )
            is_meant = is_own or target.name in code.co_freevars
        else:
            is_meant = target.name in code.co_names
        if is_meant:
            yield code


def users_codes(
    also: Iterable[CodeType] = (), tick: Callable[[], None] = lambda: None
) -> Iterator[CodeType]:
    """The code of the user's modules, functions and classes."""
    waiting: list[Any] = list(also)
    for stack in roots.stacks():
        waiting += [frame.f_code for frame in stack]
        stack.clear()
    users, _ = roots.modules()
    for module in users:
        waiting += [value for _, value in roots.variables(module)]
    names = {module.__name__ for module in users}
    seen: set[int] = set()
    codes = 0
    while waiting and codes < _MOST_CODES:
        one = waiting.pop()
        tick()
        if id(one) in seen or type(one) is ModuleType:
            continue
        seen.add(id(one))
        if type(one) is CodeType:
            if roots.is_users(one.co_filename):
                codes += 1
                waiting += [part for part in one.co_consts if type(part) is CodeType]
                yield one
        elif type(one) is FunctionType:
            waiting.append(one.__code__)
            waiting += _functions_in(one)
        elif type(one) in (staticmethod, classmethod):
            waiting.append(one.__func__)
        elif type(one) is property:
            waiting += [one.fget, one.fset]
        elif isinstance(one, type) and type.__getattribute__(one, "__module__") in names:
            waiting += list(type.__dict__["__dict__"].__get__(one).values())


def _functions_in(function: FunctionType) -> list[Any]:
    """The functions that a function refers to in its closure, such as the function that a decorator
    wrapped."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    return [one for one in found if type(one) is FunctionType]


def _definitions(function: str, reading: Reading) -> list[Line]:
    codes = (code for code in reading.codes() if code.co_name == function)
    return sorted({Line(code.co_filename, code.co_firstlineno, function) for code in codes})


def _lines(
    code: CodeType, pairs: list[tuple[dis.Instruction, int]], target: Target
) -> list[Line] | None:
    """The lines of one code object that add to the container; None when some may be missing."""
    return _lines_in(code, pairs, target, set())


def _lines_in(
    code: CodeType,
    pairs: list[tuple[dis.Instruction, int]],
    target: Target,
    known: set[str],
) -> list[Line] | None:
    found = []
    for index, (instruction, number) in enumerate(pairs):
        above = loads(instruction, target)
        if above is None:
            continue
        at = index + 1
        if target.is_element:
            # Skip the instructions that compute the key, and the subscript.
            subscript = _stack.consumer((one for one, _ in pairs[at:]), above)
            if subscript is None:
                return None
            if subscript[1] != 1 or not is_subscript(subscript[0]):
                continue
            at = next(i for i in range(at, len(pairs)) if pairs[i][0] is subscript[0]) + 1
            above = 0
        alias = alias_at(code, pairs, at, above)
        if alias is not None:
            if alias.name not in known:
                known.add(alias.name)
                for inner, inside, meant in alias_in(code, pairs, alias):
                    of_alias = _lines_in(inner, inside, meant, known)
                    if of_alias is None:
                        return None
                    found += of_alias
            continue
        method = _method(pairs[at][0]) if at < len(pairs) and not above else None
        if method == "taken":
            return None
        is_added = method == "called" or _is_stored_to(pairs, at, above)
        if is_added is None:
            return None
        if is_added:
            found.append(Line(code.co_filename, number, code.co_name))
    return found


def numbered(code: CodeType) -> Iterator[tuple[dis.Instruction, int]]:
    """The instructions of a code object, each with its line number."""
    number = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        starts: Any = getattr(instruction, "line_number", instruction.starts_line)
        if type(starts) is int:
            number = starts
        if instruction.opname not in _stack.IGNORED:
            yield instruction, number


def loads(instruction: dis.Instruction, target: Target) -> int | None:
    """The number of values above the container on the stack, after the instruction has loaded the
    container; None when the instruction does not load the container."""
    if not instruction.opname.startswith(_LOADS[target.relation]):
        return None
    loaded = instruction.argval
    if instruction.opname.startswith("LOAD_ATTR") and _is_call(instruction):
        return None
    if type(loaded) is not tuple:
        return 0 if loaded == target.name else None
    if loaded[-1] == target.name:
        return 0
    is_first = loaded[0] == target.name and instruction.opname.startswith("LOAD")
    return 1 if is_first else None


def alias_at(
    code: CodeType, pairs: list[tuple[dis.Instruction, int]], at: int, above: int
) -> Target | None:
    """The local variable to which the instruction at ``at`` assigns the container that was just
    loaded (``window = recent[sensor]``), if nothing else is ever assigned to this variable."""
    if above or at >= len(pairs) or not pairs[at][0].opname.startswith(_TO_LOCAL):
        return None
    stored = pairs[at][0].argval
    name = stored[0] if type(stored) is tuple else stored
    if name in code.co_freevars:
        return None
    stores = 0
    for one, _ in pairs:
        if one.opname.startswith(_TO_LOCAL):
            names = one.argval if type(one.argval) is tuple else (one.argval,)
            # The second variable of this instruction is loaded, not assigned to.
            stores += (names[:1] if "LOAD" in one.opname else names).count(name)
    is_own = name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return Target(name, "local", False, code.co_name) if stores == 1 and not is_own else None


def alias_in(
    code: CodeType, pairs: list[tuple[dis.Instruction, int]], alias: Target
) -> Iterator[tuple[CodeType, list[tuple[dis.Instruction, int]], Target]]:
    """The code that can use a local variable: of its function, and of the functions in it."""
    yield code, pairs, alias
    for inner in code.co_consts:
        if type(inner) is CodeType and alias.name in inner.co_freevars:
            yield inner, list(numbered(inner)), alias._replace(relation="closure")


def _is_call(instruction: dis.Instruction) -> bool:
    """Whether the instruction loads an attribute in order to call it."""
    if instruction.opname == "LOAD_METHOD":
        return True
    return sys.version_info >= (3, 12) and bool((instruction.arg or 0) & 1)


def _method(instruction: dis.Instruction) -> str | None:
    """How an instruction uses an adding method (``append``) of the value on top of the stack:
    "called", or "taken" when it only loads the method; None when it uses no such method."""
    is_attribute = instruction.opname in ("LOAD_METHOD", "LOAD_ATTR")
    if not is_attribute or instruction.argval not in ADDING:
        return None
    return "called" if _is_call(instruction) else "taken"


def is_subscript(instruction: dis.Instruction) -> bool:
    return instruction.opname == "BINARY_SUBSCR" or instruction.argrepr == "[]"


def _is_stored_to(pairs: list[tuple[dis.Instruction, int]], at: int, above: int) -> bool | None:
    """Whether the instructions from ``at`` on assign to an element of the container or extend it
    with ``+=``; None when a jump comes first. ``above`` counts the values above the container on
    the stack."""
    taken = _stack.consumer((instruction for instruction, _ in pairs[at:]), above)
    if taken is None:
        return None
    instruction, depth = taken
    name = instruction.opname
    is_extended = name == "INPLACE_ADD" or instruction.argrepr == "+="
    return depth == 1 and (name == "STORE_SUBSCR" or is_extended)
