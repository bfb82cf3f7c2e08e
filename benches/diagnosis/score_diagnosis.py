"""Scores `stormlog analyze` on labelled traces.

    python benches/diagnosis/score_diagnosis.py DIRECTORY [--program stormlog] [--predictions FILE]

DIRECTORY holds traces.json (the input list) and labels.json (the truth). Prints the table of
fixtures/diagnosis/score.py, then recall by kind and difficulty, how right confidences are, and
onset errors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import shlex
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SCORE = Path(__file__).resolve().parents[2] / "fixtures/diagnosis/score.py"
BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.000001)


def predict(program: list[str], trace: Path, hours: float) -> list[dict[str, Any]]:
    """The findings of one trace, as the score wants them."""
    command = [*program, "analyze", str(trace), "--oom-horizon", str(hours), "--format", "json"]
    done = subprocess.run(command, capture_output=True, check=True)
    keys = ("kind", "rank", "onset_ns", "confidence")
    findings = json.loads(done.stdout)["findings"]
    # Growth that fills the memory soon includes a risk, which has no onset.
    risks = [
        {**found, "kind": kind, "onset_ns": None} for found in findings for kind in found["also"]
    ]
    return [{key: found[key] for key in keys} for found in [*findings, *risks]]


def matches(label: dict[str, Any], found: dict[str, Any], info: dict[str, Any]) -> bool:
    """Whether a finding is what a label says, by the score's rules."""
    if label["kind"] != found["kind"]:
        return False
    one_rank = info["world_size"] <= 1 or label.get("rank") is None
    if not one_rank and label["rank"] != found["rank"]:
        return False
    error = onset_error(label, found)
    tolerance = max(0.05 * (info["end_ns"] - info["start_ns"]), 20 * info["sample_interval_ns"])
    return error is None or error <= tolerance


def onset_error(label: dict[str, Any], found: dict[str, Any]) -> float | None:
    """How far off an onset is, in nanoseconds; None where the kind has none."""
    if label.get("onset_ns") is None:
        return None
    if found["onset_ns"] is None:
        return math.inf
    first, last = label["onset_ns"], label.get("onset_last_ns", label["onset_ns"])
    onset = found["onset_ns"]
    return max(first - onset, onset - last, 0)


def calibration(
    predictions: dict[str, Any], traces: dict[str, Any]
) -> list[tuple[str, int, float, float]]:
    """Per bin of confidence: how many findings, their mean confidence, and how many were right."""
    rows = []
    for low, high in itertools.pairwise(BINS):
        said, right = [], 0
        for name, found in predictions.items():
            info = traces[name]
            labels = info["findings"] + info.get("optional", [])
            for one in found:
                if low <= one["confidence"] < high:
                    said.append(one["confidence"])
                    right += any(matches(label, one, info) for label in labels)
        if said:
            rows.append(
                (
                    f"{low:.2f} to {min(high, 1):.2f}",
                    len(said),
                    statistics.fmean(said),
                    right / len(said),
                )
            )
    return rows


def recall_table(
    predictions: dict[str, Any], traces: dict[str, Any]
) -> dict[str, dict[str, list[int]]]:
    """Found and labelled, per kind and difficulty."""
    table: dict[str, dict[str, list[int]]] = {}
    for name, info in traces.items():
        for label in info["findings"]:
            cell = table.setdefault(label["kind"], {}).setdefault(info["difficulty"], [0, 0])
            cell[0] += any(matches(label, one, info) for one in predictions.get(name, []))
            cell[1] += 1
    return table


def onset_errors(predictions: dict[str, Any], traces: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds off, per kind, of what was found."""
    errors: dict[str, list[float]] = {}
    for name, info in traces.items():
        for label in info["findings"]:
            near = [
                onset_error(label, one)
                for one in predictions.get(name, [])
                if matches(label, one, info)
            ]
            known = [error for error in near if error is not None]
            if known:
                errors.setdefault(label["kind"], []).append(min(known) / 1e9)
    return errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--program", default=f"{shlex.quote(sys.executable)} -m stormlog")
    parser.add_argument("--predictions", type=Path, default=Path("predictions.json"))
    arguments = parser.parse_args()
    listed = json.loads((arguments.directory / "traces.json").read_text())
    truth = json.loads((arguments.directory / "labels.json").read_text())["traces"]
    program = shlex.split(arguments.program)

    def one(item: tuple[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        name, entry = item
        return name, predict(
            program, arguments.directory / entry["file"], entry["oom_horizon_hours"]
        )

    with ThreadPoolExecutor(2) as pool:
        predictions = dict(pool.map(one, listed.items()))
    arguments.predictions.write_text(json.dumps(predictions))
    score = [sys.executable, str(SCORE), str(arguments.predictions),
             "--labels", str(arguments.directory / "labels.json")]  # fmt: skip
    table = recall_table(predictions, truth)
    print("found of labelled, by kind and difficulty")
    for kind in sorted(table):
        cells = [
            f"{level} {'/'.join(map(str, table[kind].get(level, [0, 0])))}"
            for level in ("easy", "medium", "hard")
        ]
        print(f"  {kind:18}", "  ".join(cells))
    print("confidence: said, mean, right")
    for name, count, mean, right in calibration(predictions, truth):
        print(f"  {name:13} {count:4}  {mean:.3f}  {right:.3f}")
    print("onset error in seconds: median, 90th percentile")
    for kind, errors in sorted(onset_errors(predictions, truth).items()):
        ordered = sorted(errors)
        tenth = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
        print(f"  {kind:18} {statistics.median(ordered):10.2f} {tenth:10.2f}")
    sys.stdout.flush()
    return subprocess.run(score, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
