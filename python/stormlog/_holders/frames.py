"""Reads local variables of frames without side effects.

Before Python 3.13, ``frame.f_locals`` copies the variables into a dictionary that the frame keeps,
so every object in it lives as long as the frame. Python 3.12 can read one variable at a time. In
older versions the copy is made, read and emptied immediately. ``locals()`` returns the same
dictionary to the program, so the variables of functions that may call ``locals()`` are not read.
Reading the variables directly from the memory of the frame is not safe: the interpreter may switch
to another thread at any time, and the memory of that thread's frames changes meanwhile. The methods
for Python 3.12 and older are checked once on a frame with known variables; if the check fails,
locals are not searched.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

Variables = list[tuple[str, Any]]

# The number of references to the dictionary when the program has none: from the frame, from our
# local variable, and from the call of ``sys.getrefcount``.
_REFERENCES = 3
# The names with which a function gets the dictionary of its own variables, or stores into it.
_GETTERS = frozenset({"locals", "vars", "eval", "exec", "f_locals"})
# CO_OPTIMIZED: the flag of code objects whose variables are not in a dictionary.
_OPTIMIZED = 0x1


def local_variables(frame: FrameType) -> Variables:
    """The variables of a function's frame that have a value; empty where they cannot be read.

    Also empty for the frame of a module or class body, whose variables are in a dictionary that
    other roots reach.
    """
    if _read is None or not frame.f_code.co_flags & _OPTIMIZED:
        return []
    try:
        return _read(frame)
    except Exception:
        return []


def _through_proxy(frame: FrameType) -> Variables:
    # Since Python 3.13 this is a view, which keeps nothing alive.
    return list(frame.f_locals.items())


def _through_api(frame: FrameType) -> Variables:
    found: Variables = []
    code = frame.f_code
    for name in _names(code):
        try:
            found.append((name, _get_var(frame, name)))
        except NameError:
            # Not assigned yet, or deleted.
            continue
    return found


def _through_copy(frame: FrameType) -> Variables:
    # While a frame is traced, the interpreter writes the copy back into the variables. If the
    # program has the dictionary, reading would add variables to it and keep their values alive.
    if frame.f_trace is not None or not _GETTERS.isdisjoint(frame.f_code.co_names):
        return []
    copy = frame.f_locals
    found = list(copy.items())
    # If the program called locals(), it may hold the copy too. Then the copy is not emptied.
    if sys.getrefcount(copy) <= _REFERENCES:
        copy.clear()
    return found


def _names(code: CodeType) -> list[str]:
    own = code.co_varnames
    cells = [name for name in code.co_cellvars if name not in own]
    return [*own, *cells, *code.co_freevars]


_Reader = Callable[[FrameType], Variables]


def _chosen() -> _Reader | None:
    global _get_var
    if sys.implementation.name != "cpython":
        return None
    if sys.version_info >= (3, 13):
        return _through_proxy
    if sys.version_info >= (3, 12):
        _get_var = ctypes.pythonapi.PyFrame_GetVar
        _get_var.argtypes = [ctypes.py_object, ctypes.py_object]
        _get_var.restype = ctypes.py_object
        reader: _Reader = _through_api
    else:
        reader = _through_copy
    try:
        return reader if _passes(reader) else None
    except Exception:
        return None


def _passes(reader: _Reader) -> bool:
    """Whether the reader finds all variables of a test frame, which has a variable of each kind."""
    free = object()

    def probe(argument: object, shared: object) -> bool:
        plain, cell = object(), object()
        deleted = object()
        del deleted

        def inner() -> object:
            return (cell, shared, free)

        found = reader(sys._getframe())
        want = {
            "argument": argument,
            "shared": shared,
            "plain": plain,
            "cell": cell,
            "free": free,
            "inner": inner,
        }
        names = [name for name, _ in found if name in want]
        is_right = all(want[name] is value for name, value in found if name in want)
        return is_right and sorted(names) == sorted(want) and "deleted" not in dict(found)

    return probe(object(), object())


_get_var: Any = None
_read = _chosen()
