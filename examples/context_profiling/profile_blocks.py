"""Measure functions and blocks, with a tracker beside them."""

from __future__ import annotations

import time

from stormlog.cpu_profiler import CPUMemoryProfiler, CPUMemoryTracker
from stormlog.utils import format_bytes


def load(kept: list[bytearray]) -> None:
    kept.append(bytearray(32 << 20))


def main() -> None:
    profiler = CPUMemoryProfiler()
    kept: list[bytearray] = []
    with CPUMemoryTracker(sampling_interval=0.02) as tracker:
        profiler.profile_function(load, kept)
        with profiler.profile_context("work"):
            scratch = bytearray(16 << 20)
            time.sleep(0.1)
            del scratch
    for result in profiler.results:
        print(
            f"{result.name:6} {format_bytes(result.memory_diff()):>10} in {result.duration:.3f} s"
        )
    print(f"tracked peak {format_bytes(tracker.get_statistics()['peak_memory'])}")


if __name__ == "__main__":
    main()
