"""Logs the results of commands of ``stormlog`` to W&B and MLflow.

The commands are written in Rust. They call this module, because the libraries of W&B and MLflow are
written in Python.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from .session import SessionSummary

_Settings = dict[str, Any]
_Paths = tuple[Path | None, Path | None, Path | None]


class _Service(NamedTuple):
    check: Callable[[], None]
    log_tracking: Callable[..., str | None]
    log_diagnosis: Callable[..., str | None]


def check(service: str, settings: _Settings) -> None:
    """Raise an exception if a service cannot be used, for example because its library is not
    installed. Called before a command does any work."""
    _service(service, settings).check()


def log_diagnosis(service: str, settings: _Settings, command: str, directory: Path) -> str | None:
    """Log a diagnose bundle; return where it can be found in the service, if that is known."""
    with _interruptible():
        return _service(service, settings).log_diagnosis(
            command_name=command, artifact_dir=directory
        )


def log_tracking(
    service: str,
    settings: _Settings,
    command: str,
    session: dict[str, Any],
    statistics: dict[str, Any],
    records: list[dict[str, Any]],
    paths: _Paths,
) -> str | None:
    """Log a recording; return where it can be found in the service, if that is known. ``paths`` are
    those of the exported file, the sink and the OOM bundle."""
    output, sink, oom_bundle = paths
    with _interruptible():
        return _service(service, settings).log_tracking(
            command_name=command,
            session_summary=SessionSummary(**session),
            stats=statistics,
            events=records,
            output_path=output,
            telemetry_sink_dir=sink,
            oom_dump_path=oom_bundle,
        )


def _service(name: str, settings: _Settings) -> _Service:
    if name == "wandb":
        from . import wandb_integration as wandb

        for_wandb = wandb.WandbExportConfig(enabled=True, **settings)
        return _Service(
            partial(wandb.ensure_wandb_available, for_wandb),
            partial(wandb.export_tracking_run_to_wandb, for_wandb),
            partial(wandb.export_diagnose_bundle_to_wandb, for_wandb),
        )
    from . import mlflow_integration as mlflow

    for_mlflow = mlflow.MlflowExportConfig(enabled=True, **settings)
    return _Service(
        partial(mlflow.ensure_mlflow_available, for_mlflow),
        partial(mlflow.export_tracking_run_to_mlflow, for_mlflow),
        partial(mlflow.export_diagnose_bundle_to_mlflow, for_mlflow),
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP end the process while results are sent to a server.

    Before results are sent, these signals only end the recording. An abort while they are sent
    loses no samples, because the recording is complete.
    """
    # By default MLflow retries for more than four minutes when a server is down, and waits two
    # minutes for each answer of a server that hangs.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
