"""Leaves signals to the threads of the program: the recorder's threads block them.

The system delivers a signal to any thread that does not block it. If a thread of the recorder got a
signal, which may happen after the process was stopped and continued, the signal would not wake a
main thread that sleeps.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

# Signals that a thread causes itself. The thread does not block them, so that handlers can print
# where a fault happened.
_FAULTS = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGABRT,
    signal.SIGSYS,
}
_SENT = signal.valid_signals() - _FAULTS


@contextmanager
def left_to_the_program() -> Iterator[None]:
    """A context manager. Threads that are started in its ``with`` block block all signals but those
    of ``_FAULTS``, so these signals go to the threads of the program."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SENT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
