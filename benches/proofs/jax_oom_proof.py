"""Show that errors of memory that a JAX program catches are recorded with line and operation.

    python benches/proofs/jax_oom_proof.py           # prints one JSON object, takes about 20 s

Needs Python 3.12 or later, JAX and the installed package; on a machine with a GPU the errors are
those of the device, else of host memory. Exits with 1 when something that is promised does not hold.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "out_of_memory" / "jax_caught.py"
_MARK = re.compile(r"# FAILS (\S+)$")
KEPT_BYTES = 64 * 1024 * 1024 * 4


def stormlog(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stormlog", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def expected() -> list[tuple[int, str]]:
    """The marked lines and their operations, in the order in which they fail."""
    lines = enumerate(PROGRAM.read_text().splitlines(), 1)
    return [(number, found[1]) for number, text in lines if (found := _MARK.search(text))]


def recorded(folder: Path) -> list[dict[str, Any]]:
    """The causes of the errors in a recording, in the order of time."""
    from stormlog.telemetry import load_telemetry_events

    sinks = sorted({path.parent for path in folder.rglob("segment-*.jsonl")})
    events = [event for sink in sinks for event in load_telemetry_events(sink)]
    errors = {event.timestamp_ns: event for event in events if event.event_type == "error"}
    return [errors[at].metadata["oom"]["cause"] for at in sorted(errors)]


def main() -> int:
    checks: dict[str, bool] = {}
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "run"
        ran = stormlog("run", "--dir", str(folder), "--", sys.executable, str(PROGRAM))
        checks["the program caught both errors and ended with 0"] = (
            ran.returncode == 0 and ran.stdout == "caught 2, went on\n"
        )
        causes = recorded(folder)
        places = [(cause["site"]["line"], cause["operation"]) for cause in causes]
        # A GPU reports the error where the program waits: `jnp.ones(…).block_until_ready`.
        checks["each error is recorded once, with its line and operation"] = [
            line for line, _ in places
        ] == [line for line, _ in expected()] and all(
            found.startswith(called) for (_, found), (_, called) in zip(places, expected())
        )
        checks["the lines are the program's"] = all(
            cause["site"]["file"] == str(PROGRAM) for cause in causes
        )
        held = [
            sum(one["bytes"] for one in cause.get("holders", []) if "`kept`" in one["holder"])
            for cause in causes
        ]
        checks["`kept` is a holder"] = bool(held) and min(held) >= KEPT_BYTES
        shown = stormlog("analyze", str(folder))
        text = " ".join(shown.stdout.split())
        line, operation = expected()[-1]
        checks["analyze names line and operation"] = (
            f"jax_caught.py:{line}" in text and f"`{operation}" in text and "went on" in text
        )
        report = json.loads(stormlog("analyze", str(folder), "--format", "json").stdout)
        found = [(one["kind"], one["severity"]) for one in report["findings"]]
        checks["nothing else is found, and nothing critical"] = bool(found) and all(
            kind == "oom_risk" and severity != "critical" for kind, severity in found
        )
        seconds = [cause.get("seconds") for cause in causes]
        checks["an inspection takes at most 2 s"] = all(
            one is not None and one < 2.0 for one in seconds
        )
        result = {
            "checks": checks,
            "python": sys.version.split()[0],
            "places": places,
            "kept_bytes": held,
            "seconds": seconds,
            "analyze": shown.stdout,
            "stderr": ran.stderr[-2000:],
        }
    print(json.dumps(result, indent=1))
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
