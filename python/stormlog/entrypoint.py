"""The console scripts: each passes its arguments to the program in the extension module."""

from __future__ import annotations

import os
import signal
import sys

from . import _core
from ._installed import is_installed


def main(argv: list[str] | None = None) -> int:
    """The command ``stormlog``."""
    return _run("stormlog", argv)


def gpumemprof(argv: list[str] | None = None) -> int:
    """The command ``gpumemprof``."""
    return _run("gpumemprof", argv)


def tfmemprof(argv: list[str] | None = None) -> int:
    """The command ``tfmemprof``."""
    return _run("tfmemprof", argv)


def jaxmemprof(argv: list[str] | None = None) -> int:
    """The command ``jaxmemprof``."""
    return _run("jaxmemprof", argv)


def _run(dialect: str, argv: list[str] | None) -> int:
    # The interpreter of the recorded program uses this copy of the package if none is installed for
    # it.
    os.environ["STORMLOG_RUN_PACKAGE"] = os.path.dirname(os.path.dirname(__file__))
    os.environ["STORMLOG_PYTHON_VERSION"] = sys.version
    # `stormlog demo` runs a Python program.
    os.environ["STORMLOG_PYTHON"] = sys.executable or ""
    # Rust does not return to the interpreter while it works, so Ctrl+C must end the process
    # directly. A shell starts a background job with SIGINT ignored; it stays ignored, also for the
    # programs that we start.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    arguments = sys.argv[1:] if argv is None else argv
    if "diagnose" in arguments[:2]:
        # A bundle records whether PyTorch is installed, which Rust cannot find out cheaply.
        os.environ["STORMLOG_TORCH_AVAILABLE"] = str(is_installed("torch"))
    if dialect == "jaxmemprof":
        os.environ["STORMLOG_JAX_AVAILABLE"] = str(is_installed("jax"))
    return _core.main(dialect, arguments)
