"""What the programs of this folder share. Standard library only; PyTorch models are in tiny.py.

SCENARIO_S      how many seconds a program runs (default 20, at most 60)
SCENARIO_STEPS  run exactly this many steps instead, as fast as possible: the printed results then
                do not depend on time
"""

import os
import resource
import sys
import time

SECONDS = min(float(os.environ.get("SCENARIO_S", "20")), 60.0)
STEPS = int(os.environ.get("SCENARIO_STEPS", "0"))

MIB = 1 << 20

_share = 0.0


def until(per_second=None):
    """Count steps until the time is up, at most `per_second` of them in a second."""
    global _share
    _share = 0.0
    begin = time.monotonic()
    step = 0
    while step < STEPS if STEPS else time.monotonic() - begin < SECONDS:
        yield step
        step += 1
        passed = time.monotonic() - begin
        _share = min(step / STEPS if STEPS else passed / SECONDS, 1.0)
        if per_second and not STEPS:
            time.sleep(max(step / per_second - passed, 0.0))
    print("steps", step, flush=True)


def counted(per_second):
    """Count the same number of steps in every process, however long they take: for ranks, which
    would wait for each other for ever if one of them ended earlier."""
    begin = time.monotonic()
    for step in range(STEPS or int(per_second * SECONDS)):
        yield step
        if not STEPS:
            time.sleep(max((step + 1) / per_second - (time.monotonic() - begin), 0.0))


def share():
    """How much of the run is over, from 0 to 1."""
    return _share


def endless(per_second=None, at_most=20_000):
    """Count steps for a program that ends by itself; exit with 3 if it does not."""
    begin = time.monotonic()
    for step in range(at_most):
        yield step
        if per_second and not STEPS:
            time.sleep(max((step + 1) / per_second - (time.monotonic() - begin), 0.0))
    print("the failure that this program is made for did not happen", file=sys.stderr)
    sys.exit(3)


def pause(seconds):
    """Wait for something outside the program; not with a fixed number of steps."""
    if not STEPS:
        time.sleep(seconds)


def limit_memory(mib):
    """Let this process map `mib` MiB more than it has mapped now (RLIMIT_AS)."""
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    limit = mapped + mib * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
