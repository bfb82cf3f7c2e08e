"""Finds the library and the line that requested each allocation of the CUDA driver.

``stormlog run --driver-allocations`` switches this attribution on. CUPTI, NVIDIA's profiling
interface, calls the Rust core on the thread that allocates. A Python thread of this module looks up
which line of the program that thread is executing. CUPTI accepts one subscriber only, so the
subscription of Stormlog ends before a profiler of the program starts.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from . import _core
from ._holders import roots
from ._signals import left_to_the_program

# Set by ``stormlog run --driver-allocations``.
VARIABLE = "STORMLOG_RUN_DRIVER_ALLOCATIONS"
# How long one call waits for the Rust core to ask for a line.
_PATIENCE_S = 1.0
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH")
# Every profiler of PyTorch starts through one of these functions.
_STARTS = ("_prepare_profiler", "_enable_profiler")

# Why the attribution could not start; None if it started or was not requested.
_failure: str | None = None


def is_wanted() -> bool:
    """Whether the user asked for the attribution."""
    return os.environ.get(VARIABLE) == "1"


def state() -> dict[str, Any]:
    """A dictionary with two keys. ``state`` is ``on`` while the driver's allocations are
    attributed, otherwise ``off``, ``ended`` or ``unavailable``. ``reason`` is the reason why they
    are not attributed, or no longer."""
    name, reason = _core.driver_state()
    if name == "off" and _failure is not None:
        name, reason = "unavailable", _failure
    return {"state": name, "reason": reason}


def start() -> str | None:
    """Start the attribution. Returns None, or the reason why it cannot start. Called after CUDA has
    started and before a context exists."""
    global _failure
    _failure = _core.driver_start([str(path) for path in _libraries()])
    if _failure is None:
        _give_way()
        thread = threading.Thread(target=_answer, name="stormlog-driver", daemon=True)
        with left_to_the_program():
            thread.start()
    return _failure


def _libraries() -> list[Path]:
    """The installed files of the CUPTI library, for a process in which PyTorch has not loaded
    CUPTI."""
    found: list[Path] = []
    for entry in sys.path:
        packages = Path(entry, "nvidia")
        if packages.is_dir():
            found += packages.glob("cuda_cupti/lib/libcupti.so.*")
            found += packages.glob("cu*/lib/libcupti.so.*")
    toolkits = [os.environ[name] for name in _TOOLKITS if os.environ.get(name)]
    for toolkit in [*toolkits, "/usr/local/cuda"]:
        found += Path(toolkit, "extras", "CUPTI", "lib64").glob("libcupti.so.*")
        found += Path(toolkit, "lib64").glob("libcupti.so.*")
    return [path for path in found if path.is_file()]


def _give_way() -> None:
    """End our subscription to CUPTI when the program starts a profiler."""

    def stop() -> None:
        _core.driver_stop("the program started a profiler, which needs CUPTI")

    for name in ("torch.autograd.profiler", "torch._C._autograd"):
        module: Any = sys.modules.get(name)
        for function in _STARTS:
            original = getattr(module, function, None)
            if original is not None:
                setattr(module, function, _core.Around(original, before=stop))


def _answer() -> None:
    while _core.driver_state()[0] == "on":
        question = _core.driver_question(_PATIENCE_S)
        if question is not None:
            _core.driver_answer(question, _site(question[1]))


def _site(thread: int) -> tuple[str, int, str] | None:
    """The innermost line of the user's code that a thread is executing: file, line and function.
    None when it executes no code of the user."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        code = frame.f_code
        if roots.is_users(code.co_filename):
            return code.co_filename, frame.f_lineno or 0, code.co_name
        frame = frame.f_back
    return None
