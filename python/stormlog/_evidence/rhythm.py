"""When a level that rises now and then will rise next.

A leak at every evaluation or epoch is rarer than any window that the budget allows. Its steps have
equal distances, so a short window can be opened where the next one is due.
"""

from __future__ import annotations

from collections import deque

# Rises that show a rhythm, the latest ones that count, and how far a distance may be from the
# usual one.
_ENOUGH = 3
_KEPT = 6
_TOLERANCE = 0.05
# Looking at a step costs 20 µs. One search looks at no more steps than this.
_MOST_STEPS = 2000


class Rhythm:
    """The steps of one search at whose ends the level was higher than ever before."""

    def __init__(self) -> None:
        self._rises: deque[int] = deque(maxlen=_KEPT)
        self._highest: int | None = None
        self._looked_at = 0

    def wants(self) -> bool:
        """Whether the level at the end of this step is worth reading."""
        return self._looked_at < _MOST_STEPS

    def at(self, step: int, level: int) -> None:
        """The level at the end of a step."""
        self._looked_at += 1
        if self._highest is not None and level > self._highest:
            self._rises.append(step)
        if self._highest is None or level > self._highest:
            self._highest = level

    def period(self) -> int | None:
        """The usual distance of two rises, where all are about equal."""
        rises = list(self._rises)
        distances = sorted(later - earlier for earlier, later in zip(rises, rises[1:], strict=False))
        if len(distances) < _ENOUGH - 1:
            return None
        usual = distances[len(distances) // 2]
        slack = max(1.0, usual * _TOLERANCE)
        is_even = distances[0] >= usual - slack and distances[-1] <= usual + slack
        return usual if is_even else None

    def due_in(self, step: int, longer_than: int = 0) -> int | None:
        """How many steps after this one the next rise ends; nothing without a rhythm, or with one
        that is not longer than some steps."""
        period = self.period()
        if period is None or period <= longer_than:
            return None
        return period - (step - self._rises[-1]) % period
