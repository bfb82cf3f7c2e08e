"""Recordings and bundles to log, and what the services' own files say was logged."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stormlog.session import SessionSummary

# Each must not be found in anything that was sent.
TOKEN = "hf_abcdefghijklmnopqrstuvw"
PASSWORD = "correct-horse"

SESSION = SessionSummary(
    session_id="0a1b2c3d-0000-4000-8000-000000000001",
    status="completed",
    started_at_ns=1_000_000_000_000,
    ended_at_ns=2_000_000_000_000,
    host="node7",
    pid=7,
    job_id="job-7",
    rank=1,
    local_rank=1,
    world_size=4,
    source="stormlog.test",
)

STATISTICS = {
    "peak_memory": 9_999,
    "total_events": 1_000,
    "alert_count": 300,
    "current_memory_allocated": None,
    "current_memory_reserved": float("nan"),
    "memory_utilization_percent": 12.5,
    "backend": "cuda",
    "collector_health_status": "degraded",
    "collector_last_error": f"refused {TOKEN}",
    "pruned_bytes": 0,
    "tracking_duration_seconds": 99.9,
}


def records(count: int = 1_000, alerts: int = 300) -> list[dict[str, Any]]:
    """A recording with one peak in the middle and its alerts at the end."""
    return [
        {
            "timestamp_ns": 1_000_000_000_000 + place * 100_000_000,
            "event_type": "warning" if place >= count - alerts else "sample",
            "context": f"password={PASSWORD}" if place % 2 else "<b>\x1b[31m",
            "allocator_allocated_bytes": 9_999 if place == 417 else place,
            "allocator_reserved_bytes": None,
            "allocator_change_bytes": 1,
            "device_used_bytes": 9_999 if place == 417 else place,
            "device_total_bytes": 20_000,
            "device_id": 0,
            "rank": 1,
            "job_id": "job-7",
            "metadata": {"api_key": PASSWORD},
        }
        for place in range(count)
    ]


def write_sink(folder: Path) -> Path:
    """A sink whose records hold secrets."""
    folder.mkdir()
    lines = [json.dumps(record) for record in records(4)]
    (folder / "segment-000001.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "manifest.json").write_text('{"schema_version": 2}')
    return folder


def write_bundle(folder: Path) -> Path:
    """A diagnose bundle with native history; its names, texts and links are hostile."""
    folder.mkdir()
    documents: dict[str, Any] = {
        "manifest.json": {
            "command_line": f"gpumemprof diagnose -- train --api-key {PASSWORD}",
            "exit_code": 2,
            "risk_detected": True,
            "native_history_enabled": True,
            "session": {"session_id": "../../etc", "job_id": f"job {TOKEN}", "rank": "1"},
        },
        "diagnostic_summary.json": {
            "allocated_bytes": 100,
            "reserved_bytes": "200",
            "peak_bytes": True,
            "total_bytes": None,
            "utilization_ratio": 0.5,
            "num_ooms": 1,
            "risk_flags": {"oom_occurred": True, "high_utilization": False, "a/../b": True, "n": 1},
            "suggestions": ["use less", 5, f"rotate {TOKEN}"] * 200,
        },
        "report.json": {"verdict": {"headline": "Memory ran out"}},
        "cuda_tensor_attribution.json": {
            "attributed_storage_pointers": [
                {
                    "storage_ptr": hex(place),
                    "names": ["<script>alert(1)</script>", "b", "c", "d"] if place else [],
                    "tensors": [{"shape": [place, 2], "dtype": "float32", "size_bytes": place}],
                }
                for place in range(300)
            ]
            + ["no storage"],
        },
        "cuda_native_debug_metadata.json": {"history_recorded": True},
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    (folder / "cuda_allocator_state_history_annotated.html").write_text("<html></html>")
    outside = folder.parent / "outside.txt"
    outside.write_text(PASSWORD)
    (folder / "link.json").symlink_to(outside)
    (folder / "cuda_allocation_attribution.json").symlink_to(outside)
    return folder


def secrets_in(folder: Path) -> list[Path]:
    """The files below a folder that hold a secret."""
    secrets = (TOKEN.encode(), PASSWORD.encode())
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if any(secret in path.read_bytes() for secret in secrets)]


class WandbRun:
    """What the file of an offline run says."""

    def __init__(self, folder: Path) -> None:
        from wandb.proto.wandb_internal_pb2 import Record

        (file,) = folder.glob("*.wandb")
        self.folder = folder
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.artifacts: dict[str, set[str]] = {}
        self.exit_code: int | None = None
        self.run: Any = None
        for data in _records_of(file.read_bytes()):
            record = Record()
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
            elif kind == "history":
                items = {_key(item): json.loads(item.value_json) for item in record.history.item}
                self.history.append({k: v for k, v in items.items() if not k.startswith("_")})
            elif kind == "summary":
                self.summary |= {
                    _key(item): json.loads(item.value_json) for item in record.summary.update
                }
            elif kind == "exit":
                self.exit_code = record.exit.exit_code
            elif kind == "request" and record.request.HasField("log_artifact"):
                self._add_artifact(record.request.log_artifact.artifact)
            elif kind == "artifact":
                self._add_artifact(record.artifact)

    def _add_artifact(self, artifact: Any) -> None:
        # W&B keeps each table as an artifact of its own.
        if not artifact.name.startswith("run-"):
            self.artifacts[artifact.name] = {entry.path for entry in artifact.manifest.contents}

    def logged(self, key: str) -> Any:
        """The values that were logged under ``key/``, in the only step that has any."""
        start = f"{key}/"
        (step,) = [step for step in self.history if any(name.startswith(start) for name in step)]
        return {name.removeprefix(start): value for name, value in step.items()}

    def table(self, key: str) -> dict[str, Any]:
        file = self.folder / "files" / self.logged(key)["path"]
        table: dict[str, Any] = json.loads(file.read_text())
        return table

    @property
    def timeline(self) -> list[dict[str, Any]]:
        return [step for step in self.history if "stormlog_timeline_elapsed_seconds" in step]


def only_run(home: Path) -> WandbRun:
    (folder,) = (home / "wandb").glob("offline-run-*")
    return WandbRun(folder)


def _records_of(log: bytes) -> Iterator[bytes]:
    """The records of a run's file: LevelDB's log format after seven bytes of W&B's own."""
    place, block = 7, 32_768
    parts = b""
    while place + 7 <= len(log):
        if block - place % block < 7:
            place += block - place % block
            continue
        _, length, kind = struct.unpack("<IHB", log[place : place + 7])
        parts += log[place + 7 : place + 7 + length]
        place += 7 + length
        # LevelDB's kinds of records: whole (1), first (2), middle (3), last (4).
        if kind in (1, 4):
            yield parts
            parts = b""


def _key(item: Any) -> str:
    return str(item.key or "/".join(item.nested_key))
