"""Kills ingests at random moments while sinks grow, and counts what is lost or doubled.

    python lake/benches/kill_ingest.py [--kills 100] [--program lake/target/debug/stormlog-lake] [--seed 1]

Needs the PyPI package deltalake. Prints JSON; exits with 1 when a row is lost or doubled.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAKE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(LAKE / "tests"))

from deltalake import DeltaTable  # noqa: E402

from recordings import Sink  # noqa: E402


def rows(lake: Path, table: str) -> list[tuple[str, int]]:
    found = DeltaTable(lake / table).to_pyarrow_table(columns=["source_id", "timestamp_ns"])
    return list(zip(found["source_id"].to_pylist(), found["timestamp_ns"].to_pylist()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--sinks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=str(LAKE / "target/debug/stormlog-lake"))
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        runs, lake = Path(folder, "runs"), Path(folder, "lake")
        sinks = [Sink(runs / f"{rank}", f"session-{rank}", rank) for rank in range(arguments.sinks)]
        command = [arguments.program, "ingest", str(runs), "--to", str(lake)]
        killed = ended = 0
        # How long a whole ingest takes, so that kills fall anywhere in it.
        began = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        longest = 1.2 * (time.monotonic() - began)
        for _ in range(arguments.kills):
            for sink in sinks:
                sink.sample(chance.randrange(1, 200))
                sink.note()
                if chance.random() < 0.1:
                    sink.roll()
            started = time.monotonic()
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            try:
                process.wait(chance.uniform(0.0, longest))
                ended += 1
                longest = max(0.2, 1.2 * (time.monotonic() - started))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                killed += 1
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        samples, events = rows(lake, "samples"), rows(lake, "events")
        doctor = subprocess.run(
            [arguments.program, "doctor", "--at", str(lake), "--json"],
            capture_output=True,
            text=True,
        )
        result = {
            "kills": killed,
            "ended_before": ended,
            # Commits of tables that lag behind show where kills fell.
            "commits": {
                table: DeltaTable(lake / table).version()
                for table in ("samples", "events", "rollups", "runs", "sources")
            },
            "samples": sum(sink.samples for sink in sinks),
            "events": sum(sink.events for sink in sinks),
            "lost": sum(s.samples + s.events for s in sinks) - len(set(samples)) - len(set(events)),
            "doubled": len(samples) - len(set(samples)) + len(events) - len(set(events)),
            "problems": json.loads(doctor.stdout)["problems"],
        }
    print(json.dumps(result, indent=2))
    if result["lost"] or result["doubled"] or result["problems"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
