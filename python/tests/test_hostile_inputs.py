"""Hostile and enormous inputs: every reading command refuses or reads them within bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

INPUTS = Path(__file__).resolve().parents[2] / "benches" / "robustness" / "hostile_inputs.py"


def test_every_command_refuses_or_reads_every_input_in_bounds(tmp_path: Path) -> None:
    # A process of its own: the memory of the process that starts a command counts as the command's.
    command = [sys.executable, str(INPUTS), "--quick", "--json", "--seconds", "120"]
    ended = subprocess.run(
        [*command, "--dir", str(tmp_path)], capture_output=True, text=True, timeout=1800
    )
    assert ended.stdout, ended.stderr
    result = json.loads(ended.stdout)
    assert result["failures"] == []
    assert ended.returncode == 0, ended.stderr
    assert result["cells"] >= 200
