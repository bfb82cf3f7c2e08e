"""Runs a proof (a script that checks Stormlog with a real framework): in this interpreter if it has
the framework, else in a new virtual environment into which the framework is installed from the
package index.

The proof imports Stormlog from this checkout if it is built there (`maturin develop`), else the
installed one. Its last line of output is a list of questions and answers, which becomes a table. It
exits with 1 when a check fails. Not part of the tests: frameworks are some hundred megabytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import venv
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What every proof begins with: rows of the table, and a claim that must hold.
OPENING = """
import json, sys, tempfile, time
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import stormlog

rows = []

def show(what, seen, held=True):
    rows.append([what, seen])
    assert held, f"{what}: {seen}"
"""


def prove(framework: str, package: str, proof: str, purpose: str) -> int:
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--package", default=package, help="what to install where it is missing")
    parser.add_argument("--keep", type=Path, help="an environment to make here, or to use again")
    parser.add_argument("--fresh", action="store_true", help="make one although it is here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        python: str | Path = sys.executable
        installed = None
        if arguments.fresh or arguments.keep or not has(python, framework):
            folder = arguments.keep or Path(scratch) / "venv"
            python = folder / "bin" / "python"
            if not python.exists():
                venv.create(folder, with_pip=True)
            if not has(python, framework):
                begin = time.monotonic()
                install = [
                    python,
                    "-m",
                    "pip",
                    "install",
                    "-q",
                    "--no-cache-dir",
                    arguments.package,
                ]
                if subprocess.run(install).returncode != 0:
                    print(f"'{arguments.package}' cannot be installed here", file=sys.stderr)
                    return 1
                installed = time.monotonic() - begin
        done = subprocess.run(
            [python, "-c", OPENING + proof, str(home_of_stormlog())],
            stdout=subprocess.PIPE,
            text=True,
            cwd=scratch,
        )
        if done.returncode != 0:
            return 1
        print("| question | answer |\n|---|---|")
        if installed is not None:
            print(f"| installed from the package index | {arguments.package}, {installed:.0f} s |")
        for what, seen in json.loads(done.stdout.splitlines()[-1]):
            print(f"| {what} | {seen} |")
    return 0


def home_of_stormlog() -> Path:
    """The folder that has the package with its extension."""
    checkout = ROOT / "python"
    if any((checkout / "stormlog").glob("_core*.so")):
        return checkout
    found = find_spec("stormlog")
    if found is None or found.origin is None:
        sys.exit("Stormlog is neither built in this checkout nor installed")
    return Path(found.origin).parents[1]


def has(python: str | Path, framework: str) -> bool:
    return (
        subprocess.run([python, "-c", f"import {framework}"], capture_output=True).returncode == 0
    )
