"""The time limit of the programs."""

import os
import time

SECONDS = float(os.environ.get("SCENARIO_S", "45"))


def until(per_second, seconds=SECONDS):
    """Counts, at most so many times a second, until the time is over."""
    began = time.monotonic()
    count = 0
    while time.monotonic() - began < seconds:
        yield count
        count += 1
        time.sleep(max(0.0, began + count / per_second - time.monotonic()))
