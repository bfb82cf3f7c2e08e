"""`import stormlog` is cheap and imports no framework."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import pytest
import stormlog

FRAMEWORKS = ("torch", "tensorflow", "jax", "numpy", "pandas", "scipy", "psutil")
LIMIT_SECONDS = 0.030
RUNS = 20


def seconds(code: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begin


def test_import_time() -> None:
    # Pairs, so that a busy moment of the machine touches both sides.
    extra = [seconds("import stormlog") - seconds("pass") for _ in range(RUNS)]
    assert statistics.median(extra) < LIMIT_SECONDS


@pytest.mark.parametrize("module", ["stormlog", "stormlog.telemetry", "stormlog.issues"])
def test_no_framework_is_imported(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not set(FRAMEWORKS) & set(done.stdout.split())


def test_every_exported_name_exists() -> None:
    for name in stormlog.__all__:
        assert getattr(stormlog, name) is not None
        assert name in dir(stormlog)
    assert stormlog.__version__
    with pytest.raises(AttributeError):
        stormlog.nothing  # type: ignore[attr-defined]
