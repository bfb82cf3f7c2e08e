"""Logs recordings and diagnose bundles to MLflow.

If the program has an active MLflow run, results are logged to that run, and the run is not ended. A
separate client is used, so that the tracking server and the experiment of the program do not
change.
``stormlog._export_content`` selects what is logged; this module sends it.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ._export_content import (
    ATTRIBUTION_PAGE,
    DASHBOARD,
    AnyPath,
    Content,
    Scalar,
    Table,
    diagnosis,
    export,
    tracking,
)
from ._installed import is_installed
from .errors import MissingFrameworkError
from .session import SessionSummary

__all__ = [
    "MLFLOW_INSTALL_GUIDANCE",
    "MlflowExportConfig",
    "add_mlflow_arguments",
    "ensure_mlflow_available",
    "export_diagnose_bundle_to_mlflow",
    "export_tracking_run_to_mlflow",
    "mlflow_config_from_namespace",
]

MLFLOW_INSTALL_GUIDANCE = (
    "MLflow integration requires optional dependencies. "
    "Install with `pip install 'stormlog[mlflow]'`."
)

# The maximum numbers of metrics and tags that a server accepts in one request.
_MOST_METRICS = 1000
_MOST_TAGS = 100
# MLflow's web pages learn from this tag which files of a run are tables.
_TABLES_TAG = "mlflow.loggedArtifacts"


@dataclass(frozen=True)
class MlflowExportConfig:
    """Whether and how to log to MLflow."""

    enabled: bool = False
    tracking_uri: str | None = None
    experiment: str | None = None
    run_id: str | None = None
    run_name: str | None = None
    group: str | None = None
    job_type: str | None = None
    log_tables: bool = True
    log_artifacts: bool = False
    log_attribution: bool = False


def add_mlflow_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the MLflow flags of ``gpumemprof track`` to a parser."""
    add = parser.add_argument
    add("--mlflow", action="store_true", help="Log the result to MLflow")
    add(
        "--mlflow-tracking-uri",
        help="The server, database or directory (default: MLFLOW_TRACKING_URI, or MLflow's own)",
    )
    add("--mlflow-experiment", help="Its experiment (default: stormlog)")
    add("--mlflow-run-id", help="Log to this run, which must exist")
    add("--mlflow-run-name", help="Name of the run (default: the command and the session)")
    add("--mlflow-group", help="Tag of the group (default: the job id)")
    add("--mlflow-job-type", help="Tag of the job type (default: the command)")
    add("--mlflow-log-artifacts", action="store_true", help="Upload the files too, as artifacts")
    add(
        "--mlflow-log-attribution",
        action="store_true",
        help="Also log the holders of memory, when the bundle has them",
    )


def mlflow_config_from_namespace(args: argparse.Namespace) -> MlflowExportConfig:
    """The settings from the flags of :func:`add_mlflow_arguments`."""
    return MlflowExportConfig(
        enabled=bool(getattr(args, "mlflow", False)),
        tracking_uri=getattr(args, "mlflow_tracking_uri", None),
        experiment=getattr(args, "mlflow_experiment", None),
        run_id=getattr(args, "mlflow_run_id", None),
        run_name=getattr(args, "mlflow_run_name", None),
        group=getattr(args, "mlflow_group", None),
        job_type=getattr(args, "mlflow_job_type", None),
        log_artifacts=bool(getattr(args, "mlflow_log_artifacts", False)),
        log_attribution=bool(getattr(args, "mlflow_log_attribution", False)),
    )


def ensure_mlflow_available(config: MlflowExportConfig) -> None:
    """Raise an ``ImportError`` that names what to install if logging is enabled and MLflow is
    missing.

    The check searches for MLflow without importing it, so that a recording does not start later.
    """
    if config.enabled and not is_installed("mlflow"):
        raise MissingFrameworkError(MLFLOW_INSTALL_GUIDANCE)


def export_tracking_run_to_mlflow(
    config: MlflowExportConfig,
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

    ``events`` may be a tracker's events, loaded events or records (dictionaries). Returns the id of
    the MLflow run, or ``None`` if logging is not enabled.
    """
    ensure_mlflow_available(config)
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


def export_diagnose_bundle_to_mlflow(
    config: MlflowExportConfig, *, command_name: str, artifact_dir: AnyPath
) -> str | None:
    """Log a diagnose bundle: its numbers, flags and suggestions, and its files if requested.

    Returns the id of the MLflow run, or ``None`` if logging is not enabled.
    """
    ensure_mlflow_available(config)
    gather = partial(diagnosis, command_name=command_name, artifact_dir=artifact_dir)
    return export(config, gather, _log)


def _log(config: MlflowExportConfig, content: Content) -> str:
    import mlflow

    active = mlflow.active_run()
    if active is not None and config.run_id in (None, "", active.info.run_id):
        _write(mlflow.MlflowClient(), active.info.run_id, config, content)
        return str(active.info.run_id)
    client = mlflow.MlflowClient(tracking_uri=config.tracking_uri or None)
    run_id = _begun(client, config, content)
    try:
        _write(client, run_id, config, content)
    except BaseException:
        client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id, "FINISHED")
    return run_id


def _begun(client: Any, config: MlflowExportConfig, content: Content) -> str:
    """Set the requested run to the status running, or create a run; return its id."""
    if config.run_id:
        client.update_run(config.run_id, status="RUNNING", name=config.run_name or None)
        return config.run_id
    name = config.experiment or "stormlog"
    experiment = client.get_experiment_by_name(name)
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(name)
    tags = {"mlflow.source.name": content.command, "mlflow.source.type": "LOCAL"}
    run = client.create_run(experiment_id, run_name=content.run_name, tags=tags)
    return str(run.info.run_id)


def _write(client: Any, run_id: str, config: MlflowExportConfig, content: Content) -> None:
    from mlflow.entities import Metric, RunTag

    now_ms = int(time.time() * 1000)
    summary = dict(content.summary)
    if config.log_artifacts and DASHBOARD in content.pages:
        summary[f"{DASHBOARD}_file"] = f"{DASHBOARD}.html"
    tags = {
        **content.identity,
        "stormlog_command": content.command,
        "stormlog_job_type": content.job_type,
        **({"stormlog_group": content.group} if content.group else {}),
        **{name: value for name, value in summary.items() if not _is_metric(name, value)},
    }
    metrics = [
        Metric(name, float(value), now_ms, 0)
        for name, value in summary.items()
        if _is_metric(name, value)
    ]
    for moment, measured in content.timeline:
        time_ms = int(moment.time_s * 1000)
        metrics += [
            Metric(name, float(value), time_ms, moment.place) for name, value in measured.items()
        ]
    run_tags = [RunTag(name, _tag(value)) for name, value in tags.items()]
    for some in _in_parts(run_tags, _MOST_TAGS):
        client.log_batch(run_id, tags=some)
    for some in _in_parts(metrics, _MOST_METRICS):
        client.log_batch(run_id, metrics=some)
    folder = f"stormlog-exports/{content.session}/{uuid.uuid4().hex}"
    tables = [_log_table(client, run_id, folder, table) for table in content.tables]
    _announce_tables(client, run_id, tables)
    for page, file in (
        (DASHBOARD, f"{DASHBOARD}.html"),
        (ATTRIBUTION_PAGE, f"{ATTRIBUTION_PAGE}_preview.html"),
    ):
        if page in content.pages:
            client.log_text(run_id, content.pages[page], file)
    if config.log_artifacts and DASHBOARD in content.pages:
        place = f"stormlog-tracking-dashboard-{content.session}/{DASHBOARD}.html"
        client.log_text(run_id, content.pages[DASHBOARD], place)
    for upload in content.uploads:
        for name, path in upload.files:
            *folders, _ = name.split("/")
            place = "/".join([content.name_of(upload), *folders])
            client.log_artifact(run_id, str(path), place)


def _is_metric(name: str, value: Scalar) -> bool:
    """Whether the value is logged as a metric: a number, except ranks and the world size, which are
    tags."""
    of_place = name in ("stormlog_rank", "stormlog_local_rank", "stormlog_world_size")
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not of_place


def _tag(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _log_table(client: Any, run_id: str, folder: str, table: Table) -> str:
    """Write a table in the format of ``mlflow.load_table``, without pandas."""
    file = f"{folder}/{table.name}.json"
    content = {"columns": list(table.columns), "data": [list(row) for row in table.rows]}
    client.log_dict(run_id, content, file)
    return file


def _announce_tables(client: Any, run_id: str, files: list[str]) -> None:
    if not files:
        return
    try:
        known = json.loads(client.get_run(run_id).data.tags.get(_TABLES_TAG, "[]"))
    except ValueError:
        known = []
    known = known if isinstance(known, list) else []
    tables = [*known, *({"path": file, "type": "table"} for file in files)]
    client.set_tag(run_id, _TABLES_TAG, json.dumps(tables))


def _in_parts(items: list[Any], most: int) -> Iterator[list[Any]]:
    for begin in range(0, len(items), most):
        yield items[begin : begin + most]
