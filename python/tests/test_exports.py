"""What is logged to W&B and MLflow, read back from their own files. Needs no network."""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exported import (
    SESSION,
    STATISTICS,
    only_run,
    records,
    secrets_in,
    write_bundle,
    write_sink,
)
from stormlog import _export_content
from stormlog import mlflow_integration as for_mlflow
from stormlog import wandb_integration as for_wandb
from stormlog._export_timeline import device_to_draw, moments_of, points_of
from stormlog.cpu_profiler import CPUMemoryTracker
from stormlog.errors import MissingFrameworkError, StormlogError
from waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("at_home")

SUMMARY = {
    "stormlog_peak_memory_bytes": 9_999,
    "stormlog_total_events": 1_000,
    "stormlog_alert_count": 300,
    "stormlog_memory_utilization_percent": 12.5,
    "stormlog_sink_pruned_bytes": 0,
    "stormlog_tracking_duration_seconds": 99.9,
    "stormlog_backend": "cuda",
    "stormlog_collector_health_status": "degraded",
    "stormlog_collector_last_error": "refused [redacted]",
    "stormlog_session_id": SESSION.session_id,
    "stormlog_session_source": "stormlog.test",
    "stormlog_session_status": "completed",
    "stormlog_rank": 1,
    "stormlog_local_rank": 1,
    "stormlog_world_size": 4,
    "stormlog_job_id": "job-7",
    "stormlog_output_file": "out.json",
}
OF_BUNDLE = {
    "stormlog_allocated_bytes": 100,
    "stormlog_utilization_ratio": 0.5,
    "stormlog_num_ooms": 1,
    "stormlog_risk_oom_occurred": True,
    "stormlog_risk_high_utilization": False,
    "stormlog_risk_detected": True,
    "stormlog_exit_code": 2,
    "stormlog_artifact_dir": "bundle",
    "stormlog_native_history_enabled": True,
    "stormlog_verdict": "Memory ran out",
    "stormlog_attribution_html_file": "cuda_allocator_state_history_annotated.html",
    "stormlog_attribution_history_recorded": True,
    "stormlog_tensor_attribution_rows": 300,
}


def recording(tmp_path: Path) -> dict[str, Any]:
    """A recording with all its files, as the functions of both services take it."""
    output = tmp_path / "out.json"
    output.write_text(json.dumps(records(4)))
    return {
        "command_name": "gpumemprof-track",
        "session_summary": SESSION,
        "stats": STATISTICS,
        "events": records(),
        "output_path": output,
        "telemetry_sink_dir": write_sink(tmp_path / "sink"),
        "oom_dump_path": tmp_path / "not there",
    }


def test_a_recording_in_wandb(wandb: Any, at_home: Path, tmp_path: Path) -> None:
    config = for_wandb.WandbExportConfig(enabled=True, log_artifacts=True)
    place = for_wandb.export_tracking_run_to_wandb(config, **recording(tmp_path))
    run = only_run(at_home)
    assert place == str(run.folder)
    assert wandb.run is None and run.exit_code == 0
    assert (run.run.project, run.run.display_name) == ("stormlog", "gpumemprof-track-0a1b2c3d")
    assert (run.run.run_group, run.run.job_type) == ("job-7", "gpumemprof-track")
    assert {key: run.summary.get(key) for key in SUMMARY} == SUMMARY
    # What is unknown is not there, and not 0.
    assert "stormlog_current_memory_allocated_bytes" not in run.summary
    assert "stormlog_current_memory_reserved_bytes" not in run.summary
    assert len(run.timeline) == run.summary["stormlog_chart_point_count"] <= 250
    assert "stormlog_timeline_reserved_bytes" not in run.timeline[0]
    levels = [step["stormlog_timeline_device_used_bytes"] for step in run.timeline]
    assert max(levels) == 9_999 and levels[0] == 0 and levels[-1] == 999
    alerts = run.table("stormlog_alerts")
    assert alerts["columns"][:3] == ["timestamp_s", "event_type", "context"]
    assert len(alerts["data"]) == 250
    assert {row[2] for row in alerts["data"]} == {"<b> [31m", "password=[redacted]"}
    assert run.table("stormlog_memory_timeline_table")["columns"][0] == "sample_index"
    run.logged("stormlog_memory_timeline_plot_table")
    run.logged("stormlog_memory_utilization_plot_table")
    page = (run.folder / "files" / run.logged("stormlog_tracking_dashboard")["path"]).read_text()
    assert "<b>" not in page
    session = SESSION.session_id
    assert run.artifacts == {
        f"stormlog-tracking-dashboard-{session}": {"stormlog_tracking_dashboard.html"},
        f"stormlog-track-output-{session}": {"out.json"},
        f"stormlog-telemetry-sink-{session}": {"sink/manifest.json", "sink/segment-000001.jsonl"},
    }
    assert secrets_in(at_home) == []


def test_a_recording_in_mlflow(mlflow: Any, at_home: Path, tmp_path: Path) -> None:
    before = mlflow.get_tracking_uri()
    config = for_mlflow.MlflowExportConfig(
        enabled=True, tracking_uri=str(tmp_path / "store"), log_artifacts=True
    )
    run_id = for_mlflow.export_tracking_run_to_mlflow(config, **recording(tmp_path))
    assert run_id is not None
    assert mlflow.get_tracking_uri() == before and mlflow.active_run() is None
    client = mlflow.MlflowClient(tracking_uri=config.tracking_uri)
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED" and run.info.run_name == "gpumemprof-track-0a1b2c3d"
    assert client.get_experiment(run.info.experiment_id).name == "stormlog"
    logged = {**run.data.metrics, **run.data.tags}
    assert {key: logged.get(key) for key in SUMMARY} == {
        key: str(value) if key in run.data.tags else value for key, value in SUMMARY.items()
    }
    tags = {"command": "gpumemprof-track", "group": "job-7", "job_type": "gpumemprof-track"}
    assert (
        tags.items()
        <= {key.removeprefix("stormlog_"): run.data.tags[key] for key in run.data.tags}.items()
    )
    history = client.get_metric_history(run_id, "stormlog_timeline_device_used_bytes")
    assert len(history) == logged["stormlog_chart_point_count"] <= 250
    assert max(point.value for point in history) == 9_999
    assert [point.step for point in history][-1] == 999
    tables = json.loads(run.data.tags["mlflow.loggedArtifacts"])
    artifacts = Path(run.info.artifact_uri)
    names = [Path(table["path"]).name for table in tables]
    assert names == ["stormlog_alerts.json", "stormlog_memory_timeline.json"]
    alerts = json.loads((artifacts / tables[0]["path"]).read_text())
    assert len(alerts["data"]) == 250 and alerts["columns"][0] == "timestamp_s"
    session = SESSION.session_id
    for file in (
        "stormlog_tracking_dashboard.html",
        f"stormlog-tracking-dashboard-{session}/stormlog_tracking_dashboard.html",
        f"stormlog-track-output-{session}/out.json",
        f"stormlog-telemetry-sink-{session}/segment-000001.jsonl",
    ):
        assert (artifacts / file).is_file(), file
    assert secrets_in(tmp_path / "store") == []


def test_a_bundle_in_wandb(wandb: Any, at_home: Path, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    config = for_wandb.WandbExportConfig(enabled=True, log_artifacts=True, log_attribution=True)
    for_wandb.export_diagnose_bundle_to_wandb(
        config, command_name="gpumemprof-diagnose", artifact_dir=bundle
    )
    run = only_run(at_home)
    ours = {key: value for key, value in run.summary.items() if key in OF_BUNDLE}
    assert ours == OF_BUNDLE
    # Values of a wrong type and keys with ".." are not logged.
    for name in ("reserved_bytes", "peak_bytes", "total_bytes", "risk_n", "rank"):
        assert f"stormlog_{name}" not in run.summary
    assert not [key for key in run.summary if ".." in key]
    assert run.run.run_group == "job [redacted]"
    suggestions = run.table("stormlog_diagnostic_suggestions")["data"]
    assert suggestions[:2] == [[1, "use less"], [2, "rotate [redacted]"]]
    assert len(suggestions) <= 250
    rows = run.table("stormlog_tensor_attribution")["data"]
    assert len(rows) == 200
    assert rows[0][1:] == ["0x12b", 1, 299, "[299, 2]", "float32"]
    page = run.folder / "files" / run.logged("stormlog_attribution_html")["path"]
    assert "<script>" not in page.read_text()
    files = {
        "cuda_tensor_attribution.json",
        "cuda_native_debug_metadata.json",
        "cuda_allocator_state_history_annotated.html",
    }
    others = {"manifest.json", "diagnostic_summary.json", "report.json"}
    assert run.artifacts == {
        "stormlog-attribution-etc": files,
        "stormlog-diagnose-etc": {f"bundle/{name}" for name in files | others},
    }
    assert secrets_in(at_home) == []


def test_a_bundle_in_mlflow(mlflow: Any, at_home: Path, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    config = for_mlflow.MlflowExportConfig(enabled=True, log_attribution=True, experiment="mine")
    run_id = for_mlflow.export_diagnose_bundle_to_mlflow(
        config, command_name="gpumemprof-diagnose", artifact_dir=bundle
    )
    client = mlflow.MlflowClient()
    run = client.get_run(run_id)
    assert client.get_experiment(run.info.experiment_id).name == "mine"
    logged = {**run.data.metrics, **run.data.tags}
    as_tags = {
        key: str(value).lower() for key, value in OF_BUNDLE.items() if isinstance(value, bool)
    }
    assert {key: logged.get(key) for key in OF_BUNDLE} == OF_BUNDLE | as_tags
    artifacts = Path(run.info.artifact_uri)
    # Attribution was asked for, the other files were not.
    assert {path.name for path in artifacts.iterdir()} == {
        "stormlog-attribution-etc",
        "stormlog-exports",
        "stormlog_attribution_preview.html",
    }
    assert secrets_in(at_home) == []


def test_results_go_to_the_run_that_is_active(
    wandb: Any, mlflow: Any, at_home: Path, tmp_path: Path
) -> None:
    result = recording(tmp_path)
    with mlflow.start_run() as active:
        config = for_mlflow.MlflowExportConfig(enabled=True, log_tables=False)
        assert for_mlflow.export_tracking_run_to_mlflow(config, **result) == active.info.run_id
        assert mlflow.active_run().info.run_id == active.info.run_id
        assert mlflow.MlflowClient().get_run(active.info.run_id).info.status == "RUNNING"
    run = wandb.init(project="of the program", settings=wandb.Settings(silent=True, console="off"))
    for_wandb.export_tracking_run_to_wandb(
        for_wandb.WandbExportConfig(enabled=True, log_tables=False), **result
    )
    assert wandb.run is run
    run.finish()
    logged = only_run(at_home)
    assert logged.run.project == "of the program"
    assert logged.summary["stormlog_peak_memory_bytes"] == 9_999
    assert not [key for step in logged.history for key in step if "table" in key]


def test_a_run_that_could_not_be_logged_whole_has_failed(
    mlflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(mlflow.MlflowClient, "log_dict", refuse)
    config = for_mlflow.MlflowExportConfig(enabled=True)
    with pytest.raises(OSError, match="the disk is full"):
        for_mlflow.export_tracking_run_to_mlflow(config, **recording(tmp_path))
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("stormlog")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FAILED"


def test_a_run_may_be_named_by_its_id(mlflow: Any, tmp_path: Path) -> None:
    client = mlflow.MlflowClient()
    earlier = client.create_run(client.create_experiment("other")).info.run_id
    config = for_mlflow.MlflowExportConfig(enabled=True, run_id=earlier, run_name="again")
    for_mlflow.export_tracking_run_to_mlflow(config, **recording(tmp_path))
    run = client.get_run(earlier)
    assert (run.info.status, run.info.run_name) == ("FINISHED", "again")
    assert run.data.metrics["stormlog_peak_memory_bytes"] == 9_999


def test_a_tracker_can_be_logged_as_it_is(mlflow: Any, tmp_path: Path) -> None:
    with CPUMemoryTracker(sampling_interval=0.01) as tracker:
        while len(tracker.get_events()) < 3:
            time.sleep(0.01)
    run_id = for_mlflow.export_tracking_run_to_mlflow(
        for_mlflow.MlflowExportConfig(enabled=True),
        command_name="train",
        session_summary=tracker.get_session_summary(),
        stats=tracker.get_statistics(),
        events=tracker.get_events(),
    )
    run = mlflow.MlflowClient().get_run(run_id)
    session = tracker.get_session_summary()
    assert session is not None and run.data.tags["stormlog_session_id"] == session.session_id
    assert run.data.metrics["stormlog_timeline_allocated_bytes"] > 0


def test_what_is_off_does_nothing(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    off = for_wandb.WandbExportConfig()
    for_wandb.export_diagnose_bundle_to_wandb(off, command_name="x", artifact_dir=nowhere)
    for_wandb.ensure_wandb_available(off)
    for_mlflow.ensure_mlflow_available(for_mlflow.MlflowExportConfig())


def test_a_bundle_that_is_not_there(wandb: Any, tmp_path: Path) -> None:
    config = for_wandb.WandbExportConfig(enabled=True)
    with pytest.raises(FileNotFoundError, match="Diagnose artifact directory not found") as caught:
        for_wandb.export_diagnose_bundle_to_wandb(
            config, command_name="x", artifact_dir=tmp_path / "nowhere"
        )
    assert isinstance(caught.value, StormlogError)


def test_a_missing_library_says_what_to_install(
    at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("wandb", "mlflow"):
        monkeypatch.delitem(sys.modules, library, raising=False)
        # Where W&B keeps its runs is no library.
        (at_home / library).mkdir()
    elsewhere = [path for path in sys.path if "site-packages" not in path]
    monkeypatch.setattr(sys, "path", [str(at_home), *elsewhere])
    with pytest.raises(MissingFrameworkError) as of_wandb:
        for_wandb.ensure_wandb_available(for_wandb.WandbExportConfig(enabled=True))
    assert str(of_wandb.value) == for_wandb.WANDB_INSTALL_GUIDANCE
    with pytest.raises(ImportError, match=r"stormlog\[mlflow\]"):
        for_mlflow.ensure_mlflow_available(for_mlflow.MlflowExportConfig(enabled=True))


def test_wandb_gives_a_silent_server_up(wandb: Any) -> None:
    config = for_wandb.WandbExportConfig()
    content = _export_content._begun(config, "test", {})
    chosen = for_wandb._run_settings(wandb, config, content)["settings"]
    for request in ("file_stream", "file_transfer", "graphql"):
        tries = 1 + getattr(chosen, f"x_{request}_retry_max")
        longest = getattr(chosen, f"x_{request}_timeout_seconds")
        waits = getattr(chosen, f"x_{request}_retry_wait_max_seconds")
        assert tries * (longest + waits) < 15 * 60


def test_settings_from_flags() -> None:
    parser = argparse.ArgumentParser()
    for_wandb.add_wandb_arguments(parser)
    for_mlflow.add_mlflow_arguments(parser)
    nothing = parser.parse_args([])
    assert for_wandb.wandb_config_from_namespace(nothing) == for_wandb.WandbExportConfig()
    assert for_mlflow.mlflow_config_from_namespace(nothing) == for_mlflow.MlflowExportConfig()
    flags = "--wandb --wandb-name n --wandb-mode offline --mlflow --mlflow-log-artifacts"
    given = parser.parse_args(flags.split())
    assert for_wandb.wandb_config_from_namespace(given) == for_wandb.WandbExportConfig(
        enabled=True, run_name="n", mode="offline"
    )
    assert for_mlflow.mlflow_config_from_namespace(given) == for_mlflow.MlflowExportConfig(
        enabled=True, log_artifacts=True
    )
    with pytest.raises(ValueError, match="'online', 'offline', or omitted"):
        for_wandb.WandbExportConfig(mode="disabled")
    with pytest.raises(dataclasses.FrozenInstanceError):
        for_wandb.WandbExportConfig().project = "x"  # type: ignore[misc]


def test_events_of_every_kind_are_understood() -> None:
    tracked = SimpleNamespace(
        timestamp=5.0, event_type="peak", memory_allocated=3, device_used=None
    )
    record = {"timestamp_ns": 4_000_000_000, "allocator_allocated_bytes": True, "rank": "x"}
    first, second = moments_of([tracked, record, {"event_type": "sample"}])
    assert (first.time_s, first.allocated, first.rank, first.event_type) == (
        4.0,
        None,
        None,
        "unknown",
    )
    assert (second.time_s, second.allocated, second.used, second.is_alert) == (5.0, 3, None, True)


def test_what_makes_no_sense_is_left_out(tmp_path: Path) -> None:
    odd: list[Any] = [
        None,
        True,
        1.5,
        float("nan"),
        -float("inf"),
        10**400,
        2**63,
        "\ud800",
        [],
        {},
    ]
    names = [name for name in records(1)[0] if name not in ("timestamp_ns", "metadata")]
    events = [
        {"timestamp_ns": 10**18 + place, **dict.fromkeys(names, value)}
        for place, value in enumerate(odd)
    ]
    events += [{"timestamp_ns": value} for value in odd]
    bundle = write_bundle(tmp_path / "bundle")
    (bundle / "manifest.json").write_bytes(b'{"exit_code": "\xff"}')
    (bundle / "diagnostic_summary.json").write_text("[" * 100_000)
    config = for_wandb.WandbExportConfig(enabled=True, log_artifacts=True, log_attribution=True)
    files: dict[str, Any] = dict.fromkeys(["output_path", "telemetry_sink_dir", "oom_dump_path"])
    (tmp_path / "copies").mkdir()
    for content in (
        _export_content.tracking(
            config,
            tmp_path / "copies",
            command_name="x",
            session_summary=None,
            stats=dict.fromkeys(STATISTICS, 10**400),
            events=events,
            attribution_bundle_dir=bundle,
            **files,
        ),
        _export_content.diagnosis(
            config, tmp_path / "copies", command_name="x", artifact_dir=bundle
        ),
    ):
        assert content.run_name == "x" and content.session == "session"
        tables = [list(table.rows) for table in content.tables]
        points = [measured for _, measured in content.timeline]
        json.dumps([content.summary, points, tables], allow_nan=False).encode()
        assert "".join(content.pages.values()).encode()


def test_one_line_does_not_jump_between_devices() -> None:
    levels = [(-1, 900), (0, 5), (1, 7), (0, 6)]
    moments = moments_of(
        {"timestamp_ns": place, "device_id": device, "device_used_bytes": level}
        for place, (device, level) in enumerate(levels)
    )
    assert device_to_draw(moments) == 1
    assert device_to_draw(moments[:1]) == -1
    assert device_to_draw([]) is None


@pytest.mark.parametrize("count", [0, 1, 250, 251, 10_000])
@pytest.mark.parametrize("alerts", [0, 1.0])
def test_the_points_of_any_recording_are_few(count: int, alerts: float) -> None:
    points = points_of(moments_of(records(count, int(alerts * count))))
    assert len(points) == count if count <= 250 else 100 < len(points) <= 250
    assert [point.place for point in points] == sorted({point.place for point in points})


def test_the_names_are_those_of_the_reference(reference_python: str, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    # The differences from stormlog 0.3.9 are tested above.
    for name in ("link.json", "cuda_allocation_attribution.json"):
        (bundle / name).unlink()
    session = dataclasses.asdict(SESSION)
    manifest = json.loads((bundle / "manifest.json").read_text()) | {"session": session}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    summary = json.loads((bundle / "diagnostic_summary.json").read_text())
    summary |= {"reserved_bytes": 2, "peak_bytes": 3, "total_bytes": 4, "fragmentation_ratio": 0.5}
    summary["risk_flags"] = {"oom_occurred": True, "memory_finding": False}
    (bundle / "diagnostic_summary.json").write_text(json.dumps(summary))
    sink = write_sink(tmp_path / "sink")
    script = str(Path(__file__).parent / "parity" / "exports.py")

    def notes(interpreter: str) -> dict[str, Any]:
        call = [interpreter, script, str(bundle), str(sink / "manifest.json"), str(sink)]
        done = subprocess.run(call, check=True, capture_output=True, text=True, timeout=PATIENCE_S)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    theirs, own = notes(reference_python), notes(sys.executable)
    assert own["run"] == theirs["run"]
    assert set(own["summary"]) - {"stormlog_verdict"} == set(theirs["summary"])
    for what in ("logged", "tables", "artifacts"):
        assert sorted(own[what]) == sorted(theirs[what])
