"""Signals are the program's: threads of ours take none of them.

The system gives a signal to any thread that does not block it. One that a thread of ours got,
as may happen after the process was stopped and continued, would leave a main thread asleep
that should be interrupted.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

# A thread's own faults stay its own, for those who print where they happened.
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
    """Threads that are started in this block leave signals to those that were there before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SENT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
