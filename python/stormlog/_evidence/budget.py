"""How much of the program's time the windows may take."""

from __future__ import annotations

import threading
from collections import deque

# In seconds: at most so much in any so long.
LIMIT_S = 0.3
PERIOD_S = 60.0

# What things cost: a recorded allocation with the stack that a training loop has, and a block in
# a snapshot.
ALLOCATION_S = 6e-6
BLOCK_S = 1.6e-6
# A snapshot that takes longer is not taken.
LONGEST_SNAPSHOT_S = 0.05


class Budget:
    """Time that was taken from the program, and how much may still be."""

    def __init__(self) -> None:
        self._spent: deque[tuple[float, float]] = deque()
        self._lock = threading.Lock()
        self.total_s = 0.0
        self.longest_pause_s = 0.0

    def pause(self, seconds: float, now: float) -> None:
        """Count a pause of the program."""
        self.longest_pause_s = max(self.longest_pause_s, seconds)
        self.spend(seconds, now)

    def spend(self, seconds: float, now: float) -> None:
        """Count time that the program lost without being paused."""
        with self._lock:
            self.total_s += seconds
            # The many calls of less than a microsecond are one entry.
            if self._spent and now - self._spent[-1][0] < 0.05:
                at, before = self._spent.pop()
                self._spent.append((at, before + seconds))
            else:
                self._spent.append((now, seconds))

    def left(self, now: float) -> float:
        """What may be taken now."""
        with self._lock:
            while self._spent and now - self._spent[0][0] >= PERIOD_S:
                self._spent.popleft()
            return LIMIT_S - sum(seconds for _, seconds in self._spent)
