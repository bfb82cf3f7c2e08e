"""Documents are up to date with what they describe."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_api_page_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "make_api.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def promises() -> dict[str, list[tuple[str, str]]]:
    """The promises of SECURITY.md, each with the files and functions of its tests."""
    found: dict[str, list[tuple[str, str]]] = {}
    promise = ""
    for line in (ROOT / "SECURITY.md").read_text().splitlines():
        row = re.fullmatch(r"\| (.*?) ?\| `(\S+)::(\w+)` \|", line)
        if row:
            promise = row[1] or promise
            found.setdefault(promise, []).append((row[2], row[3]))
    return found


def test_every_promise_has_tests_that_exist() -> None:
    missing = []
    for tests in promises().values():
        for name, function in tests:
            path = ROOT / name
            text = path.read_text() if path.is_file() else ""
            if not re.search(rf"\b(?:fn|def) {function}\(", text):
                missing.append(f"{name}::{function}")
    assert missing == []


def test_the_readme_promises_what_is_tested() -> None:
    text = (ROOT / "README.md").read_text()
    section = text.partition("## What it promises")[2].partition("\n## ")[0]
    bold = re.findall(r"^- \*\*(.*?)\.\*\*", section, re.MULTILINE | re.DOTALL)
    assert [" ".join(words.split()) for words in bold] == list(promises())
