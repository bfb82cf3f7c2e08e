"""Reports the end of each training step to the recorders. At these moments, a loop without a leak
always uses the same amount of memory.

PyTorch calls a hook after every step of an optimizer, whatever library the loop uses. Loops without
a PyTorch optimizer call ``stormlog.step()``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

# Called with the optimizer whose step has ended.
_Hook = Callable[[Any], object]
_hooks: list[_Hook] = []
# Takes the place of the optimizer in calls of a hook for steps that the program marks itself,
# because the steps of each optimizer are counted separately.
_OWN_STEPS = object()


class StepRegistration:
    """The registration of a recorder's step hook: until ``remove``, PyTorch and ``step`` call
    it."""

    def __init__(self, hook: _Hook) -> None:
        self._hook = hook
        self._handle: Any = None
        _hooks.append(hook)
        # The module is read from `sys.modules`, because `torch.optim` deletes its attribute
        # `optimizer` after importing the module.
        module = sys.modules.get("torch.optim.optimizer")
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is not None:
            with suppress(Exception):
                self._handle = register(hook)

    def remove(self) -> None:
        """Remove the hook, so that it is no longer called."""
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
