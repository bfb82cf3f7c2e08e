"""Errors of memory that a program catches, which Python shows from version 3.12 on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import FAKE_TORCH
from stormlog import _core, _memory_errors, _oom_hooks
from test_capture_commands import run
from test_run import host_events, of_type, record


def newer_python() -> str | None:
    """An interpreter that can show raised exceptions."""
    if sys.version_info >= (3, 12):
        return sys.executable
    versions = (Path.home() / ".pyenv" / "versions").glob("3.1[2-9].*/bin/python")
    for found in sorted(map(str, versions)):
        if subprocess.run([found, "-c", "import sys; sys.monitoring"]).returncode == 0:
            return found
    return None


PYTHON = newer_python()
pytestmark = pytest.mark.skipif(PYTHON is None, reason="needs Python 3.12")

CPU_ALLOCATOR = (
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 1125899906842624 bytes. Error code 12 (Cannot allocate memory)"
)
FAILURES = {
    "MemoryError": "bytearray(1 << 50)",
    "torch.DefaultCPUAllocator": f"fail(RuntimeError({CPU_ALLOCATOR!r}))",
}


def recorded(tmp_path: Path, end: str, failure: str) -> tuple[Any, Path, int]:
    """A program that fails in `load` and goes on with `end`, and the line of the failure."""
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(
        "import torch\n"
        "cache = [bytearray(1 << 20) for _ in range(48)]\n"
        "def fail(error):\n"
        "    raise error\n"
        "def load():\n"
        f"    return {failure}\n"
        "for _ in range(1000):\n"
        "    try:\n"
        "        int('x')\n"
        "    except ValueError:\n"
        "        pass\n"
        f"{end}\n"
        "print('went on')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH)}
    line = 4 if failure.startswith("fail(") else 6
    return record(out, PYTHON, script, env=environment), out, line


@pytest.mark.parametrize("reason", FAILURES)
def test_an_error_that_is_caught_is_recorded_with_its_line(tmp_path: Path, reason: str) -> None:
    end = "try:\n    load()\nexcept (MemoryError, RuntimeError):\n    pass"
    result, out, line = recorded(tmp_path, end, FAILURES[reason])
    assert (result.returncode, result.stdout) == (0, "went on\n"), result.stderr
    (error,) = of_type(host_events(out), "error")
    assert error.metadata["oom_reason"] == reason
    cause = error.metadata["oom"]["cause"]
    assert (cause["site"]["line"], cause["site"]["file"]) == (line, str(tmp_path / "train.py"))
    assert cause["call_path"][-1]["function"] == "<module>"
    assert any("cache" in one["holder"] for one in cause["holders"])
    shown = run("analyze", out)
    assert "went on" in shown.stdout, shown.stdout
    # It is worth knowing, and no problem of a program that ended well.
    assert "warning" not in shown.stdout and "critical" not in shown.stdout


def test_an_error_that_ends_the_program_is_recorded_once(tmp_path: Path) -> None:
    result, out, _ = recorded(tmp_path, "load()", FAILURES["MemoryError"])
    assert result.returncode == 1
    assert len(of_type(host_events(out), "error")) == 1
    assert "Traceback" in result.stderr


# As JAX fails: in a dispatcher, far below the function that the user called, raised again on its
# way up.
JAX = {
    "__init__.py": """
from jax._src.dispatch import apply

class JaxRuntimeError(RuntimeError):
    pass

def ones(shape):
    try:
        return apply(JaxRuntimeError, shape)
    except Exception as error:
        raise error
""",
    "_src/__init__.py": "",
    "_src/dispatch.py": """
def apply(kind, shape):
    return execute(kind, 4 * shape[0])

def execute(kind, size):
    raise kind(f"RESOURCE_EXHAUSTED: Out of memory allocating {size} bytes.")
""",
}


def test_an_error_of_jax_on_the_cpu_names_what_the_user_called(tmp_path: Path) -> None:
    for name, text in JAX.items():
        path = tmp_path / "libraries" / "jax" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    script, out = tmp_path / "train.py", tmp_path / "out"
    script.write_text(
        "import jax\n"
        "def load(size):\n"
        "    return [jax.ones((size,))]\n"
        "try:\n"
        "    load(1 << 46)\n"
        "except RuntimeError:\n"
        "    print('went on')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "libraries")}
    result = record(out, PYTHON, script, env=environment)
    assert (result.returncode, result.stdout) == (0, "went on\n"), result.stderr
    (error,) = of_type(host_events(out), "error")
    cause = error.metadata["oom"]["cause"]
    assert (cause["site"]["line"], cause["operation"]) == (3, "jax.ones")
    assert [call["line"] for call in cause["call_path"]] == [5]
    shown = " ".join(run("analyze", "-v", out).stdout.split())
    assert "went on at train.py:3 in load" in shown and "in jax.ones" in shown, shown
    assert "tried to allocate 256 TiB" in shown


def test_a_report_that_takes_long_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, reported = [100.0], []

    def report(error: BaseException) -> bool:
        clock[0] += 1.8
        reported.append(error)
        return True

    monkeypatch.setattr(_oom_hooks, "on_raised", report)
    monkeypatch.setattr(_memory_errors.time, "monotonic", lambda: clock[0])
    reports = _memory_errors._Reports(tmp_path)
    error = RuntimeError("RESOURCE_EXHAUSTED: out of memory")
    for _ in range(5):
        reports(error, True)
        clock[0] += 0.5
    assert reported == [error]
    another = RuntimeError("RESOURCE_EXHAUSTED: out of memory")
    reports(another, True)
    assert reported == [error, another]


def test_an_error_of_a_device_is_reported_once() -> None:
    class Tracker:
        def __init__(self, backend: str) -> None:
            self.backend = backend
            self.contexts: list[str] = []

        def handle_exception(self, error: BaseException, /, *, context: str) -> None:
            self.contexts.append(context)

        def _on_allocator_oom(self, device: int, requested: int, limit: int, free: int) -> None:
            raise AssertionError("this is no error of PyTorch's allocator")

        def _has_announced(self, error: BaseException, /) -> bool:
            return False

        def _is_on_current_device(self) -> bool:
            return True

    tracker, other = Tracker("jax"), Tracker("cuda")
    error = RuntimeError("RESOURCE_EXHAUSTED: out of memory")
    _oom_hooks.watch(other)
    try:
        assert not _oom_hooks.on_raised(error), "no device of JAX is tracked"
        _oom_hooks.watch(tracker)
        assert _oom_hooks.on_raised(error)
        _oom_hooks._on_uncaught(error)
        assert other.contexts == [], "PyTorch's devices have nothing to do with it"
        _oom_hooks._on_uncaught(RuntimeError("RESOURCE_EXHAUSTED: another"))
    finally:
        _oom_hooks.unwatch(tracker)
        _oom_hooks.unwatch(other)
    assert tracker.contexts == ["exception", "uncaught exception"]


def test_only_errors_of_memory_are_passed_on() -> None:
    found: list[tuple[BaseException, bool]] = []
    errors = _core.MemoryErrors(lambda error, is_device: found.append((error, is_device)))
    memory = [
        (MemoryError(), False),
        (RuntimeError(CPU_ALLOCATOR), False),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"), True),
    ]
    others = [RuntimeError(), RuntimeError(5), ValueError(CPU_ALLOCATOR), 7]
    for error in [*(error for error, _ in memory), *others]:
        errors(None, 0, error)
    assert found == memory
