"""What the program asks of experiment trackers when it is started from Python."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .session import SessionSummary

_Settings = dict[str, Any]
_Paths = tuple[Path | None, Path | None, Path | None]


def check(service: str, settings: _Settings) -> None:
    """Raise when a service cannot be logged to. Called before the program does any work."""
    if service == "wandb":
        from .wandb_integration import WandbExportConfig, ensure_wandb_available

        ensure_wandb_available(WandbExportConfig(enabled=True, **settings))
    else:
        from .mlflow_integration import MlflowExportConfig, ensure_mlflow_available

        ensure_mlflow_available(MlflowExportConfig(enabled=True, **settings))


def log_diagnosis(service: str, settings: _Settings, command: str, directory: Path) -> str | None:
    """Log a diagnose bundle; gives where it is to be found."""
    with _interruptible():
        if service == "wandb":
            from .wandb_integration import WandbExportConfig, export_diagnose_bundle_to_wandb

            wandb_config = WandbExportConfig(enabled=True, **settings)
            return export_diagnose_bundle_to_wandb(
                wandb_config, command_name=command, artifact_dir=directory
            )
        from .mlflow_integration import MlflowExportConfig, export_diagnose_bundle_to_mlflow

        mlflow_config = MlflowExportConfig(enabled=True, **settings)
        return _run(
            export_diagnose_bundle_to_mlflow(
                mlflow_config, command_name=command, artifact_dir=directory
            )
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
    """Log a recording; gives where it is to be found."""
    output, sink, oom_bundle = paths
    result: dict[str, Any] = {
        "command_name": command,
        "session_summary": SessionSummary(**session),
        "stats": statistics,
        "events": records,
        "output_path": output,
        "telemetry_sink_dir": sink,
        "oom_dump_path": oom_bundle,
    }
    with _interruptible():
        if service == "wandb":
            from .wandb_integration import WandbExportConfig, export_tracking_run_to_wandb

            return export_tracking_run_to_wandb(
                WandbExportConfig(enabled=True, **settings), **result
            )
        from .mlflow_integration import MlflowExportConfig, export_tracking_run_to_mlflow

        return _run(
            export_tracking_run_to_mlflow(MlflowExportConfig(enabled=True, **settings), **result)
        )


def _run(run_id: str | None) -> str | None:
    return f"run {run_id}" if run_id else None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let signals act again: the recording has ended, and a server may never answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # As it is, MLflow asks a server that is down for more than four minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
