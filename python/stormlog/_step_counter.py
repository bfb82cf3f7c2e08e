"""Counts the training steps of a process for ``stormlog run``, also where no device is recorded.

The optimizer calls ``count`` at the end of each step, which adds one to a number. A thread of the
recorder writes the number to the inbox of the run, so that a slow disk never delays a step.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import _steps


class StepCounter:
    """The number of steps of this process, in the file ``steps-PID`` of the inbox."""

    def __init__(self, inbox: Path) -> None:
        self._path = inbox / f"steps-{os.getpid()}"
        self._descriptor: int | None = None
        self._registration: _steps.StepRegistration | None = None
        self._has_torch = False
        self._steps = self._written = 0

    def look(self) -> None:
        """Begin to count, again when the optimizers of PyTorch have been loaded, and write the
        number if it has changed."""
        has_torch = _has_hooks()
        if self._registration is None or has_torch > self._has_torch:
            if self._registration is not None:
                self._registration.remove()
            self._registration = _steps.StepRegistration(self.count)
            self._has_torch = has_torch
        if self._steps != self._written:
            with suppress(OSError):
                self._write(self._steps)

    def count(self, *_: Any) -> None:
        """Count a step."""
        self._steps += 1

    def _write(self, steps: int) -> None:
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o600)
        os.pwrite(self._descriptor, b"%d\n" % steps, 0)
        self._written = steps

    def forget(self) -> None:
        """Stop counting, in a child that was forked and counts its own steps."""
        if self._registration is not None:
            self._registration.remove()
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)


def _has_hooks() -> bool:
    """Whether the module of PyTorch's optimizers has been imported completely."""
    module = sys.modules.get("torch.optim.optimizer")
    return hasattr(module, "register_optimizer_step_post_hook")
