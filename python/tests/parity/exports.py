"""Logs a recording and a bundle to a W&B that only takes notes, and prints them.

Run by the interpreter of stormlog 0.3.9 and by ours: `exports.py BUNDLE OUTPUT SINK`.
"""

from __future__ import annotations

import importlib.machinery
import json
import sys
import types
from typing import Any

NOTES: dict[str, Any] = {"summary": [], "logged": [], "tables": [], "artifacts": [], "run": {}}


class Summary:
    def update(self, values: dict[str, Any]) -> None:
        NOTES["summary"] += list(values)


class Artifact:
    def __init__(self, name: str, type: str) -> None:
        NOTES["artifacts"].append([name, type])

    def new_file(self, *_: Any, **__: Any) -> Any:
        import io

        return io.StringIO()

    def add_file(self, *_: Any, **__: Any) -> None: ...
    def add_dir(self, *_: Any, **__: Any) -> None: ...


class Run:
    summary = Summary()
    offline, url, dir = False, None, None

    def log(self, values: dict[str, Any]) -> None:
        NOTES["logged"] += list(values)

    def log_artifact(self, artifact: Artifact) -> None: ...
    def define_metric(self, *_: Any, **__: Any) -> None: ...
    def finish(self, **_: Any) -> None: ...


def init(settings: Any = None, **values: Any) -> Run:
    NOTES["run"] = values
    return Run()


def table(columns: list[str], data: list[Any], **_: Any) -> None:
    NOTES["tables"].append(columns)


def main(bundle: str, output: str, sink: str) -> None:
    fake: Any = types.ModuleType("wandb")
    fake.__spec__ = importlib.machinery.ModuleSpec("wandb", None, origin="notes")
    fake.run, fake.init, fake.Table, fake.Artifact = None, init, table, Artifact
    fake.Html = fake.Settings = lambda *_, **__: None
    fake.plot = types.SimpleNamespace(line_series=lambda **_: None)
    sys.modules["wandb"] = fake
    from stormlog.session import SessionSummary
    from stormlog.wandb_integration import (
        WandbExportConfig,
        export_diagnose_bundle_to_wandb,
        export_tracking_run_to_wandb,
    )

    config = WandbExportConfig(enabled=True, log_artifacts=True, log_attribution=True)
    numbers = {
        "peak_memory", "total_events", "alert_count", "current_memory_allocated",
        "current_memory_reserved", "memory_utilization_percent", "total_allocations",
        "total_deallocations", "total_allocation_bytes", "total_deallocation_bytes",
        "tracking_duration_seconds", "allocations_per_second", "bytes_allocated_per_second",
        "history_retained_events", "history_dropped_events", "rollover_count",
        "pruned_segment_count", "pruned_bytes", "final_retained_files", "final_retained_bytes",
        "average_allocation_size", "events_last_hour", "tracking_start_time",
    }  # fmt: skip
    statistics: dict[str, Any] = dict.fromkeys(sorted(numbers), 7)
    statistics |= {"backend": "cuda", "collector_health_status": "healthy", "session_status": "x"}
    statistics |= {"collector_last_error": "refused", "last_oom_dump_path": "somewhere"}
    events = [
        types.SimpleNamespace(
            timestamp=1000.0 + place,
            event_type=event_type,
            memory_allocated=place,
            memory_reserved=place,
            memory_change=0,
            device_used=place,
            device_total=100,
            device_id=0,
            context="context",
            job_id="job",
            rank=0,
        )
        for place, event_type in enumerate(["sample", "warning", "peak"])
    ]
    session = SessionSummary(
        session_id="0a1b2c3d-0000-4000-8000-000000000001",
        status="completed",
        started_at_ns=1,
        ended_at_ns=2,
        host="host",
        pid=1,
        job_id="job",
        rank=0,
        local_rank=0,
        world_size=1,
        source="source",
    )
    export_tracking_run_to_wandb(
        config,
        command_name="gpumemprof-track",
        session_summary=session,
        stats=statistics,
        events=events,
        output_path=output,
        telemetry_sink_dir=sink,
        oom_dump_path=sink,
        attribution_bundle_dir=bundle,
    )
    export_diagnose_bundle_to_wandb(config, command_name="gpumemprof-diagnose", artifact_dir=bundle)
    json.dump(NOTES, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
