"""Leaves signals to the program: our threads take none of them.

The system delivers a signal to any thread that does not block it. If one of our threads got a
signal, which may happen after the process was stopped and continued, the signal would not wake a
main thread that sleeps.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

# Signals that a thread causes itself. They stay with the thread, for handlers that print where a
# fault happened.
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
    """Threads that are started in this block leave signals to the existing threads."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SENT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
