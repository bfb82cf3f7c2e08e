"""Why memory ran out: the line of the user's code, the operation that failed, and what held the
memory at that moment.

PyTorch's observer calls this on the allocating thread before the exception is raised, when the
activations are still there. Other errors are inspected by their tracebacks. An inspection takes at
most two seconds, allocates no device memory, keeps no frame and no tensor, and never raises.
"""

from __future__ import annotations

import linecache
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from types import CodeType, FrameType, TracebackType
from typing import Any

from . import _core, _holders
from ._holders import roots
from ._torch import loaded_torch

# The search gets less than the two seconds of an inspection: it checks the time only now and then.
_SEARCH_S = 1.5
# A program that tries again with a smaller batch runs out of memory many times; from the fourth
# time within a minute on only the line is named.
_MOST_SEARCHES, _WITHIN_S = 3, 60.0
_MOST_HOLDERS = 12
_MOST_CALLS = 16
_LONGEST_SOURCE = 160
# PyTorch's allocator gives out multiples of this.
_BLOCK_BYTES = 512
# The search ends when this share of the allocated bytes has names.
_ENOUGH = 0.995
# The function of PyTorch in which a thread waits for the backward pass, which runs on others.
_BACKWARD = "_engine_run_backward"

_searches: deque[float] = deque(maxlen=_MOST_SEARCHES)
_lock = threading.Lock()


def of_allocation(device: str) -> dict[str, Any]:
    """The cause of a failed allocation on a device ("cuda:0"), seen from the allocating thread."""
    cause = _place(_calls_of_thread())
    try:
        cause.update(_held_on_device(device, None))
    except Exception as error:
        cause["cut_short"] = f"the search failed: {type(error).__name__}"
    return cause


def of_exception(error: BaseException, device: str | None = None) -> dict[str, Any]:
    """The cause of an error that means that memory ran out: of a device ("cuda:0", "jax:0"), else
    of the host."""
    trace = error.__traceback__
    cause = _place(_calls_of_traceback(trace))
    try:
        held = _held_on_host(trace) if device is None else _held_on_device(device, trace)
        cause.update(held)
    except Exception as failure:
        cause["cut_short"] = f"the search failed: {type(failure).__name__}"
    return cause


def of_raised() -> dict[str, Any]:
    """The cause of an error of host memory that this thread has just raised."""
    cause = _place(_calls_of_thread())
    try:
        cause.update(_held_on_host(None))
    except Exception as failure:
        cause["cut_short"] = f"the search failed: {type(failure).__name__}"
    return cause


# One call: file, line, function, and its name with the class.
_Call = tuple[str, int, str, str]


def _call(code: CodeType, line: int | None) -> _Call:
    name = getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]
    return code.co_filename, line or 0, code.co_name, name


def _calls_of_thread() -> list[_Call]:
    """The calls of this thread, the innermost first. The backward pass runs on threads of its
    own, so the calls of the thread that waits for it follow."""
    calls = _calls(sys._getframe())
    if any(roots.is_users(call[0]) for call in calls) and not _is_backward(calls):
        return calls
    own = threading.get_ident()
    for thread, frame in sys._current_frames().items():
        if thread != own:
            others = _calls(frame)
            if _is_backward(others):
                return calls + others
    return calls


def _is_backward(calls: list[_Call]) -> bool:
    return any(call[2] == _BACKWARD for call in calls)


def _calls(frame: FrameType | None) -> list[_Call]:
    calls = []
    while frame is not None:
        if not roots.is_own(frame.f_code.co_filename):
            calls.append(_call(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return calls


def _calls_of_traceback(trace: TracebackType | None) -> list[_Call]:
    calls = []
    while trace is not None:
        if not roots.is_own(trace.tb_frame.f_code.co_filename):
            calls.append(_call(trace.tb_frame.f_code, trace.tb_lineno))
        trace = trace.tb_next
    calls.reverse()
    return calls


def _place(calls: list[_Call]) -> dict[str, Any]:
    """The line of the user's code, the calls that led there, and the operation that failed."""
    users = [call for call in calls if roots.is_users(call[0])]
    operation = None
    if _is_backward(calls):
        operation = "backward"
    elif calls and users and calls[0] is not users[0]:
        operation = calls[0][3]
    shown = users or calls
    return {
        "site": _site(shown[0]) if shown else None,
        "call_path": [_site(call) for call in shown[1:_MOST_CALLS]],
        "operation": operation,
    }


def _site(call: _Call) -> dict[str, Any]:
    file, line, function, _ = call
    try:
        source = linecache.getline(file, line).strip()[:_LONGEST_SOURCE]
    except Exception:
        source = ""
    return {
        "file": file,
        "line": line,
        "function": function,
        "source": _core.sendable_text(source) if source else None,
    }


def _may_search() -> bool:
    now = time.monotonic()
    with _lock:
        if len(_searches) == _MOST_SEARCHES and now - _searches[0] < _WITHIN_S:
            return False
        _searches.append(now)
        return True


def _held_on_device(device: str, trace: TracebackType | None) -> dict[str, Any]:
    allocated = _allocated_bytes(device)
    if not _may_search():
        return {"cut_short": "memory ran out again and again"}

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
            }
            for one in groups[:_MOST_HOLDERS]
        ],
        "cut_short": survey.cut_short,
        "seconds": round(survey.seconds, 3),
    }


def _largest(held: list[_holders.Holder], group: _holders.Group) -> str | None:
    """The path of the largest storage of a group."""
    own = [one for one in held if (one.container or one.place) == group.place]
    own = [one for one in own if one.category == group.category]
    largest = max(own, key=lambda one: one.bytes, default=None)
    return None if largest is None or largest.place is None else str(largest.place)


def _held_on_host(trace: TracebackType | None) -> dict[str, Any]:
    if not _may_search():
        return {"cut_short": "memory ran out again and again"}
    survey = _holders.survey(
        time.monotonic() + _SEARCH_S, counts_host=True, libraries=False, traceback=trace
    )
    sizes = _core.process_sizes()
    found: dict[str, tuple[_holders.Place, int, int]] = {}
    for one in survey.containers:
        found[str(one.place)] = (one.place, one.bytes, one.length)
    for storage in survey.storages:
        if storage.device == "cpu" and storage.container is None and storage.place is not None:
            found[str(storage.place)] = (storage.place, storage.bytes, 1)
    outermost = [entry for entry in found.values() if not _is_inside(entry[0], found)]
    outermost.sort(key=lambda entry: -entry[1])
    return {
        "allocated_bytes": None if sizes is None else sizes[0],
        "named_bytes": sum(size for _, size, _ in outermost),
        "categories": {},
        "holders": [
            {"holder": place.phrase, "category": "host", "bytes": size, "storages": length}
            for place, size, length in outermost[:_MOST_HOLDERS]
            if size > 0
        ],
        "cut_short": survey.cut_short,
        "seconds": round(survey.seconds, 3),
    }


def _is_inside(place: _holders.Place, found: dict[str, Any]) -> bool:
    """Whether something else that was found holds it."""
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
