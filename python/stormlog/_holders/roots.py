"""The roots of a search: everything that the user can name. The user's own modules come first."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType, ModuleType, TracebackType
from typing import Any

from .. import _core
from . import kinds

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FRAMEWORKS = ("torch", "jax", "jaxlib", "numpy", "tensorflow", "transformers", "lightning")
_STANDARD = tuple(
    os.path.abspath(path) + os.sep
    for name in ("stdlib", "platstdlib")
    if (path := sysconfig.get_paths().get(name))
)


def is_own(file: object) -> bool:
    """Whether a file belongs to the recorder."""
    return type(file) is str and file.startswith(_PACKAGE)


def is_users(file: object) -> bool:
    """Whether a file is the user's: not part of a package, the standard library or the recorder."""
    return type(file) is str and file != "" and _is_users(file)


@lru_cache(8192)
def _is_users(file: str) -> bool:
    if is_own(file) or _core.is_library_file(file):
        return False
    # The standard library of this interpreter may be in any directory.
    if file.startswith(_STANDARD):
        return False
    # A framework that was built from source is not among the packages.
    return not any(is_part_of(file, name) for name in _FRAMEWORKS)


def is_part_of(file: str, package: str) -> bool:
    """Whether a file belongs to the given package. False if the package is not loaded."""
    init = getattr(sys.modules.get(package), "__file__", None)
    return type(init) is str and file.startswith(os.path.dirname(init) + os.sep)


def modules() -> tuple[list[ModuleType], list[ModuleType]]:
    """Two lists of loaded modules: the user's modules, with ``__main__`` first, and the modules of
    libraries."""
    users: list[ModuleType] = []
    others: list[ModuleType] = []
    for name, module in list(sys.modules.items()):
        # Some programs put objects other than modules into `sys.modules`.
        if type(name) is not str or type(module) is not ModuleType:
            continue
        file = ModuleType.__getattribute__(module, "__dict__").get("__file__")
        if name == "__main__":
            users.insert(0, module)
        elif is_users(file):
            users.append(module)
        elif not is_own(file):
            others.append(module)
    return users, others


def variables(module: ModuleType) -> list[tuple[str, Any]]:
    """The global variables of a module, without those whose names begin with ``__``."""
    found = kinds.entries(ModuleType.__getattribute__(module, "__dict__"))
    return [(name, value) for name, value in found if type(name) is str and name[:2] != "__"]


def stacks() -> Iterator[list[FrameType]]:
    """The frames of every thread, outermost first, without the recorder's own.

    The caller must hold the frames only while it reads them, because a frame that is held keeps
    its variables alive even after its function has returned.
    """
    frames = sys._current_frames()
    for thread in list(frames):
        stack = []
        frame: FrameType | None = frames.pop(thread)
        while frame is not None:
            if not is_own(frame.f_code.co_filename):
                stack.append(frame)
            frame = frame.f_back
        stack.reverse()
        yield stack


def unwound(trace: TracebackType | None) -> list[FrameType]:
    """The frames that an exception has left, outermost first, without the recorder's own."""
    stack = []
    while trace is not None:
        if not is_own(trace.tb_frame.f_code.co_filename):
            stack.append(trace.tb_frame)
        trace = trace.tb_next
    return stack
