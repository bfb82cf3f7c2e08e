"""Write a sink of realistic telemetry: one session per rank, records of about 680 bytes.

python benches/speed/make_sink.py DIRECTORY --events 1000000 --ranks 8
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path

GIB = 1 << 30
SEGMENT_EVENTS = 10_000
START_NS = 1_794_726_516_168_924_406


def record(rank: int, ranks: int, step: int, rng: random.Random) -> dict[str, object]:
    """One sample of one rank; allocation swings with the step, reserved stays."""
    total = 150_109_880_320
    allocated = 40 * GIB + rng.randrange(6 * GIB)
    reserved = 47 * GIB
    used = reserved + 770 * (1 << 20)
    return {
        "schema_version": 3,
        "session_id": f"0fe8fb8a-41a2-492c-9980-4a7f3d59{rank:04x}",
        "timestamp_ns": START_NS + step * 100_000_000 + rng.randrange(4_000_000),
        "event_type": "sample",
        "collector": "stormlog.cuda_tracker",
        "sampling_interval_ms": 100,
        "pid": 4000 + rank,
        "host": f"node-{rank // 8:03d}",
        "job_id": "pretrain-7b",
        "rank": rank,
        "local_rank": rank % 8,
        "world_size": ranks,
        "device_id": rank % 8,
        "allocator_allocated_bytes": allocated,
        "allocator_reserved_bytes": reserved,
        "allocator_active_bytes": allocated,
        "allocator_inactive_bytes": reserved - allocated,
        "allocator_change_bytes": 0,
        "device_used_bytes": used,
        "device_free_bytes": total - used,
        "device_total_bytes": total,
        "context": "Collected telemetry sample.",
        "metadata": {"backend": "cuda", "step": step},
    }


def write_sink(
    directory: Path,
    events: int,
    ranks: int,
    make: Callable[[int, int, int, random.Random], dict[str, object]] = record,
) -> None:
    """Segments of one session each, as recorders of several ranks leave them."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    sessions, segments = [], []
    per_rank = events // ranks
    for rank in range(ranks):
        first = make(rank, ranks, 0, rng)
        last = None
        for begin in range(0, per_rank, SEGMENT_EVENTS):
            name = f"segment-{len(segments) + 1:06d}.jsonl"
            count = min(SEGMENT_EVENTS, per_rank - begin)
            lines = []
            for step in range(begin, begin + count):
                last = make(rank, ranks, step, rng)
                lines.append(json.dumps(last, sort_keys=True) + "\n")
            text = "".join(lines)
            (directory / name).write_text(text, encoding="utf-8")
            segments.append(
                {
                    "filename": name,
                    "event_count": count,
                    "size_bytes": len(text),
                    "closed": True,
                    "session_id": first["session_id"],
                }
            )
        assert last is not None
        sessions.append(
            {
                "session_id": first["session_id"],
                "status": "completed",
                "started_at_ns": first["timestamp_ns"],
                "ended_at_ns": last["timestamp_ns"],
                "host": first["host"],
                "pid": first["pid"],
                "job_id": first["job_id"],
                "rank": rank,
                "local_rank": first["local_rank"],
                "world_size": ranks,
                "source": "stormlog.tracker",
            }
        )
    manifest = {
        "schema_version": 2,
        "format": "stormlog.append_only_telemetry_sink",
        "sessions": sessions,
        "segments": segments,
    }
    (directory / "manifest.json").write_text(
        json.dumps(manifest, indent=2) + "\n", encoding="utf-8"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=8)
    options = parser.parse_args()
    write_sink(options.directory, options.events, options.ranks)


if __name__ == "__main__":
    main()
