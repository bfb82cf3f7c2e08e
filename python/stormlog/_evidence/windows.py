"""Opens evidence windows at the ends of steps, on the training thread.

A call at the end of a step takes about a microsecond, or 20 µs where it reads the allocator's
counters. Three actions take longer: switching recording on (0.1 ms), switching it off (0.1 ms), and
taking the snapshot (about 1 µs for each block).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from .. import _core
from .budget import ALLOCATION_S, BLOCK_S, LONGEST_SNAPSHOT_S, Budget
from .history import TAKEN, Counters, History, turn
from .rhythm import Rhythm
from .search import Search
from .survivors import Window

# Estimated seconds that a snapshot takes for each entry of a history that the program records
# itself.
_ENTRY_S = 2.5e-6
# The most seconds of the program's time that one window may cost.
_LONGEST_WINDOW_S = 0.12

# The first windows are long enough to contain two leaking steps if every fourth step leaks. For
# rarer leaks the windows get longer, until the rhythm of the leak is known.
_FIRST_STEPS = 8
_MOST_STEPS = 256
# The number of steps of a window around the step at which a rise is due.
_AROUND_STEPS = 3
# Blocks that live at least this many steps and this many seconds after a window are its survivors.
_SETTLE_STEPS = 4
_SETTLE_S = 0.4
# The least time in seconds from one snapshot to the next window.
_BETWEEN_S = 0.4


class Windows:
    """The evidence windows of one device."""

    def __init__(
        self,
        torch: Any,
        device: int,
        hook: _core.StepHook,
        record: Callable[[dict[str, Any]], None],
        budget: Budget,
    ) -> None:
        self._hook = hook
        self._history = History(torch, device)
        self.budget = budget
        self.search = Search(device, self._history, self.budget, record, self._give_turn)
        self._phase: Callable[[float], bool] = self._idle
        self._calls = 0
        self._is_requested = self._has_turn = False
        self._begun: tuple[int, float, Counters] | None = None
        self._steps = _FIRST_STEPS
        self._rhythm = Rhythm()
        self._not_before = 0.0
        self._allocations_per_step = 0.0
        self._is_used_as_it_is = False
        self._window_steps = _FIRST_STEPS
        self._window_end = (0, 0.0, Counters(0, 0, 0, 0))
        hook.set_watcher(self.at_step)

    def request(self) -> None:
        """Open windows at the next ends of steps, whether the memory level rises or not."""
        self._is_requested = True
        self._hook.attend()

    def at_step(self, step: int, rise: int) -> bool:
        """Called by the step hook at the end of a step. Returns whether the hook should call this
        function at the end of the next step too."""
        began = time.monotonic()
        self._calls += 1
        try:
            if self._phase != self._idle and self._rhythm.wants():
                self._rhythm.at(self._calls, self._history.counters().allocated_bytes)
            return self._phase(began)
        except Exception as error:
            # The hook catches the exception, so the program does not see it. The hook does not call
            # this function again.
            self.search.fail(f"{type(error).__name__}: {error}")
            self._leave()
            raise
        finally:
            now = time.monotonic()
            self.budget.pause(now - began, now)

    def _idle(self, now: float) -> bool:
        is_requested, self._is_requested = self._is_requested, False
        if not is_requested and not self.search.may_begin():
            return False
        if not turn.acquire(blocking=False):
            self._is_requested = is_requested
            return True
        self._has_turn = True
        self.search.begin("request" if is_requested else "growth", "steps")
        self._steps = _FIRST_STEPS
        self._rhythm = Rhythm()
        self._begun = (self._calls, now, self._history.counters())
        self._phase = self._probe
        return True

    def _probe(self, now: float) -> bool:
        """Measure how many allocations a step makes, before anything is recorded."""
        calls, _, before = self._begun or (self._calls, now, self._history.counters())
        if self._calls - calls < _FIRST_STEPS:
            return True
        after = self._history.counters()
        steps = self._calls - calls
        self._allocations_per_step = (after.allocations - before.allocations) / steps
        self._phase = self._wait
        return True

    def _wait(self, now: float) -> bool:
        if self.search.has_graphs() and not self.search.is_busy:
            self.search.follow_graphs(now)
            return True
        if self.search.is_ended:
            return self._end()
        if now < self._not_before or self.search.is_busy or self._history.is_capturing():
            return True
        wanted = self._steps
        due_in = self._rhythm.due_in(self._calls, longer_than=_FIRST_STEPS)
        if due_in is not None:
            if due_in != _AROUND_STEPS // 2 + 1:
                return True
            wanted = _AROUND_STEPS
        counters = self._history.counters()
        self._is_used_as_it_is = self._history.is_on()
        snapshot_s = counters.blocks * BLOCK_S
        if self._is_used_as_it_is:
            snapshot_s += counters.actions * _ENTRY_S
        if snapshot_s > LONGEST_SNAPSHOT_S:
            self.search.refuse(_too_long(counters, snapshot_s, self._is_used_as_it_is))
            return self._end()
        spare_s = min(_LONGEST_WINDOW_S, self.budget.left(now) - 2 * snapshot_s)
        step_s = max(self._allocations_per_step, 1.0) * ALLOCATION_S
        steps = min(wanted, math.floor(spare_s / step_s))
        if self._is_used_as_it_is:
            steps = wanted if spare_s > 0 else 0
        if steps < 2:
            if step_s * 2 > _LONGEST_WINDOW_S:
                reason = f"a step makes {self._allocations_per_step:,.0f} allocations"
                self.search.refuse(f"{reason}, too many for a window of two steps")
                return self._end()
            self._not_before = now + 1.0
            return True
        if self._is_used_as_it_is or self.search.is_tainted:
            self.search.ignore(self._history.blocks()[0])
        self._window_steps = steps
        counters = self._history.counters()
        if not self._is_used_as_it_is:
            self._history.open()
            allowed = counters.allocations + round(2 * _LONGEST_WINDOW_S / ALLOCATION_S)
            self.search.watch(allowed)
        self._begun = (self._calls, now, counters)
        self._phase = self._recording
        return True

    def _recording(self, now: float) -> bool:
        calls, _, before = self._begun or (self._calls, now, self._history.counters())
        if self._calls - calls < self._window_steps:
            return True
        self._window_end = (self._calls, now, self._history.counters())
        if not self._is_used_as_it_is:
            if not self.search.unwatch():
                # The program made so many allocations that recording was switched off early.
                self._phase = self._wait
                return True
            self._history.close()
            allocations = self._window_end[2].allocations - before.allocations
            self.budget.spend(allocations * ALLOCATION_S, now)
            if self._history.is_taken:
                self.search.refuse(TAKEN)
                return self._end()
        self._phase = self._settling
        return True

    def _settling(self, now: float) -> bool:
        calls, closed, after = self._window_end
        waits = self._calls - calls < max(_SETTLE_STEPS, self._window_steps // 2)
        if waits or now - closed < _SETTLE_S or self._history.is_capturing():
            return True
        _, begun, before = self._begun or self._window_end
        blocks, _ = self._history.blocks()
        if self._is_used_as_it_is:
            # The program records all the time, so blocks allocated after the window have stacks
            # too, and the growth after the window must be counted.
            after = self._history.counters()
        growth = after.allocated_bytes - before.allocated_bytes
        if growth <= 0:
            # Memory did not grow in this window. To contain a rare leak, the next one must be
            # longer.
            self._steps = min(self._steps * 2, _MOST_STEPS)
        self.search.add(Window(self._window_steps, closed - begun, growth), blocks)
        self._not_before = now + _BETWEEN_S
        self._phase = self._wait
        return True

    def _end(self) -> bool:
        self.search.rest()
        self._phase = self._idle
        self._give_turn()
        return False

    def _leave(self) -> None:
        if self._phase == self._recording and not self._is_used_as_it_is and self.search.unwatch():
            self._history.close()
        self._phase = self._idle
        self._give_turn()

    def _give_turn(self) -> None:
        has_turn, self._has_turn = self._has_turn, False
        if has_turn:
            turn.release()


def _too_long(counters: Counters, seconds: float, is_programs: bool) -> str:
    of = f"{counters.blocks:,} blocks"
    if is_programs:
        of += " and the history that the program itself records"
    return f"a snapshot of {of} is estimated to take {seconds * 1000:,.0f} ms"
