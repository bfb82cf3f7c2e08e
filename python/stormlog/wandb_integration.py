"""Logs recordings and diagnose bundles to Weights & Biases.

If the program has an active W&B run, results are logged to that run, and the run is not ended.
``stormlog._export_content`` selects what is logged; this module sends it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

from ._export_content import (
    ATTRIBUTION_PAGE,
    DASHBOARD,
    TIMELINE,
    AnyPath,
    Content,
    diagnosis,
    export,
    tracking,
)
from ._installed import is_installed
from .errors import InvalidValueError, MissingFrameworkError
from .session import SessionSummary

__all__ = [
    "WANDB_INSTALL_GUIDANCE",
    "WandbExportConfig",
    "add_wandb_arguments",
    "ensure_wandb_available",
    "export_diagnose_bundle_to_wandb",
    "export_tracking_run_to_wandb",
    "wandb_config_from_namespace",
]

WANDB_INSTALL_GUIDANCE = (
    "Weights & Biases integration requires optional dependencies. "
    "Install with `pip install 'stormlog[wandb]'`."
)

_TIMELINE_SERIES = ("allocated_bytes", "reserved_bytes", "device_used_bytes")

# By default W&B retries for hours when a server has stopped responding, also where no user is there
# to stop it. These settings limit the retries. Some versions of W&B may not have all of them.
_PATIENCE = {
    "x_file_stream_retry_max": 3,
    "x_file_stream_retry_wait_max_seconds": 10,
    "x_file_stream_timeout_seconds": 30,
    "x_file_transfer_retry_max": 1,
    "x_file_transfer_retry_wait_max_seconds": 10,
    "x_file_transfer_timeout_seconds": 300,
    "x_graphql_retry_max": 3,
    "x_graphql_retry_wait_max_seconds": 10,
    "x_graphql_timeout_seconds": 30,
}


@dataclass(frozen=True)
class WandbExportConfig:
    """Whether and how to log to Weights & Biases."""

    enabled: bool = False
    project: str | None = None
    entity: str | None = None
    mode: str | None = None
    run_id: str | None = None
    run_name: str | None = None
    group: str | None = None
    job_type: str | None = None
    log_tables: bool = True
    log_artifacts: bool = False
    log_attribution: bool = False

    def __post_init__(self) -> None:
        if self.mode not in (None, "online", "offline"):
            raise InvalidValueError("wandb mode must be 'online', 'offline', or omitted")


def add_wandb_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the Weights & Biases flags of ``gpumemprof track`` to a parser."""
    add = parser.add_argument
    add("--wandb", action="store_true", help="Log the result to Weights & Biases")
    add("--wandb-project", help="Its project (default: stormlog)")
    add("--wandb-entity", help="Entity or team of the project")
    add("--wandb-mode", choices=("online", "offline"), help="Send it now, or keep it here")
    add("--wandb-run-id", help="Log to this run, which may already exist")
    add("--wandb-name", help="Name of the run (default: the command and the session)")
    add("--wandb-group", help="Group of the run (default: the job id)")
    add("--wandb-job-type", help="Job type of the run (default: the command)")
    add("--wandb-log-artifacts", action="store_true", help="Upload the files too, as artifacts")
    add(
        "--wandb-log-attribution",
        action="store_true",
        help="Also log the holders of memory, when the bundle has them",
    )


def wandb_config_from_namespace(args: argparse.Namespace) -> WandbExportConfig:
    """The settings from the flags of :func:`add_wandb_arguments`."""
    return WandbExportConfig(
        enabled=bool(getattr(args, "wandb", False)),
        project=getattr(args, "wandb_project", None),
        entity=getattr(args, "wandb_entity", None),
        mode=getattr(args, "wandb_mode", None),
        run_id=getattr(args, "wandb_run_id", None),
        run_name=getattr(args, "wandb_name", None),
        group=getattr(args, "wandb_group", None),
        job_type=getattr(args, "wandb_job_type", None),
        log_artifacts=bool(getattr(args, "wandb_log_artifacts", False)),
        log_attribution=bool(getattr(args, "wandb_log_attribution", False)),
    )


def ensure_wandb_available(config: WandbExportConfig) -> None:
    """Raise an ``ImportError`` that names what to install if logging is enabled and W&B is missing.

    The check searches for W&B without importing it, so that a recording does not start later.
    """
    if config.enabled and not is_installed("wandb"):
        raise MissingFrameworkError(WANDB_INSTALL_GUIDANCE)


def export_tracking_run_to_wandb(
    config: WandbExportConfig,
    *,
    command_name: str,
    session_summary: SessionSummary | None,
    stats: Mapping[str, Any],
    events: Iterable[Any],
    output_path: AnyPath | None = None,
    telemetry_sink_dir: AnyPath | None = None,
    oom_dump_path: AnyPath | None = None,
    attribution_bundle_dir: AnyPath | None = None,
) -> str | None:
    """Log a recording: its statistics, timeline and alerts, and its files if requested.

    ``events`` may be a tracker's events, loaded events or records (dictionaries). Returns the
    address of the W&B run, or the folder of an offline run; ``None`` if logging is not enabled.
    """
    ensure_wandb_available(config)
    gather = partial(
        tracking,
        command_name=command_name,
        session_summary=session_summary,
        stats=stats,
        events=events,
        output_path=output_path,
        telemetry_sink_dir=telemetry_sink_dir,
        oom_dump_path=oom_dump_path,
        attribution_bundle_dir=attribution_bundle_dir,
    )
    return export(config, gather, _log)


def export_diagnose_bundle_to_wandb(
    config: WandbExportConfig, *, command_name: str, artifact_dir: AnyPath
) -> str | None:
    """Log a diagnose bundle: its numbers, flags and suggestions, and its files if requested.

    Returns the address of the W&B run, or the folder of an offline run; ``None`` if logging is not
    enabled.
    """
    ensure_wandb_available(config)
    gather = partial(diagnosis, command_name=command_name, artifact_dir=artifact_dir)
    return export(config, gather, _log)


def _log(config: WandbExportConfig, content: Content) -> str | None:
    import wandb

    if wandb.run is not None:
        _write(wandb, wandb.run, config, content)
        return _address(wandb.run)
    run = wandb.init(**_run_settings(wandb, config, content))
    try:
        _write(wandb, run, config, content)
    except BaseException:
        run.finish(exit_code=1)
        raise
    run.finish()
    return _address(run)


def _run_settings(wandb: Any, config: WandbExportConfig, content: Content) -> dict[str, Any]:
    known = getattr(wandb.Settings, "model_fields", {})
    settings = {
        "project": config.project or "stormlog",
        "entity": config.entity,
        "mode": config.mode,
        "name": content.run_name,
        "group": content.group,
        "job_type": content.job_type,
        "id": config.run_id,
        "resume": "allow" if config.run_id else None,
        # W&B's own view of this process is not useful, and contains the command line as it was
        # typed.
        "settings": wandb.Settings(
            silent=True,
            console="off",
            disable_code=True,
            disable_git=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
            **{name: most for name, most in _PATIENCE.items() if name in known},
        ),
    }
    return {name: value for name, value in settings.items() if value}


def _write(wandb: Any, run: Any, config: WandbExportConfig, content: Content) -> None:
    run.summary.update(dict(content.summary))
    if content.timeline:
        clock = "stormlog_timeline_elapsed_seconds"
        run.define_metric(clock, hidden=True)
        run.define_metric("stormlog_timeline_*", step_metric=clock)
    for _, measured in content.timeline:
        run.log(dict(measured))
    for table in content.tables:
        name = f"{table.name}_table" if table.name == TIMELINE else table.name
        columns, rows = list(table.columns), [list(row) for row in table.rows]
        run.log({name: wandb.Table(columns=columns, data=rows, allow_mixed_types=True)})
        if table.name == TIMELINE:
            _plot(wandb, run, content)
    for page, key in ((DASHBOARD, DASHBOARD), (ATTRIBUTION_PAGE, f"{ATTRIBUTION_PAGE}_html")):
        if page in content.pages:
            run.log({key: wandb.Html(content.pages[page])})
    if config.log_artifacts and DASHBOARD in content.pages:
        kind, file = "stormlog-tracking-dashboard", f"{DASHBOARD}.html"
        artifact = wandb.Artifact(name=f"{kind}-{content.session}", type=kind)
        with artifact.new_file(file, encoding="utf-8") as page_file:
            page_file.write(content.pages[DASHBOARD])
        run.log_artifact(artifact)
        run.summary.update({f"{DASHBOARD}_file": file})
    for upload in content.uploads:
        artifact = wandb.Artifact(name=content.name_of(upload), type=upload.kind)
        for name, path in upload.files:
            name = f"{upload.folder}/{name}" if upload.folder else name
            artifact.add_file(local_path=str(path), name=name)
        run.log_artifact(artifact)


def _plot(wandb: Any, run: Any, content: Content) -> None:
    points = [measured for _, measured in content.timeline]

    def series(name: str) -> list[float]:
        return [float(point.get(f"stormlog_timeline_{name}", nan)) for point in points]

    def is_known(name: str) -> bool:
        return any(f"stormlog_timeline_{name}" in point for point in points)

    for key, title, names in (
        ("stormlog_memory_timeline_plot", "Stormlog Memory Timeline", _TIMELINE_SERIES),
        (
            "stormlog_memory_utilization_plot",
            "Stormlog Memory Utilization",
            ("utilization_percent",),
        ),
    ):
        known = [name for name in names if is_known(name)]
        if known:
            plot = wandb.plot.line_series(
                xs=series("elapsed_seconds"),
                ys=[series(name) for name in known],
                keys=known,
                title=title,
                xname="Elapsed Seconds",
            )
            run.log({key: plot})


def _address(run: Any) -> str | None:
    """The web address of the run; for an offline run, the folder that ``wandb sync`` uploads."""
    if not run.offline:
        return str(run.url) if run.url else None
    return str(Path(run.dir).parent)
