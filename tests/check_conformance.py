"""Replay the conformance kit and compare its failures with the documented differences.

    python tests/check_conformance.py

Exits 1 when a case fails that is not listed in conformance_differences.txt, or when a
listed one passes.
"""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def documented() -> dict[str, str]:
    """Patterns of case ids and the reasons why they fail."""
    lines = (HERE / "conformance_differences.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.split(maxsplit=1) for line in lines if line.strip() and line[0] != "#"]
    return dict(entries)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        subprocess.run(
            [sys.executable, str(HERE / "conformance" / "run.py"), "--json", str(results)]
        )
        outcomes = json.loads(results.read_text(encoding="utf-8"))
    failed = {case["id"] for case in outcomes["cases"] if not case["passed"]}
    known = documented()
    unexpected = sorted(
        case for case in failed if not any(fnmatch.fnmatch(case, name) for name in known)
    )
    fixed = [name for name in known if not any(fnmatch.fnmatch(case, name) for case in failed)]
    for case in unexpected:
        print(f"fails and is not documented: {case}")
    for name in fixed:
        print(f"documented as failing, but passes: {name}")
    print(f"{len(failed) - len(unexpected)} documented differences")
    return 1 if unexpected or fixed else 0


if __name__ == "__main__":
    sys.exit(main())
