"""Records the history of PyTorch's CUDA allocator in a program that
``stormlog diagnose --native-history`` runs.

The history is switched on when PyTorch starts CUDA, before the first tensor exists. It is written
when the program ends. In a program without CUDA nothing is recorded, and CUDA is not started.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import _cuda_history
from ._signals import left_to_the_program
from ._torch import loaded_torch, require_torch
from .cuda_native_debug import capture_cuda_snapshot_artifacts

# How often to look whether PyTorch is loaded. The time from its import to the first tensor is much
# longer than this.
_LOOK_FOR_TORCH_S = 0.02


def begin(folder: Path, entries: int, used_device: Callable[[], int | None]) -> None:
    """Record the history, at most ``entries`` entries, and write its files to ``folder`` when the
    program ends. ``used_device`` returns the index of the device to describe in these files."""
    _History(folder, entries, used_device).begin()


class _History:
    def __init__(self, folder: Path, entries: int, used_device: Callable[[], int | None]) -> None:
        self._folder, self._entries, self._used_device = folder, entries, used_device
        self._pid = os.getpid()
        self._is_on = False

    def begin(self) -> None:
        atexit.register(self._leave_files)
        thread = threading.Thread(target=self._wait_for_torch, name="stormlog-history", daemon=True)
        with left_to_the_program():
            thread.start()

    def _wait_for_torch(self) -> None:
        pause = threading.Event()
        while not pause.wait(_LOOK_FOR_TORCH_S):
            torch: Any = loaded_torch()
            call = getattr(getattr(torch, "cuda", None), "_lazy_call", None)
            if call is None:
                continue
            try:
                # PyTorch calls `_switch_on` when it starts CUDA, or at once if CUDA is running.
                call(self._switch_on)
            except Exception:
                # The module is still being imported.
                continue
            return

    def _switch_on(self) -> None:
        # This runs on a thread of the program, which no error here may reach.
        try:
            if os.getpid() == self._pid:
                _cuda_history.switch_on(self._entries)
                self._is_on = True
        except Exception as error:
            _warn(f"cannot record the allocator's history: {error}")

    def _leave_files(self) -> None:
        if not self._is_on or os.getpid() != self._pid:
            return
        try:
            capture_cuda_snapshot_artifacts(
                self._folder,
                device=self._used_device(),
                # The program may have switched the history off.
                history_recorded=_cuda_history.is_on(require_torch()),
                skip_gc=True,
            )
        except Exception as error:
            _warn(f"cannot write the allocator's history: {error}")


def _warn(words: str) -> None:
    # Writing may fail, because the program may have closed the stream. The error must not reach
    # PyTorch, which gives up CUDA when a call during the start of CUDA fails.
    with suppress(Exception):
        sys.stderr.write(f"stormlog: {words}\n")
