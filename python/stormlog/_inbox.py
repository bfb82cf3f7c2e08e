"""Writes reports to the inbox of a run, the directory in which a process leaves files for
``stormlog run``."""

from __future__ import annotations

import os


def escaped(text: str) -> str:
    """The text without line breaks, as a value in a report."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def leave(path: str, text: str) -> None:
    """Write a report under a temporary name and then rename it, so that a reader never sees a part
    of it.

    This is written in Python and not in Rust, because it also writes the report of an out-of-memory
    error. If no memory is left, Python raises an error, while Rust would end the process.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    # The file object writes everything or raises an error; `os.write` may write a part.
    with open(os.open(path + ".tmp", flags, 0o600), "wb") as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    os.rename(path + ".tmp", path)
