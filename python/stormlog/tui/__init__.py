"""The terminal UI, started like ``stormlog.tui`` of stormlog 0.3.9."""

from __future__ import annotations

import signal
import sys

from .. import _core, entrypoint

__all__ = ["run_app"]


def run_app(argv: list[str] | None = None) -> None:
    """Show the interface until the user quits; ``argv`` lists artifacts to open.

    Without ``argv`` the arguments of the Python program are used. If the first argument is the name
    of a command of ``stormlog``, that command runs instead, and ``SystemExit`` is raised with its
    exit code. ``SystemExit`` is also raised when the interface ends with an error.
    """
    arguments = sys.argv[1:] if argv is None else argv
    if arguments and _core.is_command(arguments[0]):
        raise SystemExit(entrypoint.main(arguments))
    # While Rust works, Python cannot handle signals. With the default handler, Ctrl+C ends the
    # process at once.
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        code = _core.main("stormlog", ["tui", *arguments])
    finally:
        signal.signal(signal.SIGINT, before)
    if code != 0:
        raise SystemExit(code)
