"""Evidence on request: ``stormlog evidence`` leaves a file in the directory of a sink.

Only a file that the owner of the sink wrote and no other user can write counts. It is never
followed as a link. The answer lies beside it and is replaced with every new state.
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
    """The id of a request that is there now; the file is removed."""
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
    """Leave a state of the answer; a reader sees the one before or this one."""
    path = directory / ANSWER
    part = directory / f"{ANSWER}.{os.getpid()}"
    with suppress(OSError):
        part.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(part, flags, 0o600), "w") as file:
            json.dump({"request": request, "evidence": state}, file)
        os.replace(part, path)
