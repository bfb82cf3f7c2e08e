"""Records phases of training without changes to the user's code. A phase begins and ends with the
call of a method of Hugging Face's Trainer, Lightning or Accelerate that trains, evaluates, predicts
or saves a checkpoint.

Each of these methods is wrapped once, after the program has imported its class. An error of the
recorder at the beginning or the end of a phase does not reach the program.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from . import _core

# Begins the phase of a name, and returns the function that ends it.
Enter = Callable[[str], Callable[[], None]]

# Each entry is module, class, method, phase.
_METHODS = (
    ("transformers.trainer", "Trainer", "train", "train"),
    ("transformers.trainer", "Trainer", "evaluate", "eval"),
    ("transformers.trainer", "Trainer", "predict", "predict"),
    ("transformers.trainer", "Trainer", "_save_checkpoint", "checkpoint"),
    ("lightning.pytorch.loops.fit_loop", "_FitLoop", "run", "train"),
    ("lightning.pytorch.loops.evaluation_loop", "_EvaluationLoop", "run", "eval"),
    ("lightning.pytorch.loops.prediction_loop", "_PredictionLoop", "run", "predict"),
    ("lightning.pytorch.trainer.trainer", "Trainer", "save_checkpoint", "checkpoint"),
    ("pytorch_lightning.loops.fit_loop", "_FitLoop", "run", "train"),
    ("pytorch_lightning.loops.evaluation_loop", "_EvaluationLoop", "run", "eval"),
    ("pytorch_lightning.loops.prediction_loop", "_PredictionLoop", "run", "predict"),
    ("pytorch_lightning.trainer.trainer", "Trainer", "save_checkpoint", "checkpoint"),
    ("accelerate.accelerator", "Accelerator", "save_state", "checkpoint"),
)
_wrapped: set[tuple[str, str, str]] = set()


def follow(enter: Enter) -> None:
    """Wrap the methods of classes that the program has imported since the last call."""
    for module, owner, method, phase in _METHODS:
        key = (module, owner, method)
        if key in _wrapped:
            continue
        found: Any = getattr(sys.modules.get(module), owner, None)
        function = getattr(found, "__dict__", {}).get(method)
        if callable(function):
            _wrapped.add(key)
            wrapper = _core.InPhase(function, phase, enter)
            setattr(found, method, functools.update_wrapper(wrapper, function))
