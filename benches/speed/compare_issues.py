"""Ask ours and stormlog 0.3.9 for the issues of one sink; print times and ratios.

    python benches/speed/compare_issues.py [--events 500000] [--ranks 64] [--rounds 20]

Three sinks with two issues each: a few events of two kinds, events of two kinds in every hundredth
sample, and hidden memory that grows and jumps in every rank. Needs an interpreter with the release build.
`cold` opens the sink and lists its issues in a new process; `warm` lists them again, with
the events in memory, which is how stormlog 0.3.9 caches. The best of the rounds counts on both
sides; a question that takes more than two seconds is asked once. The issues must be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from compare_load import reference_python
from compare_query import python
from make_sink import GIB, record, write_sink

Record = dict[str, object]

ASK = """
import json, sys, time
import stormlog.query as query
path, rounds = sys.argv[1], int(sys.argv[2])
def timed(question):
    start = time.perf_counter()
    answer = question()
    return time.perf_counter() - start, answer
cold, issues = timed(lambda: query.open([path]).list_issues())
store = query.open([path])
warm, issues = timed(store.list_issues)
for _ in range(rounds if warm < 2 else 1):
    took, issues = timed(store.list_issues)
    warm = min(took, warm)
    if took > 2:
        break
print(json.dumps({"cold": cold, "warm": warm, "issues": [
    [issue.kind, issue.fingerprint_id, len(issue.evidence), issue.affected_sessions] for issue in issues]}))
"""


def warning(event: Record) -> None:
    """Turn a sample into an alert."""
    event["event_type"] = "warning"
    event["context"] = "Memory usage above 80 percent"


def degradation(event: Record) -> None:
    """Turn a sample into a report of a collector that reads too little."""
    event["event_type"] = "collector_degraded"
    event["metadata"] = {
        "backend": "cuda",
        "collector_health_status": "degraded",
        "collector_last_error": "nvml timed out",
        "collector_partial_fields": ["device_used_bytes"],
    }


def few(event: Record, step: int, rng: random.Random) -> None:
    """Twenty events in all, of two ranks."""
    if event["rank"] in (3, 40) and step % 800 == 700:
        (warning if event["rank"] == 3 else degradation)(event)


def many(event: Record, step: int, rng: random.Random) -> None:
    """Every hundredth event of every rank."""
    if step % 100 == 50:
        (warning if step % 200 == 50 else degradation)(event)


def hidden(event: Record, step: int, rng: random.Random) -> None:
    """Memory outside the allocator grows along a line, with jumps."""
    used = (
        int(str(event["device_used_bytes"]))
        + step * (1 << 20) * 4
        + (GIB * 30 if step % 500 == 499 else 0)
    )
    event["device_used_bytes"] = used
    event["device_free_bytes"] = int(str(event["device_total_bytes"])) - used


def make(
    directory: Path, events: int, ranks: int, change: Callable[[Record, int, random.Random], None]
) -> None:
    """A sink whose records are changed before they are written."""
    write_sink(directory, events, ranks, lambda *arguments: changed(change, *arguments))


def changed(
    change: Callable[[Record, int, random.Random], None],
    rank: int,
    ranks: int,
    step: int,
    rng: random.Random,
) -> Record:
    """One record after its change."""
    event = record(rank, ranks, step, rng)
    change(event, step, rng)
    return event


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="stormlog-issues-"))
    reference = Path(os.environ.get("STORMLOG_REFERENCE") or reference_python())
    try:
        print("| two issues | | stormlog 0.3.9, s | ours, s | times faster |")
        print("|---|---|---|---|---|")
        cases = {
            "of 20 events": few,
            "of every hundredth event": many,
            "hidden memory of all ranks": hidden,
        }
        for name, change in cases.items():
            sink = scratch / change.__name__
            make(sink, options.events, options.ranks, change)
            theirs = python(reference, ASK, str(sink), str(options.rounds))
            ours = python(sys.executable, ASK, str(sink), str(options.rounds))
            assert ours["issues"] == theirs["issues"], (ours["issues"], theirs["issues"])
            assert len(ours["issues"]) == 2, json.dumps(ours["issues"])[:1000]
            for kind in ("cold", "warm"):
                before, after = float(str(theirs[kind])), float(str(ours[kind]))
                print(
                    f"| {name} | {kind} | {before:.3f} | {after:.4f} | {before / after:.0f} |",
                    flush=True,
                )
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
