"""The command ``stormlog query``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .entrypoint import main as stormlog

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``stormlog query`` with the arguments ``argv``, by default those of the process, and
    return its exit code."""
    return stormlog(["query", *(sys.argv[1:] if argv is None else argv)])
