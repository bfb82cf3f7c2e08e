"""The flags of `track` and `diagnose` for W&B and MLflow. Nothing here needs a network."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exported import PASSWORD, TOKEN, only_run
from stormlog.wandb_integration import WANDB_INSTALL_GUIDANCE
from waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("at_home")


def words_of(name: str, *arguments: object, before: str = "") -> list[str]:
    call = f"import sys; {before}\nfrom stormlog import entrypoint; sys.exit(entrypoint.{name}())"
    return [sys.executable, "-c", call, *map(str, arguments)]


def program(name: str, *arguments: object, before: str = "") -> subprocess.CompletedProcess[str]:
    words = words_of(name, *arguments, before=before)
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)


def test_track_logs_to_both(wandb: Any, mlflow: Any, at_home: Path) -> None:
    flags = ["--wandb", "--wandb-mode", "offline", "--wandb-log-artifacts", "--mlflow"]
    done = program(
        "gpumemprof",
        *["track", "--duration", 0.3, "--telemetry-sink-dir", "sink", "--output", "out.csv"],
        *["--job-id", "job-9", *flags],
    )
    assert done.returncode == 0, done.stderr
    run = only_run(at_home)
    assert done.stderr.splitlines()[0] == f"logged to W&B: {run.folder}"
    assert run.run.run_group == "job-9" and run.run.job_type == "gpumemprof-track"
    assert run.summary["stormlog_peak_memory_bytes"] > 0 and run.timeline
    assert {name.rsplit("-", 5)[0] for name in run.artifacts} == {
        "stormlog-track-output",
        "stormlog-telemetry-sink",
        "stormlog-tracking-dashboard",
    }
    client = mlflow.MlflowClient()
    (logged,) = client.search_runs([client.get_experiment_by_name("stormlog").experiment_id])
    assert done.stderr.splitlines()[1] == f"logged to MLflow: {logged.info.run_id}"
    assert logged.data.tags["stormlog_session_id"] == run.summary["stormlog_session_id"]


@pytest.mark.parametrize("name", ["main", "tfmemprof"])
def test_diagnose_logs_its_bundle(mlflow: Any, at_home: Path, name: str) -> None:
    flags = [
        "diagnose",
        "--duration",
        0,
        "--output",
        "bundle",
        "--mlflow",
        "--mlflow-log-artifacts",
    ]
    done = program(name, *flags)
    assert done.returncode == 0, done.stderr
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("stormlog").experiment_id])
    command = {"main": "stormlog"}.get(name, name)
    assert run.data.tags["stormlog_command"] == f"{command}-diagnose"
    assert run.data.metrics["stormlog_exit_code"] == 0
    (folder,) = Path(run.info.artifact_uri).glob("stormlog-diagnose-*")
    assert (folder / "telemetry" / "manifest.json").is_file()


def stand_in(what_it_does: str) -> str:
    """Code that puts a library in MLflow's place, which does this when it is first asked."""
    return (
        "import importlib.machinery, time, types; fake = types.ModuleType('mlflow')\n"
        "fake.__spec__ = importlib.machinery.ModuleSpec('mlflow', None, origin='here')\n"
        f"def active_run(): {what_it_does}\n"
        "fake.active_run = active_run; sys.modules['mlflow'] = fake"
    )


def test_a_service_that_fails_changes_no_exit_code(at_home: Path) -> None:
    where = f"https://me:{PASSWORD}@host"
    fails = stand_in(f"raise OSError('no answer from {where}')")
    flags = ["diagnose", "--duration", 0, "--output", "bundle", "--mlflow"]
    done = program("gpumemprof", *flags, "--mlflow-tracking-uri", where, before=fails)
    assert done.returncode == 0
    assert "Artifact: " in done.stdout
    warning = "warning: not logged to MLflow: no answer from https://[redacted]@host"
    assert done.stderr.splitlines()[-1] == warning
    manifest = (at_home / "bundle" / "manifest.json").read_text()
    assert PASSWORD not in manifest and "https://[redacted]@host" in manifest


@pytest.mark.parametrize("name", ["main", "gpumemprof", "tfmemprof"])
@pytest.mark.parametrize("command", ["track", "diagnose"])
def test_without_the_library_nothing_is_begun(at_home: Path, name: str, command: str) -> None:
    output = [] if (name, command) == ("main", "track") else ["--output", "out"]
    flags = ["--wandb", "--wandb-project", TOKEN]
    done = program(name, command, *output, *flags, before="sys.modules['wandb'] = None")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {WANDB_INSTALL_GUIDANCE}\n"
    assert not (at_home / "out").exists()


def test_an_upload_can_be_interrupted(at_home: Path) -> None:
    waits = stand_in("print('waiting', flush=True); time.sleep(600)")
    words = words_of("gpumemprof", "diagnose", "--duration", 0, "--mlflow", before=waits)
    pipe = subprocess.PIPE
    child = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True)
    try:
        assert child.stdout is not None
        while "waiting" not in (line := child.stdout.readline()):
            assert line
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=PATIENCE_S)
    finally:
        child.kill()
    assert child.returncode == 0
    assert errors.splitlines()[-1] == "warning: not logged to MLflow: interrupted"


def test_the_mode_is_one_of_two() -> None:
    done = program("gpumemprof", "track", "--wandb", "--wandb-mode", "disabled")
    assert done.returncode == 1
    assert "online, offline" in done.stderr
