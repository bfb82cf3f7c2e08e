"""Show that an out-of-memory error on a real GPU names its line and what held the memory.

    python benches/proofs/oom_proof.py > report.md

Needs an NVIDIA GPU, PyTorch and the installed package; takes about a minute. Each program runs out
of memory under ``stormlog run`` without any flag. The line is the one marked ``# FAILS`` (or one of
the program's own lines where any may fail), the named bytes are compared with PyTorch's counter at
that moment. Exits with 1 when something that is promised does not hold.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
# The program, its category with most bytes, what its largest holder contains, and the exit code.
PROGRAMS = [
    ("out_of_memory/long_sequence.py", "activations", "the autograd graph", 1),
    ("out_of_memory/backward.py", "parameters", "`model` in `__main__`", 0),
    ("out_of_memory/kept_for_later.py", "other_named", "`evaluation.outputs` in `main`", 1),
    ("tuned/losses_to_oom.py", "activations", "`penalties` in `__main__`", 1),
    ("tuned/fragmentation_oom.py", "other_named", "`bank` in `__main__`", 1),
]
LEAST_SHARE = 0.9
LONGEST_INSPECTION_S = 2.0

failures: list[str] = []


def check(holds: bool, claim: str) -> None:
    if not holds:
        failures.append(claim)
    print(f"- {'yes' if holds else '**NO**'}: {claim}")


def marked_line(program: Path) -> int | None:
    lines = enumerate(program.read_text().splitlines(), 1)
    return next((number for number, text in lines if text.endswith("# FAILS")), None)


def stormlog(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stormlog", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def show(name: str, category: str, holder: str, code: int, root: Path) -> None:
    program, folder = PROGRAMS / name, root / Path(name).stem
    print(f"\n## {name}\n", flush=True)
    ran = stormlog("run", "--dir", str(folder), "--", sys.executable, str(program))
    check(ran.returncode == code, f"exit code {ran.returncode}")
    report = json.loads(stormlog("analyze", str(folder), "--format", "json").stdout)
    print(f"\n> {report['verdict']['headline']}\n")
    found = [one for one in report["findings"] if one["kind"] == "oom_risk" and one["cause"]]
    check(bool(found), "the error has a cause")
    if not found:
        print(ran.stderr[-2000:])
        return
    cause: dict[str, Any] = found[0]["cause"]
    site, failure = cause["site"], cause["failure"]
    place = f"{Path(site['file']).name}:{site['line']}"
    line = marked_line(program)
    if line is not None:
        check(site["file"] == str(program) and site["line"] == line, f"the line is {place}")
    else:
        check(
            Path(site["file"]).is_relative_to(PROGRAMS), f"the line is the program's own: {place}"
        )
    check(place in report["verdict"]["headline"], "the headline has the line")
    allocated = failure["allocated_bytes"]
    named = sum(size for name, size in failure["categories"].items() if name != "unnamed")
    check(
        named >= LEAST_SHARE * allocated,
        f"{named / allocated:.1%} of {allocated:,} bytes have names",
    )
    check(named <= 1.001 * allocated, "no storage is counted twice")
    largest = max(failure["categories"], key=failure["categories"].__getitem__)
    check(largest == category, f"most bytes are {largest}")
    first = failure["holders"][0]["holder"]
    check(holder in first, f"the largest holder is {first}")
    for metadata in folder.glob("**/oom_dumps/*/metadata.json"):
        inspected = json.loads(metadata.read_text())["custom_metadata"]["cause"]
        seconds = inspected["seconds"]
        check(seconds < LONGEST_INSPECTION_S, f"the inspection took {seconds} s")
        print(
            "\n```json\n"
            + json.dumps(
                {
                    "operation": inspected["operation"],
                    "categories": inspected["categories"],
                    "holders": inspected["holders"][:5],
                    "call_path": inspected["call_path"][:3],
                },
                indent=1,
            )
            + "\n```"
        )


def main() -> int:
    chosen = [one for one in PROGRAMS if not sys.argv[1:] or Path(one[0]).stem in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as root:
        for name, category, holder, code in chosen:
            show(name, category, holder, code, Path(root))
    print(f"\n{len(failures)} of the promises do not hold")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
