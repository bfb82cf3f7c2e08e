"""The programs under test, built by scripts/lake-test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LAKE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(LAKE / "tests"))

PROGRAM = Path(os.environ.get("STORMLOG_LAKE_PROGRAM", LAKE / "target/debug/stormlog-lake"))


class Program:
    """Runs stormlog-lake."""

    def __call__(
        self, *words: object, code: int = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(PROGRAM), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=600,
            env={**os.environ, **(env or {})},
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def json(self, *words: object, code: int = 0, env: dict[str, str] | None = None) -> dict:
        return json.loads(self(*words, "--json", code=code, env=env).stdout)


@pytest.fixture(scope="session")
def lake() -> Program:
    if not PROGRAM.is_file():
        pytest.fail(f"'{PROGRAM}' is not built; run scripts/lake-test")
    return Program()
