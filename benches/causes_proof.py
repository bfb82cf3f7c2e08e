"""Show which line or holder `stormlog analyze` names for faulty programs on a GPU, and the evidence.

    python benches/causes_proof.py [--seconds 50] [PROGRAM ...] > causes.json

Runs programs of benches/programs one after the other under ``stormlog run`` without flags and prints
one JSON object. Without names it runs the two programs whose leak was found on 2026-11-16 but whose
cause was not named. The marked lines of a program are ``# CULPRIT`` (the line that allocates) and
``# CULPRIT-HOLDER`` (the line with the name of the holder). Exits with 1 when a name is wrong or
missing. Needs a GPU, PyTorch and the installed package.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
UNNAMED = ["optimizer_recreated", "val_losses_graph"]


def stormlog(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stormlog", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)


def evidence_of(folder: Path) -> list[dict[str, Any]]:
    """The last evidence of every search on a device."""
    found = []
    for segment in sorted(folder.glob("segment-*.jsonl")):
        for line in segment.read_text().splitlines():
            if '"memory_evidence"' in line:
                found.append(json.loads(line)["metadata"]["evidence"])
    ended = [one for one in found if one["state"] == "ended"]
    return ended or found[-1:]


def is_right(program: Path, cause: dict[str, Any]) -> bool:
    """Whether the named line or holder is a marked one."""
    marked = {"line": set(), "holder": ""}
    for number, text in enumerate(program.read_text().splitlines(), 1):
        if text.rstrip().endswith("# CULPRIT"):
            marked["line"].add(number)
        elif text.rstrip().endswith("# CULPRIT-HOLDER"):
            marked["holder"] += text
    site, holder = cause["site"], cause["holder"]
    names = re.findall(r"`(\w+)", holder or "")
    by_holder = any(re.search(rf"\b{name}\b", marked["holder"]) for name in names)
    calls = [site, *cause["call_path"]] if site else []
    by_line = any(
        call["file"] == str(program) and call["line"] in marked["line"] for call in calls
    )
    return by_holder or by_line


def judged(name: str, seconds: str, root: Path) -> dict[str, Any]:
    program, folder = PROGRAMS / f"{name}.py", root / name
    env = {**os.environ, "SCENARIO_S": seconds}
    ran = stormlog("run", "--dir", str(folder), "--", sys.executable, str(program), env=env)
    report = json.loads(stormlog("analyze", str(folder), "--format", "json").stdout)
    causes = [one["cause"] for one in report["findings"] if one["cause"]]
    return {
        "exit": ran.returncode,
        "headline": report["verdict"]["headline"],
        "named": bool(causes),
        "right": bool(causes) and all(is_right(program, cause) for cause in causes),
        "causes": causes,
        "evidence": evidence_of(folder),
        "stderr": ran.stderr[-1000:],
    }


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", default="50", help="how long each program runs")
    arguments.add_argument("--keep", type=Path, help="keep the recordings in this directory")
    arguments.add_argument("programs", nargs="*", default=UNNAMED)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = options.keep or Path(name)
        result = {one: judged(one, options.seconds, root) for one in options.programs}
    print(json.dumps(result, indent=1))
    return 0 if all(one["right"] for one in result.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
