"""Notices when PyTorch starts CUDA in this process, before it creates a context on any device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from . import _core

# PyTorch imports this module after ``torch._C`` is loaded and before it uses CUDA.
_MODULE = "torch.cuda"


class _OnImport:
    """An import finder that prepares the notification when the program imports ``torch.cuda``. It
    finds no module. It stays in ``sys.meta_path``, because a finder that removes itself during an
    import makes the import skip the next finder."""

    def __init__(self, before: Callable[[], None], then: Callable[[], None]) -> None:
        self._before, self._then = before, then
        self._is_waiting = True

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if self._is_waiting and name == _MODULE:
            self._is_waiting = False
            # An error here must not reach the program.
            with suppress(Exception):
                _wrap(self._before, self._then)


def notify(before: Callable[[], None], then: Callable[[], None]) -> None:
    """Call ``before`` and ``then`` on the thread that starts CUDA, before and after the start."""
    if _MODULE in sys.modules:
        _wrap(before, then)
    else:
        sys.meta_path.insert(0, _OnImport(before, then))


def _wrap(before: Callable[[], None], then: Callable[[], None]) -> None:
    functions: Any = sys.modules.get("torch._C")
    original = getattr(functions, "_cuda_init", None)
    # After a fork, the wrapper that the parent installed may still be there.
    if original is None or isinstance(original, _core.Around):
        return

    def started() -> None:
        functions._cuda_init = original
        then()

    functions._cuda_init = _core.Around(original, before=before, after=started)
