"""Predicts at which step a memory level that rises at regular steps will rise next.

A leak at every evaluation or epoch may fall between two windows, because the budget limits the
length of windows. But the number of steps between two rises of such a leak is about constant, so a
short window can be opened around the step at which the next rise is due.
"""

from __future__ import annotations

import itertools
from collections import deque

# How many rises are needed to see a rhythm, and how many of the latest rises are kept.
_ENOUGH = 3
_KEPT = 6
# The number of steps between two rises may differ from the median by this share of the median, and
# by one step in any case.
_TOLERANCE = 0.05
# Reading the level at the end of a step costs 20 µs. One search reads it at most this often.
_MOST_STEPS = 2000


class Rhythm:
    """The steps that ended with a higher memory level than all steps before them in this search."""

    def __init__(self) -> None:
        self._rises: deque[int] = deque(maxlen=_KEPT)
        self._highest: int | None = None
        self._looked_at = 0

    def wants(self) -> bool:
        """Whether to read the level at the end of this step; a search reads it at a limited number
        of steps."""
        return self._looked_at < _MOST_STEPS

    def at(self, step: int, level: int) -> None:
        """Note the level at the end of a step."""
        self._looked_at += 1
        if self._highest is not None and level > self._highest:
            self._rises.append(step)
        if self._highest is None or level > self._highest:
            self._highest = level

    def period(self) -> int | None:
        """The median number of steps between two rises; None after too few rises, or when the
        numbers differ too much."""
        rises = list(self._rises)
        distances = sorted(later - earlier for earlier, later in itertools.pairwise(rises))
        if len(distances) < _ENOUGH - 1:
            return None
        usual = distances[len(distances) // 2]
        slack = max(1.0, usual * _TOLERANCE)
        is_even = distances[0] >= usual - slack and distances[-1] <= usual + slack
        return usual if is_even else None

    def due_in(self, step: int, longer_than: int = 0) -> int | None:
        """The number of steps from ``step`` to the step at which the next rise is due; None when
        there is no rhythm, or when its period is not above ``longer_than`` steps."""
        period = self.period()
        if period is None or period <= longer_than:
            return None
        return period - (step - self._rises[-1]) % period
