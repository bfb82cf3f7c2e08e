"""Fixtures that several tests share."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import waiting
from parity import reference

FAKE_TORCH = Path(__file__).parent / "fake_torch"

# A background job starts with these signals ignored, and programs that tests start would inherit
# that. A handler is not inherited: with it, programs start with the default, as in a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _name in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_name, lambda *_: None)


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
    for name in ("torch", "torch.cuda", "torch.nn", "torch.optim", "torch.optim.optimizer"):
        sys.modules.pop(name, None)


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Wait until a condition holds."""
    return waiting.wait_until


@pytest.fixture(scope="session")
def reference_python() -> str:
    """The interpreter that has stormlog 0.3.9."""
    try:
        return reference.interpreter()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"stormlog 0.3.9 cannot be installed here: {error}")


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keeps W&B and MLflow off the network and in a folder of the test."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_DIR": str(home),
        "WANDB_CACHE_DIR": str(home / "cache"),
        "WANDB_DATA_DIR": str(home / "data"),
        "WANDB_CONFIG_DIR": str(home / "config"),
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "MLFLOW_TRACKING_URI": str(home / "mlruns"),
    }.items():
        monkeypatch.setenv(name, value)
    yield home


@pytest.fixture
def wandb(at_home: Path) -> Iterator[Any]:
    library = pytest.importorskip("wandb")
    yield library
    # W&B reads its environment once, so the next test needs a fresh start.
    library.teardown()


@pytest.fixture
def mlflow(at_home: Path) -> Any:
    return pytest.importorskip("mlflow")
