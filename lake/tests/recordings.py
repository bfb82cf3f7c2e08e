"""Recordings for the tests: sinks as a recorder writes them, line by line."""

from __future__ import annotations

import json
from pathlib import Path

START_NS = 1_794_800_000_000_000_000
SECOND_NS = 1_000_000_000


def event(
    session: str, number: int, event_type: str = "sample", rank: int = 0, **metadata: object
) -> str:
    """One line; the counters follow from the number, so that sums identify rows."""
    record = {
        "allocator_active_bytes": None,
        "allocator_allocated_bytes": 1_000_000 + 1_000 * number,
        "allocator_change_bytes": 0,
        "allocator_inactive_bytes": None,
        "allocator_reserved_bytes": 2_000_000 + 1_000 * number,
        "collector": "stormlog.cuda_tracker",
        "context": None,
        "device_free_bytes": 10_000_000,
        "device_id": 0,
        "device_total_bytes": 20_000_000,
        "device_used_bytes": 5_000_000,
        "event_type": event_type,
        "host": "node-1",
        "job_id": None,
        "local_rank": rank,
        "metadata": {"backend": "cuda", **metadata},
        "pid": 100 + rank,
        "rank": rank,
        "sampling_interval_ms": 1000,
        "schema_version": 3,
        "session_id": session,
        "timestamp_ns": START_NS + number * SECOND_NS,
        "world_size": 8,
    }
    record["metadata"] = dict(sorted(record["metadata"].items()))
    return json.dumps(record) + "\n"


class Sink:
    """A sink that grows: segments, and a manifest that lists them."""

    def __init__(self, path: Path, session: str, rank: int = 0) -> None:
        path.mkdir(parents=True)
        self.path, self.session, self.rank = path, session, rank
        self.segments: list[int] = []
        self.number = 0
        self.samples = 0
        self.events = 0
        self.roll()
        self._append([event(session, 0, "start", rank)])
        self.events += 1

    def roll(self) -> None:
        self.segments.append(0)

    @property
    def segment(self) -> Path:
        return self.path / f"segment-{len(self.segments):06d}.jsonl"

    def _append(self, lines: list[str]) -> None:
        with self.segment.open("a") as file:
            file.write("".join(lines))
        self.segments[-1] += len(lines)
        self.number += len(lines)
        self.flush("running")

    def sample(self, count: int) -> None:
        numbers = range(self.number, self.number + count)
        self._append(
            [event(self.session, n, "sample", self.rank, step=n, step_count=n) for n in numbers]
        )
        self.samples += count

    def note(self, event_type: str = "warning") -> None:
        self._append([event(self.session, self.number, event_type, self.rank)])
        self.events += 1

    def flush(self, status: str) -> None:
        last = START_NS + self.number * SECOND_NS
        session = {
            "session_id": self.session,
            "status": status,
            "started_at_ns": START_NS,
            "ended_at_ns": None if status == "running" else last,
            "host": "node-1",
            "pid": 100 + self.rank,
            "job_id": None,
            "rank": self.rank,
            "local_rank": self.rank,
            "world_size": 8,
            "source": "stormlog.cuda_tracker",
        }
        segments = [
            {
                "filename": f"segment-{number:06d}.jsonl",
                "event_count": count,
                "session_id": self.session,
                "size_bytes": (self.path / f"segment-{number:06d}.jsonl").stat().st_size,
                "closed": number < len(self.segments),
            }
            for number, count in enumerate(self.segments, 1)
            if count
        ]
        document = {
            "schema_version": 2,
            "format": "stormlog.append_only_telemetry_sink",
            "sessions": [session],
            "segments": segments,
        }
        partial = self.path / ".manifest.tmp"
        partial.write_text(json.dumps(document))
        partial.rename(self.path / "manifest.json")

    def close(self) -> None:
        self._append([event(self.session, self.number, "stop", self.rank)])
        self.events += 1
        self.flush("completed")
