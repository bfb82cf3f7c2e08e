"""Fixtures that several tests share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import waiting
from parity import reference

FAKE_TORCH = Path(__file__).parent / "fake_torch"


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A stand-in for PyTorch with counters that the test sets in ``torch.STATE``."""
    names = [name for name in sys.modules if name.split(".")[0] == "torch"]
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(FAKE_TORCH))
    import torch

    import stormlog._oom_hooks as hooks

    monkeypatch.setattr(hooks, "_observes_torch", False)
    yield torch
    for name in ("torch", "torch.cuda", "torch.nn", "torch.optim"):
        sys.modules.pop(name, None)


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Wait until a condition holds."""
    return waiting.wait_until


@pytest.fixture(scope="session")
def reference_python() -> str:
    """The interpreter that has the reference."""
    try:
        return reference.interpreter()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"the reference cannot be installed here: {error}")
