"""Makes the records of a run of many ranks: one JSONL file, rank after rank.

python benches/speed/make_ranks.py FILE [--ranks 4096] [--samples 250]
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

GIB = 1 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--samples", type=int, default=250)
    arguments = parser.parse_args()
    total = 80 * GIB
    with arguments.file.open("w") as out:
        for rank in range(arguments.ranks):
            noise = random.Random(rank)
            start = 1_767_225_600_000_000_000 + noise.randint(-(10**8), 10**8)
            for n in range(arguments.samples):
                step = n % 10
                allocated = 30 * GIB + step * GIB // 2 + noise.randint(0, 1 << 24)
                reserved = 38 * GIB
                used = reserved + GIB + noise.randint(0, 1 << 22)
                out.write(
                    f'{{"schema_version": 3, "session_id": "run-r{rank}", "timestamp_ns": {start + n * 10**9}, '
                    f'"event_type": "sample", "collector": "stormlog.cuda_tracker", "sampling_interval_ms": 1000, '
                    f'"pid": {1000 + rank}, "host": "node-{rank // 8}", "job_id": "job-big", "rank": {rank}, '
                    f'"local_rank": {rank % 8}, "world_size": {arguments.ranks}, "device_id": {rank % 8}, '
                    f'"allocator_allocated_bytes": {allocated}, "allocator_reserved_bytes": {reserved}, '
                    f'"allocator_active_bytes": {allocated}, "allocator_inactive_bytes": 0, "allocator_change_bytes": 0, '
                    f'"device_used_bytes": {used}, "device_free_bytes": {total - used}, "device_total_bytes": {total}, '
                    f'"context": null, "metadata": {{"backend": "cuda", "step": {n}}}}}\n'
                )


if __name__ == "__main__":
    main()
