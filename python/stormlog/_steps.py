"""Reports the ends of training steps, where a loop without a leak always has the same level of
memory.

PyTorch calls a hook after every optimizer step, whatever library the loop uses. Loops without an
optimizer call ``stormlog.step()``.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from . import _core

_hooks: list[_core.StepHook] = []
# Stands for the steps that the program marks itself; they are separate from those of optimizers.
_OWN_STEPS = object()


class StepRegistration:
    """A hook that PyTorch calls until it is removed."""

    def __init__(self, hook: _core.StepHook) -> None:
        self._hook = hook
        self._handle: Any = None
        _hooks.append(hook)
        # PyTorch's package deletes the name of this module after importing it.
        module = sys.modules.get("torch.optim.optimizer")
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is not None:
            with suppress(Exception):
                self._handle = register(hook)

    def remove(self) -> None:
        """Remove the hook."""
        if self._hook in _hooks:
            _hooks.remove(self._hook)
        if self._handle is not None:
            with suppress(Exception):
                self._handle.remove()


def step() -> None:
    """Mark the end of a step of a loop that has no PyTorch optimizer.

    Costs less than a microsecond when nothing is recorded.
    """
    for hook in _hooks:
        hook(_OWN_STEPS)
