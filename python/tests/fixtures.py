"""Where the run folders that every language loads are."""

from __future__ import annotations

from pathlib import Path

RUNS = Path(__file__).resolve().parents[2] / "fixtures" / "runs"
SESSION = "7f3a0000-0000-4000-8000-000000000001"


def run(name: str) -> Path:
    """A file or folder of `fixtures/runs`."""
    path = RUNS / name
    assert path.exists(), path
    return path
