"""Paths that stay valid when the program changes its working directory."""

from __future__ import annotations

import os
from pathlib import Path


def absolute(path: str | os.PathLike[str]) -> Path:
    """The absolute path, or the path itself when the working directory was deleted."""
    try:
        return Path(path).absolute()
    except OSError:
        return Path(path)
