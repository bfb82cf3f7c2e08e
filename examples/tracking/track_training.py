"""Track a training loop, look at the numbers, and export the events.

Uses the GPU that PyTorch can use, else the memory of the process.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import stormlog


def train_one_step(kept: list[bytearray]) -> None:
    """Stands for a step: takes memory, keeps some of it."""
    batch = bytearray(8 << 20)
    kept.append(bytearray(1 << 20))
    time.sleep(0.02)
    del batch


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kept: list[bytearray] = []
    with stormlog.track(folder / "session", interval=0.01) as tracker:
        for step in range(20):
            with tracker.phase("train", metadata={"step": step}):
                train_one_step(kept)
    statistics = tracker.get_statistics()
    print(f"peak {stormlog.format_bytes(statistics['peak_memory'])}")
    print(f"{statistics['total_events']} events, {statistics['alert_count']} alerts")
    tracker.export_events(str(folder / "events.csv"), format="csv")
    tracker.export_events(str(folder / "events.json"), format="json")
    print(f"session in {folder / 'session'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tracking-example"))
