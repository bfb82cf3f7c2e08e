"""The path from a named root to an object, stored compactly and rendered as the user writes it.

A path consists of steps, each from an object to one of its parts. A step is a tuple ``(parent,
kind, label, size)``, where ``parent`` is the step before. A step refers to no object of the
program. For a step to an element, ``size`` is the length of the collection, otherwise 0.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from .. import _core

Step = tuple[Any, int, Any, int]

(
    GLOBAL,  # (module, variable)
    LOCAL,  # (variable, function, file, line)
    ATTRIBUTE,  # name
    INDEX,  # position in a list or deque
    FIXED,  # position in a tuple, which cannot grow
    KEY,  # key of a dictionary, already reduced to what may be shown
    ELEMENT,  # of a set or a cache: no position
    CLOSURE,  # (variable, function)
    CACHE,  # the function that functools.lru_cache wraps
    INSIDE,  # the name of a type whose parts have no names
    TRACEBACK,  # of an exception
    CHILD,  # name of a module's parameter, buffer or child
    STATE,  # (address of the parameter, key) in an optimizer's state
    GRADIENT,  # address of the tensor whose gradient it is
    GRAPH,  # what the autograd graph of a tensor holds
    UNREACHED,  # what the garbage collector knows but no root reaches
) = range(16)

_GROWING = (INDEX, KEY, ELEMENT)
_LONGEST_KEY = 32
_LONGEST_HARMLESS = 8
_LARGEST_INDEX = 10_000_000
# Some dictionaries are records with fields, like {"loss": ..., "step": ...}, and not collections
# that grow. A dictionary on a path counts as a record when all of this is true: it has at most
# _MOST_FIELDS entries; its key on the path is an identifier; another collection on the path has
# more than _LONGER_THAN_FIELDS times as many entries.
_MOST_FIELDS = 16
_LONGER_THAN_FIELDS = 4
# The outermost collection on a path is taken for the one that grows, unless an inner collection is
# more than this many times as long.
_MUCH_LONGER = 16


class Place(NamedTuple):
    """The location of an object, as the user would write it.

    ``str(place)`` is the path, ``__main__.aux[12]``; ``place.phrase`` is for sentences, with
    backticks around code: "`aux[12]` in `__main__`", "local `batch` in `step` (train.py:41)".
    """

    # "aux[12]", "model.blocks[3].mlp.weight"
    name: str
    # One of "global", "local", "closure", "cache" and "unreached".
    relation: str
    # The module, the function, or a description of an unreached object.
    scope: str
    # "train.py:41" for locals
    line: str = ""
    # Whether the object is held by the autograd graph of the tensor at `name`, and not by the
    # tensor itself.
    in_graph: bool = False
    # The exception whose traceback keeps the frame of a local variable.
    traceback_of: str = ""

    def __str__(self) -> str:
        if self.relation == "global":
            path = f"{self.scope}.{self.name}"
        elif self.relation == "local":
            path = f"{self.name} in {self.scope} ({self.line})"
        elif self.relation == "closure":
            path = f"{self.name} closed over by {self.scope}"
        elif self.relation == "cache":
            path = f"lru_cache of {self.scope}{self.name}"
        else:
            path = f"{self.scope}{self.name}"
        return f"autograd graph of {path}" if self.in_graph else path

    @property
    def phrase(self) -> str:
        """The location as text for a sentence."""
        if self.relation == "global":
            words = f"`{self.name}` in `{self.scope}`"
        elif self.relation == "local":
            words = f"local `{self.name}` in `{self.scope}` ({self.line})"
        elif self.relation == "closure":
            words = f"`{self.name}` closed over by `{self.scope}`"
        elif self.relation == "cache":
            words = f"the `lru_cache` of `{self.scope}`"
        elif self.name:
            words = f"`{self.name.lstrip('.')}` of {self.scope}"
        else:
            words = self.scope
        if self.traceback_of:
            words += f", kept by the traceback of `{self.traceback_of}`"
        return f"the autograd graph of {words}" if self.in_graph else words


def render(step: Step | None, name_of_parameter: Callable[[int], str | None]) -> Place:
    """The location at the end of a path."""
    chain = []
    while step is not None:
        chain.append(step)
        step = step[0]
    name, relation, scope, line, traceback_of, in_graph = "", "unreached", "", "", "", False
    for _, kind, label, _ in reversed(chain):
        if kind == GLOBAL:
            relation, (scope, name) = "global", label
        elif kind == LOCAL:
            relation, (name, scope, file, number) = "local", label
            line = f"{file}:{number}"
        elif kind == CLOSURE:
            relation, (name, scope) = "closure", label
            line = traceback_of = ""
        elif kind == CACHE:
            relation, name, scope = "cache", "", label
            line = traceback_of = ""
        elif kind == UNREACHED:
            relation, name, scope = "unreached", "", label
        elif kind == TRACEBACK:
            traceback_of = name
        elif kind == GRAPH:
            in_graph = True
        elif not in_graph:
            name += _suffix(kind, label, name_of_parameter)
    name, scope, traceback_of = _shown(name), _shown(scope), _shown(traceback_of)
    return Place(name, relation, scope, line, in_graph, traceback_of)


def container(step: Step | None) -> Step | None:
    """The path to the outermost collection that may be the one that grows; None when the path
    ``step`` has no such collection."""
    elements = []
    while step is not None:
        if step[1] in _GROWING:
            elements.append(step)
        step = step[0]
    if not elements:
        return None
    longest = max(size for _, _, _, size in elements)
    for parent, kind, label, size in reversed(elements):
        if size < 2 <= longest:
            # A collection that grows has got elements before.
            continue
        is_record = (
            kind == KEY
            and size <= _MOST_FIELDS
            and label[:1] == "'"
            and longest > size * _LONGER_THAN_FIELDS
        )
        if not is_record and size * _MUCH_LONGER >= longest:
            way: Step | None = parent
            return way
    return None


def root(step: Step) -> Step:
    """The first step of a path: the variable, or the unreached object, where it begins."""
    while step[0] is not None:
        step = step[0]
    return step


def in_graph(step: Step | None) -> bool:
    """Whether the path goes through an autograd graph."""
    while step is not None:
        if step[1] == GRAPH:
            return True
        step = step[0]
    return False


def depth(step: Step | None) -> int:
    """The number of steps of a path."""
    count = 0
    while step is not None:
        count += 1
        step = step[0]
    return count


def key_label(key: object) -> str:
    """What may be shown of a key: names, also dotted ones, and small integers. Other keys may be
    data of the program, so only their type is shown."""
    if type(key) is int:
        return str(key) if abs(key) < _LARGEST_INDEX else "int"
    if type(key) is str:
        parts = key.split(".")
        is_name = all(part.isidentifier() or part.isdigit() for part in parts)
        if len(key) <= _LONGEST_KEY and is_name:
            return f"'{key}'"
    return type(key).__name__


def attribute(name: object) -> str:
    """The name of a variable or an attribute as a path shows it."""
    is_name = type(name) is str and name.isidentifier() and len(name) <= 100
    return str(name) if is_name else "..."


def file_label(file: str) -> str:
    """A file as a path shows it: its name without folders."""
    return os.path.basename(file) or file


def _suffix(kind: int, label: Any, name_of_parameter: Callable[[int], str | None]) -> str:
    if kind in (INDEX, FIXED):
        return f"[{label}]"
    if kind == KEY:
        is_shown = label[:1] == "'" or label.lstrip("-").isdigit()
        return f"[{label}]" if is_shown else "[...]"
    if kind == ELEMENT:
        return "[...]"
    if kind == ATTRIBUTE:
        return f".{label}"
    if kind == CHILD:
        return f"[{label}]" if label.isdigit() else f".{label}"
    if kind == STATE:
        parameter, key = label
        return f".state[{name_of_parameter(parameter) or '...'}].{key}"
    if kind == GRADIENT:
        return ".grad"
    return ""


@lru_cache(1024)
def _shown(text: str) -> str:
    # Even a name may contain a secret, but no secret is as short as _LONGEST_HARMLESS
    # characters.
    return _core.sendable_text(text) if len(text) > _LONGEST_HARMLESS else text
