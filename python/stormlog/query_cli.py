"""The command ``stormlog query``."""

from __future__ import annotations

from collections.abc import Sequence

from .entrypoint import main as stormlog

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``stormlog query`` with the arguments ``argv``, by default those of the process, and
    return its exit code."""
    if argv is None:
        import sys

        argv = sys.argv[1:]
    return stormlog(["query", *argv])
