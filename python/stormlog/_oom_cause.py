"""Finds why memory ran out: the line of the user's code, the operation that failed, and what held
the memory at that moment.

For a failed allocation of PyTorch, the inspection runs on the allocating thread before the
exception is raised, when the activations are still in memory. For other errors, it reads the
traceback of the exception. An inspection takes at most two seconds, allocates no device memory,
keeps no frame and no tensor alive, and raises no error.
"""

from __future__ import annotations

import ast
import linecache
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple

from . import _core, _holders, _keeping_lines
from ._adding_lines import Reading
from ._holders import roots
from ._holders.walk import Stop
from ._torch import loaded_torch

# The search gets less than the two seconds of an inspection: it checks the time only now and then.
_SEARCH_S = 1.5
# A program that tries again with a smaller batch runs out of memory many times. From the fourth
# time within a minute on, only the line and the operation are named, and no holders are searched
# for.
_MOST_SEARCHES, _WITHIN_S = 3, 60.0
# The code of the program is read for the largest holders, so many and for so long.
_MOST_READ, _READ_S = 3, 0.3
_MOST_HOLDERS = 12
# The most calls of the user's code: of more calls, as in a recursion, the innermost and the outermost
# ones are listed.
_INNERMOST, _OUTERMOST = 16, 8
_LONGEST_SOURCE = 160
_LONGEST_OPERATION = 80
# PyTorch's allocator rounds the size of each allocation up to a multiple of this.
_BLOCK_BYTES = 512
# The search ends when it has found holders for this share of the allocated bytes.
_ENOUGH = 0.995
# The function of PyTorch in which a thread waits for the backward pass, which runs on other
# threads.
_BACKWARD = "_engine_run_backward"
# Packages whose own functions do not name the operation: all their functions between the user's
# call and the error are generic ones, which run any operation.
_DISPATCHERS = ("jax", "jaxlib")

_searches: deque[float] = deque(maxlen=_MOST_SEARCHES)
_lock = threading.Lock()


def of_allocation(device: str) -> dict[str, Any]:
    """The cause of a failed allocation on a device (such as "cuda:0"). Must be called on the
    allocating thread."""
    calls = _calls_of_thread()
    return _cause(calls, lambda: _held_on_device(device, None, calls))


def of_exception(error: BaseException, device: str | None = None) -> dict[str, Any]:
    """The cause of an out-of-memory error of a device (such as "cuda:0" or "jax:0"); without
    ``device``, of host memory. Called on the thread that raised the error, or when the error ends
    the process."""
    trace = error.__traceback__
    calls = _calls_of_exception(trace)
    if device is None:
        return _cause(calls, lambda: _held_on_host(trace, calls))
    return _cause(calls, lambda: _held_on_device(device, trace, calls))


def _cause(calls: list[_Call], search: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The place of the error, and what ``search`` finds about the memory."""
    cause = _place(calls)
    try:
        if _may_search():
            cause.update(search())
        else:
            cause["cut_short"] = "the program has run out of memory several times"
    except Exception as failure:
        cause["cut_short"] = f"the search failed: {type(failure).__name__}"
    return cause


class _Call(NamedTuple):
    """A call of a function: its code, and the line and the instruction (byte offset) that it
    executed last."""

    code: CodeType
    line: int
    instruction: int

    @property
    def file(self) -> str:
        return self.code.co_filename

    @property
    def name(self) -> str:
        """The name of the function, with that of its class (the latter since Python 3.11)."""
        name: str = getattr(self.code, "co_qualname", self.code.co_name)
        return name.rpartition("<locals>.")[2]


def _calls_of_thread() -> list[_Call]:
    """The calls of this thread, the innermost first."""
    return _with_backward(_calls(sys._getframe()))


def _calls_of_exception(trace: TracebackType | None) -> list[_Call]:
    """The calls that led to an exception, the innermost first: those that it has left, then those
    that are still active. An exception that was just raised has left only the call that raised
    it."""
    left: list[_Call] = []
    outer = None if trace is None else trace.tb_frame.f_back
    while trace is not None:
        code = trace.tb_frame.f_code
        if not roots.is_own(code.co_filename):
            left.append(_Call(code, trace.tb_lineno or 0, trace.tb_lasti))
        trace = trace.tb_next
    left.reverse()
    return _with_backward(left + _calls(outer))


def _with_backward(calls: list[_Call]) -> list[_Call]:
    """The given calls of this thread, completed if it runs a backward pass. A backward pass runs on
    threads of its own. The calls of such a thread are followed by the calls of the thread that
    waits for the backward pass."""
    if any(roots.is_users(call.file) for call in calls) and not _is_backward(calls):
        return calls
    own = threading.get_ident()
    for thread, frame in sys._current_frames().items():
        if thread != own:
            others = _calls(frame)
            if _is_backward(others):
                return calls + others
    return calls


def _is_backward(calls: list[_Call]) -> bool:
    return any(call.code.co_name == _BACKWARD for call in calls)


def _calls(frame: FrameType | None) -> list[_Call]:
    calls = []
    while frame is not None:
        if not roots.is_own(frame.f_code.co_filename):
            calls.append(_Call(frame.f_code, frame.f_lineno or 0, frame.f_lasti))
        frame = frame.f_back
    return calls


def _place(calls: list[_Call]) -> dict[str, Any]:
    """The line of the user's code, the calls that led there, and the operation that failed."""
    users = [call for call in calls if roots.is_users(call.file)]
    shown = users or calls[:_INNERMOST]
    if len(shown) > _INNERMOST + _OUTERMOST:
        shown = shown[:_INNERMOST] + shown[-_OUTERMOST:]
    return {
        "site": _site(shown[0]) if shown else None,
        "call_path": [_site(call) for call in shown[1:]],
        "operation": _operation(calls, users),
    }


def _operation(calls: list[_Call], users: list[_Call]) -> str | None:
    """The name of the operation that requested the memory; ``backward`` for a backward pass.

    It is the innermost function, if that belongs to a library. If the user's line called compiled
    code or JAX, it is the function that this line called. None when the operation is unknown.
    """
    if _is_backward(calls):
        return "backward"
    if not users:
        return None
    if calls[0] is users[0] or _dispatches(calls[0].file):
        try:
            return _called(users[0])
        except Exception:
            # The source has changed, or positions are not known.
            return None
    return calls[0].name


def _dispatches(file: str) -> bool:
    return any(roots.is_part_of(file, name) for name in _DISPATCHERS)


def _called(call: _Call) -> str | None:
    """The source text of what is called at the instruction of a call, such as ``torch.cat``; None
    before Python 3.11."""
    if not hasattr(call.code, "co_positions"):
        return None
    position = next(islice(call.code.co_positions(), call.instruction // 2, None))
    first, last, begin, end = position
    if first is None or last is None or begin is None or end is None:
        return None
    lines = [linecache.getline(call.file, number).encode() for number in range(first, last + 1)]
    # The end is cut off first, because the first and the last line may be the same.
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    expression = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    called = expression.func if isinstance(expression, ast.Call) else expression
    text = ast.unparse(called)[:_LONGEST_OPERATION]
    return _core.sendable_text(text) if text else None


def _site(call: _Call) -> dict[str, Any]:
    try:
        source = linecache.getline(call.file, call.line).strip()[:_LONGEST_SOURCE]
    except Exception:
        source = ""
    return {
        "file": call.file,
        "line": call.line,
        "function": call.code.co_name,
        "source": _core.sendable_text(source) if source else None,
    }


def _may_search() -> bool:
    now = time.monotonic()
    with _lock:
        if len(_searches) == _MOST_SEARCHES and now - _searches[0] < _WITHIN_S:
            return False
        _searches.append(now)
        return True


def _held_on_device(device: str, trace: TracebackType | None, calls: list[_Call]) -> dict[str, Any]:
    allocated = _allocated_bytes(device)

    def enough(storages: Iterable[Any]) -> bool:
        named = sum(_block(one.bytes) for one in storages if one.device == device)
        return allocated is not None and named >= _ENOUGH * allocated

    survey = _holders.survey(
        time.monotonic() + _SEARCH_S, sweep=True, enough=enough, traceback=trace
    )
    held = [
        one._replace(bytes=_block(one.bytes)) for one in survey.storages if one.device == device
    ]
    categories = dict.fromkeys(_holders.CATEGORIES, 0)
    for one in held:
        categories[one.category] += one.bytes
    named = sum(categories.values()) - categories["unnamed"]
    if allocated is not None:
        categories["unnamed"] = max(allocated - named, 0)
    groups = _holders.group(one for one in held if one.category != "unnamed")
    groups = groups[:_MOST_HOLDERS]
    kept = _kept([_members(held, one) for one in groups], calls)
    return {
        "allocated_bytes": allocated,
        "named_bytes": named,
        "categories": {name: size for name, size in categories.items() if size},
        "holders": [
            {
                "holder": one.phrase,
                "category": one.category,
                "bytes": one.bytes,
                "storages": one.storages,
                "largest": _largest(held, one),
                **about,
            }
            for one, about in zip(groups, kept, strict=True)
        ],
        "cut_short": survey.cut_short,
        "seconds": round(survey.seconds, 3),
    }


def _kept(groups: list[list[_holders.Holder]], calls: list[_Call]) -> list[dict[str, Any]]:
    """What is known about the collections of the largest holders, and the lines that make their
    memory stay, with the keys of a record."""
    deadline = time.monotonic() + _READ_S

    def rest() -> None:
        if time.monotonic() > deadline:
            raise Stop

    # An exception has left some of these calls, so no thread refers to their code any more.
    reading = Reading(rest, (call.code for call in calls))
    found: list[dict[str, Any]] = []
    for own in groups[:_MOST_READ]:
        found.append(_keeping_lines.facts(own[0]))
        if not _is_of_forward(own[0], calls):
            # Where the code cannot be read, or not in time, the lines stay unknown.
            with suppress(Exception):
                kept = _keeping_lines.keeping(own, (), reading, only_carried=True)
                found[-1].update({} if kept is None else kept.record())
    return found + [{}] * (len(groups) - len(found))


def _is_of_forward(holder: _holders.Holder, calls: list[_Call]) -> bool:
    """Whether the holder is a local variable of a forward pass that is not over. The graph of such
    a variable is what the step needs, and is dropped with it."""
    place = holder.container or holder.place
    if place is None or place.relation != "local" or "." in place.name:
        return False
    names = [call.code.co_name for call in calls]
    if place.scope not in names:
        return False
    return "forward" in names[names.index(place.scope) :]


def _largest(held: list[_holders.Holder], group: _holders.Group) -> str | None:
    """The path to the largest storage of a group of holders."""
    largest = max(_members(held, group), key=lambda one: one.bytes, default=None)
    return None if largest is None or largest.place is None else str(largest.place)


def _members(held: list[_holders.Holder], group: _holders.Group) -> list[_holders.Holder]:
    own = [one for one in held if (one.container or one.place) == group.place]
    return [one for one in own if one.category == group.category]


def _held_on_host(trace: TracebackType | None, calls: list[_Call]) -> dict[str, Any]:
    survey = _holders.survey(
        time.monotonic() + _SEARCH_S, counts_host=True, libraries=False, traceback=trace
    )
    sizes = _core.process_sizes()
    found: dict[str, tuple[_holders.Place, int, int, _holders.Holder]] = {}
    for one in survey.containers:
        holder = _holders.Holder(0, one.bytes, "cpu", "host", one.place, one.place, one)
        found[str(one.place)] = (one.place, one.bytes, one.length, holder)
    for storage in survey.storages:
        if storage.device == "cpu" and storage.container is None and storage.place is not None:
            found[str(storage.place)] = (storage.place, storage.bytes, 1, storage)
    outermost = [entry for entry in found.values() if not _is_inside(entry[0], found)]
    outermost = sorted((entry for entry in outermost if entry[1] > 0), key=lambda entry: -entry[1])
    kept = _kept([[entry[3]] for entry in outermost[:_MOST_HOLDERS]], calls)
    return {
        "allocated_bytes": None if sizes is None else sizes[0],
        "named_bytes": sum(size for _, size, _, _ in outermost),
        "categories": {},
        "holders": [
            {
                "holder": place.phrase,
                "category": "host",
                "bytes": size,
                "storages": length,
                **about,
            }
            for (place, size, length, _), about in zip(outermost, kept, strict=False)
        ],
        "cut_short": survey.cut_short,
        "seconds": round(survey.seconds, 3),
    }


def _is_inside(place: _holders.Place, found: dict[str, Any]) -> bool:
    """Whether the place is an element or attribute of another place that ``found`` contains."""
    name = place.name
    for end in range(len(name) - 1, 0, -1):
        if name[end] in "[." and str(place._replace(name=name[:end])) in found:
            return True
    return False


def _block(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


def _allocated_bytes(device: str) -> int | None:
    framework, _, index = device.partition(":")
    torch: Any = loaded_torch()
    jax: Any = sys.modules.get("jax")
    try:
        if framework == "jax":
            return int(jax.devices()[int(index)].memory_stats()["bytes_in_use"])
        return int(torch._C._cuda_memoryStats(int(index))["allocated_bytes"]["all"]["current"])
    except Exception:
        return None
