"""The command ``stormlog query``."""

from __future__ import annotations

from collections.abc import Sequence

from .entrypoint import main as stormlog

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``stormlog query`` and return its exit code; without ``argv``, the process's is used."""
    if argv is None:
        import sys

        argv = sys.argv[1:]
    return stormlog(["query", *argv])
