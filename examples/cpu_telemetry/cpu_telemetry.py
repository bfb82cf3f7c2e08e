"""Telemetry of a process without a GPU: a sink that survives crashes, and a timeline."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from stormlog.cpu_profiler import CPUMemoryTracker
from stormlog.telemetry import load_telemetry_sessions
from stormlog.telemetry_sink import TelemetrySinkConfig


def main(folder: Path) -> None:
    sink = TelemetrySinkConfig(root_dir=folder / "sink", flush_every_seconds=0.5)
    tracker = CPUMemoryTracker(sampling_interval=0.02, telemetry_sink_config=sink)
    tracker.start_tracking()
    try:
        rows = []
        for _ in range(15):
            rows.append(bytearray(2 << 20))
            time.sleep(0.03)
    finally:
        tracker.stop_tracking()
    timeline = tracker.get_memory_timeline(interval=0.1)
    for moment, allocated in zip(timeline["timestamps"], timeline["allocated"]):
        print(f"{moment - timeline['timestamps'][0]:5.1f} s  {allocated / (1 << 20):7.1f} MB")
    (session,) = load_telemetry_sessions(folder / "sink")
    print(f"{len(session.events)} events stored, session {session.summary.status}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "cpu-example"))
