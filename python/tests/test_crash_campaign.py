"""Three hundred processes killed in every mode of recording: nothing acknowledged is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CAMPAIGN = Path(__file__).resolve().parents[2] / "benches" / "robustness" / "crash_campaign.py"


def test_nothing_acknowledged_is_lost_by_three_hundred_kills(tmp_path: Path) -> None:
    # A process of its own: victims are forked from one that has no threads.
    command = [sys.executable, str(CAMPAIGN), "--kills", "300", "--seed", "4711", "--json"]
    ended = subprocess.run(
        [*command, "--dir", str(tmp_path)], capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    result = json.loads(ended.stdout)
    assert result["failures"] == []
    assert sum(result["kills"].values()) >= 300
    assert all(result["kills"].values()), "every mode has its share"
    assert sum(result["acknowledged"].values()) > 300
