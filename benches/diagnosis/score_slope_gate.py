"""How often `stormlog compare --max-slope` fails on labelled traces, each compared with itself.

    python benches/diagnosis/score_slope_gate.py DIRECTORY... [--program stormlog] [--limit 10MB/min ...]

Each DIRECTORY holds traces.json and labels.json as make_traces.py writes them. A clean run should
pass; a run that leaks or drifts should fail unless it truly grows slower than the limit.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = json.loads((ROOT / "docs/schemas/kinds.json").read_text())
GROWING = {kind["kind"] for kind in KINDS if kind["is_growth"]}


def exit_code(program: list[str], trace: Path, limit: str) -> int:
    """The exit code of comparing a trace with itself: 2 when the gate fails."""
    command = [*program, "compare", str(trace), str(trace), "--max-slope", limit]
    return subprocess.run(command, capture_output=True).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, nargs="+")
    parser.add_argument("--program", default="stormlog")
    parser.add_argument("--limit", nargs="+", default=["10MB/min", "100MB/min"])
    arguments = parser.parse_args()
    program = shlex.split(arguments.program)
    for limit in arguments.limit:
        codes: dict[str, list[int]] = {"clean": [], "growing": []}
        for directory in arguments.directory:
            files = json.loads((directory / "traces.json").read_text())
            for name, info in json.loads((directory / "labels.json").read_text())["traces"].items():
                growing = any(finding["kind"] in GROWING for finding in info["findings"])
                if info["clean"] or growing:
                    code = exit_code(program, directory / files[name]["file"], limit)
                    codes["growing" if growing else "clean"].append(code)
        results = (
            f"{kind} failed {all_of.count(2)} of {len(all_of)}" for kind, all_of in codes.items()
        )
        unjudged = sum(all_of.count(1) for all_of in codes.values())
        print(f"{limit}: {', '.join(results)}, could not be judged {unjudged}")


if __name__ == "__main__":
    main()
