"""`import stormlog` is cheap and imports no framework."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

import pytest

import stormlog

FRAMEWORKS = ("torch", "tensorflow", "jax", "numpy", "pandas", "scipy", "psutil")
# About a millisecond; names are loaded when they are first used.
MOST_MODULES = 12


def test_importing_loads_next_to_nothing() -> None:
    code = "import sys; before = {*sys.modules}; import stormlog; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = done.stdout.split()
    assert "stormlog" in loaded and "stormlog._core" not in loaded
    assert len(loaded) <= MOST_MODULES, loaded


def cpu_seconds(code: str) -> float:
    """The CPU time of an interpreter, which other work on the machine hardly changes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_importing_takes_less_than_thirty_milliseconds() -> None:
    pairs = [(cpu_seconds("pass"), cpu_seconds("import stormlog")) for _ in range(20)]
    alone, importing = (statistics.median(times) for times in zip(*pairs))
    assert importing - alone < 0.030


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
