"""Evidence on request: ``stormlog evidence`` leaves a file in the directory of a sink.

A request counts only if the file belongs to the owner of the sink and no other user can write to
it; a symbolic link is not followed. The answer is a second file in the same directory, which is
replaced each time the search has a new state.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

REQUEST = "evidence.request"
ANSWER = "evidence.answer"
_LARGEST_BYTES = 256


def take(directory: Path) -> str | None:
    """Remove the file of a waiting request and return the id of the request; None when there is no
    request, or when the request does not count."""
    path = directory / REQUEST
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(file)
        is_trusted = (
            stat.S_ISREG(about.st_mode)
            and about.st_uid == os.stat(directory).st_uid
            and not about.st_mode & 0o022
            and about.st_size <= _LARGEST_BYTES
        )
        text = os.read(file, _LARGEST_BYTES).decode("ascii", "replace") if is_trusted else ""
    finally:
        os.close(file)
    with suppress(OSError):
        os.unlink(path)
    name = text.strip()
    return name if name.isalnum() else None


def answer(directory: Path, request: str, state: dict[str, Any]) -> None:
    """Write the state of the search as the answer. The file is replaced atomically, so a reader
    sees either the previous state or this one."""
    path = directory / ANSWER
    part = directory / f"{ANSWER}.{os.getpid()}"
    with suppress(OSError):
        part.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(part, flags, 0o600), "w", encoding="utf-8") as file:
            json.dump({"request": request, "evidence": state}, file)
        os.replace(part, path)
