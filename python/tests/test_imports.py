"""`import stormlog` is cheap and imports no framework."""

from __future__ import annotations

import subprocess
import sys

import pytest
import stormlog

FRAMEWORKS = ("torch", "tensorflow", "jax", "numpy", "pandas", "scipy", "psutil")
# About a millisecond; names are loaded when they are first used.
MOST_MODULES = 12


def test_importing_loads_next_to_nothing() -> None:
    # Modules and not milliseconds are counted: how fast a machine is says nothing about us.
    code = "import sys; before = {*sys.modules}; import stormlog; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = done.stdout.split()
    assert "stormlog" in loaded and "stormlog._core" not in loaded
    assert len(loaded) <= MOST_MODULES, loaded


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
