"""Stormlog 0.3.9, installed into a scratch environment of this checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REQUIREMENTS = ["stormlog==0.3.9", "psutil", "numpy", "scipy"]
ENVIRONMENT = Path(__file__).resolve().parents[3] / ".venv-reference"


def interpreter() -> str:
    """The interpreter that has stormlog 0.3.9; installs it when it is not there yet."""
    python = ENVIRONMENT / "bin" / "python"
    installed = ENVIRONMENT / "installed"
    wanted = "\n".join(REQUIREMENTS)
    if not installed.exists() or installed.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        # What is compared needs none of its other dependencies.
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", *REQUIREMENTS]
        subprocess.run(install, check=True)
        installed.write_text(wanted)
    return str(python)
