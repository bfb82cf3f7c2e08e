"""Makes temporary folders. The folders of a process that was killed are deleted by the next process
that makes one."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "stormlog-"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A context manager with a new folder, which is deleted at the end of the ``with`` block.
    First, the folders that killed processes have left are deleted."""
    _delete_leftovers()
    owner = _identity(os.getpid()) or "unknown"
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{owner}-") as folder:
        yield Path(folder)


def _identity(pid: int) -> str | None:
    """A text that identifies a process uniquely on this machine: its pid namespace, pid and start
    time. None when there is no such process."""
    try:
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program is in parentheses and may contain any character.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return f"{namespace}-{pid}-{int(fields[19])}"


def _delete_leftovers() -> None:
    here = _identity(os.getpid())
    if here is None:
        return
    namespace = here.split("-")[0]
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{namespace}-*-*-*"):
        pid = path.name.removeprefix(_PREFIX).split("-")[1]
        if not pid.isdigit() or path.name.startswith(f"{_PREFIX}{_identity(int(pid))}-"):
            continue
        try:
            facts = path.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
            shutil.rmtree(path, ignore_errors=True)
