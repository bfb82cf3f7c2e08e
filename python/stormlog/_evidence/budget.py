"""How much of the program's time evidence windows may take."""

from __future__ import annotations

import threading
from collections import deque

# The windows may take at most LIMIT_S seconds of any PERIOD_S seconds.
LIMIT_S = 0.3
PERIOD_S = 60.0

# Estimated cost in seconds of recording one allocation with the usual stack of a training loop, and
# of one block in a snapshot.
ALLOCATION_S = 6e-6
BLOCK_S = 1.6e-6
# A snapshot that is estimated to take longer is not taken.
LONGEST_SNAPSHOT_S = 0.05


class Budget:
    """How much time the windows have taken from the program, and how much they may still take."""

    def __init__(self) -> None:
        self._spent: deque[tuple[float, float]] = deque()
        self._lock = threading.Lock()
        self.total_s = 0.0
        self.longest_pause_s = 0.0

    def pause(self, seconds: float, now: float) -> None:
        """Count the seconds for which a window paused the program."""
        self.longest_pause_s = max(self.longest_pause_s, seconds)
        self.spend(seconds, now)

    def spend(self, seconds: float, now: float) -> None:
        """Count time that the program lost without being paused."""
        with self._lock:
            self.total_s += seconds
            # Calls within 50 ms share an entry, because most take less than a microsecond.
            if self._spent and now - self._spent[-1][0] < 0.05:
                at, before = self._spent.pop()
                self._spent.append((at, before + seconds))
            else:
                self._spent.append((now, seconds))

    def left(self, now: float) -> float:
        """The seconds of the program's time that windows may still take now."""
        with self._lock:
            while self._spent and now - self._spent[0][0] >= PERIOD_S:
                self._spent.popleft()
            return LIMIT_S - sum(seconds for _, seconds in self._spent)
