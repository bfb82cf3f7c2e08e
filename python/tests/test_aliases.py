"""The import names of old are the same modules."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import subprocess
import sys

import pytest

import stormlog
import stormlog.telemetry

MODULES = ["telemetry", "session", "telemetry_model", "issues", "errors"]


@pytest.mark.parametrize("alias", ["gpumemprof", "tfmemprof"])
@pytest.mark.parametrize("name", MODULES)
def test_one_module_under_every_name(alias: str, name: str) -> None:
    module = importlib.import_module(f"{alias}.{name}")
    assert module is importlib.import_module(f"stormlog.{name}")
    assert module.__name__ == f"stormlog.{name}"
    assert module.__spec__ is not None and module.__spec__.name == f"stormlog.{name}"


def test_helpers_are_those_of_the_framework() -> None:
    import stormlog.tensorflow.utils
    import stormlog.utils

    assert importlib.import_module("gpumemprof.utils") is stormlog.utils
    assert importlib.import_module("tfmemprof.utils") is stormlog.tensorflow.utils


def test_the_package_is_the_same_too() -> None:
    import gpumemprof

    assert gpumemprof is stormlog
    assert gpumemprof.validate_telemetry_record is stormlog.telemetry.validate_telemetry_record


def test_classes_pickle_across_names() -> None:
    from gpumemprof.session import SessionSummary

    made = SessionSummary("s", "running", 1, None, "h", 1)
    assert b"gpumemprof" not in pickle.dumps(made)


def test_what_is_in_no_package_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match="gpumemprof.nothing"):
        importlib.import_module("gpumemprof.nothing")


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("stormlog", "stormlog"),
        ("stormlog.cli", "gpumemprof"),
        ("stormlog.tensorflow.cli", "tfmemprof"),
    ],
)
def test_commands_run_as_modules(module: str, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, command), done
