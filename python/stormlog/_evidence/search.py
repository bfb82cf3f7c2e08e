"""Searches for the cause of growing memory. A search takes snapshots after windows, groups the
blocks that survived, searches for the holders of these blocks, and records each intermediate result
as an event. Most of this work is done on a separate thread."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .. import _holders, _keeping_lines
from .._adding_lines import Reading
from .._holders.walk import Stop
from .._signals import left_to_the_program
from .budget import ALLOCATION_S, BLOCK_S, LONGEST_SNAPSHOT_S, Budget
from .history import TAKEN, Block, History, turn
from .survivors import Survivors, Window

# A search has its answer after this many windows in which memory grew; a search on request ends
# after this many windows in any case. The key is the kind of the windows: windows of some steps, or
# windows of a fixed time. No search has more than MOST_WINDOWS windows.
ENOUGH = {"steps": 4, "time": 5}
MOST_WINDOWS = 12
# The search for holders starts after this many windows, which are counted as for ENOUGH.
_LOCATED = {"steps": 3, "time": 4}
# The search for a holder: the most blocks to look for, and the longest and the shortest time in
# seconds that it may have.
_MOST_BLOCKS = 512
_LOCATE_S = 0.9
_SHORTEST_LOCATE_S = 0.1
# The seconds of the budget that the search for a holder leaves for further windows.
_KEPT_S = 0.08
# The search for a holder works and sleeps in turn for these times, so that the program can run.
_WORK_S, _REST_S = 0.001, 0.006
# For windows of a fixed time: the seconds that a window is open, the seconds that a block must live
# after the window to be a survivor, and the share of the window's time that recording is assumed to
# cost.
_WINDOW_S = 0.25
_SETTLE_S = 1.5
_RECORDED_SHARE = 0.13
_MOST_HOLDERS = 8
# The code of the program is read for so many holders, the largest ones, to find the lines that make
# their memory stay: for so many seconds, if the budget has them.
_MOST_READ = 3
_READ_S, _SHORTEST_READ_S = 0.05, 0.01
# Autograd graphs are searched in slices, one at the end of each step, up to a total time.
_GRAPH_S = 0.008
_MOST_GRAPHS_S = 0.1
# After a search without an answer, seconds until growing memory may start the next search.
FIRST_REST_S = 120.0
# While allocations are recorded, seconds between two checks of their number.
_LOOK_S = 0.2


class Search:
    """Runs the searches on one device, one after another. Keeps the windows of the current search
    and their results."""

    def __init__(
        self,
        device: int,
        history: History,
        budget: Budget,
        record: Callable[[dict[str, Any]], None],
        ended: Callable[[], None],
    ) -> None:
        self._device, self._history, self._budget = device, history, budget
        self._record, self._ended = record, ended
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._watched: int | None = None
        self._lock = threading.Lock()
        self._mode = "steps"
        self._asked_by = "growth"
        self._survivors = Survivors(device)
        self._held: dict[int, _holders.Holder] = {}
        self._not_held: dict[int, int] = {}
        self._graphs: deque[tuple[weakref.ref[Any], Any]] = deque()
        self._graphs_s = 0.0
        self._searched: dict[str, Any] | None = None
        # What the code shows about holders, with the keys of a record.
        self._kept: dict[Any, dict[str, Any]] = {}
        self._reason: str | None = None
        self.is_busy = self.is_ended = self.is_answered = self.is_tainted = False
        self._rest_until, self._rest_s = 0.0, FIRST_REST_S
        # Called with every state of the search that is recorded as an event.
        self.listener: Callable[[dict[str, Any]], None] | None = None

    def begin(self, asked_by: str, mode: str) -> None:
        """Start a new search. Blocks that were recorded in windows of earlier searches must not
        count as survivors of its windows."""
        self._asked_by, self._mode = asked_by, mode
        self.is_tainted = self.is_tainted or bool(self._survivors.windows)
        self._survivors = Survivors(self._device)
        self._held, self._not_held, self._graphs = {}, {}, deque()
        self._searched, self._reason = None, None
        self._kept = {}
        self.is_ended = False

    def may_begin(self) -> bool:
        """Whether growing memory may start a search now."""
        return not (self.is_busy or self.is_answered or time.monotonic() < self._rest_until)

    def rest(self) -> None:
        """Called when a search has ended. If it found no answer, growing memory may start another
        search only after a wait, which doubles each time."""
        if not self.is_answered:
            self._rest_until = time.monotonic() + self._rest_s
            self._rest_s *= 2

    def ignore(self, blocks: list[Block]) -> None:
        """Note blocks that exist before the next window, so that they are not its survivors."""
        self.is_tainted = False
        self._survivors.ignore(blocks)

    def add(self, window: Window, blocks: list[Block]) -> None:
        """Add a window that has ended, with the blocks of a snapshot that was taken some steps
        after its end."""
        self.is_busy = True
        self._do(lambda: self._take(window, blocks))

    def refuse(self, reason: str) -> None:
        """End the search because no window can be opened, and record the reason."""
        self._reason, self.is_ended = reason, True
        self._do(self._report)

    def fail(self, reason: str) -> None:
        """End the search after an error. Growing memory starts no further search."""
        self.is_answered = True
        self.refuse(reason)

    def watch(self, allowed: int) -> None:
        """Switch recording off if the allocation counter exceeds ``allowed`` before the window
        ends."""
        with self._lock:
            self._watched = allowed
        self._do(self._look_after)

    def unwatch(self) -> bool:
        """Stop watching, because the window has ended. Returns whether recording was still on."""
        with self._lock:
            was_on = self._watched is not None
            self._watched = None
            return was_on

    def by_time(self, rate: float, asked_by: str = "growth") -> None:
        """Open windows of a fixed time, in a program without steps. ``rate`` is the growth of
        memory in bytes per second; at 0 the growth is measured in each window."""
        self.is_busy = True
        self._do(lambda: self._by_time(rate, asked_by))

    def _do(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="stormlog-evidence", daemon=True
            )
            with left_to_the_program():
                self._thread.start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            except Exception as error:
                self._reason = f"{type(error).__name__}: {error}"
                self.is_ended = self.is_answered = True
                with suppress(Exception):
                    self._report()
            finally:
                self.is_busy = False

    def _look_after(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            if self._watched is None:
                return
            count = self._history.counters().allocations
            with self._lock:
                if self._watched is None:
                    return
                if count > self._watched:
                    self._watched = None
                    self._history.close()
                    self.is_tainted = True
                    return

    def _take(self, window: Window, blocks: list[Block]) -> None:
        began = time.thread_time()
        self._survivors.add(window, blocks)
        self._budget.spend(time.thread_time() - began, time.monotonic())
        windows = self._survivors.windows
        growing = sum(self._grew(one) for one in windows)
        enough = len(windows) if self._asked_by == "request" else growing
        if enough >= _LOCATED[self._mode] and not self._is_located():
            self._locate()
        if enough >= ENOUGH[self._mode] or len(windows) >= MOST_WINDOWS:
            self.is_ended = True
            self.is_answered = self.is_answered or growing >= ENOUGH[self._mode]
            # The lock `turn` is released here and not at the end of the next step, because the
            # program may have made its last step.
            self._ended()
        self._report()

    def _grew(self, window: Window) -> bool:
        if self._mode == "time":
            return window.survivor_bytes * 4 > window.growth_bytes > 0
        return window.growth_bytes > 0

    def _is_located(self) -> bool:
        """Whether the holders are known: the last search for them was not cut short, or it found
        the holders of more than half of the survivors' bytes."""
        if self._searched is None:
            return False
        is_whole = self._searched["cut_short"] is None
        return is_whole or self._searched["found_bytes"] * 2 > self._searched["bytes"]

    def _locate(self) -> None:
        """Search for the holders of the survivors, in short pieces with rests between them."""
        addresses = self._survivors.addresses(_MOST_BLOCKS)
        left_s = self._budget.left(time.monotonic()) - _KEPT_S
        # Only the work counts against the budget. Each millisecond of it is followed by a rest, so
        # the search may last several times as long as the time that is left.
        limit_s = min(_LOCATE_S, left_s * (_WORK_S + _REST_S) / _WORK_S)
        if not addresses or limit_s < _SHORTEST_LOCATE_S:
            return
        began = time.thread_time()
        located = _holders.locate(
            addresses, time.monotonic() + limit_s, rest=lambda: time.sleep(_REST_S)
        )
        used_s = time.thread_time() - began
        self._budget.spend(used_s, time.monotonic())
        self._held = dict(located.holders)
        self._not_held = {
            address: size for address, size in addresses.items() if address not in self._held
        }
        self._graphs, self._graphs_s = located.with_graph, 0.0
        self._searched = {
            "bytes": sum(addresses.values()),
            "found_bytes": sum(addresses[address] for address in self._held),
            "cut_short": located.cut_short,
            "ms": round(used_s * 1000, 1),
        }

    def has_graphs(self) -> bool:
        """Whether autograd graphs are left to search for blocks that no variable holds."""
        return bool(self._graphs and self._not_held and self._mode == "steps")

    def follow_graphs(self, now: float) -> None:
        """Search some autograd graphs for the blocks that no variable holds. Called at the end of a
        step on the training thread, when no backward pass runs."""
        limit_s = min(_GRAPH_S, _MOST_GRAPHS_S - self._graphs_s, self._budget.left(now))
        if limit_s > 0:
            found = _holders.locate_in_graphs(self._not_held, self._graphs, now + limit_s)
            self._graphs_s += time.monotonic() - now
            for address, holder in found.items():
                self._held[address] = holder
                self._add_found(self._not_held.pop(address))
        if limit_s <= 0 or not self.has_graphs():
            self._graphs.clear()
            self._do(self._report)

    def _add_found(self, size: int) -> None:
        if self._searched is not None:
            self._searched["found_bytes"] += size

    def _groups(self) -> list[tuple[_holders.Group, list[_holders.Holder]]]:
        """The holders to record, the largest first, each with the holders of its blocks."""
        members: dict[Any, list[_holders.Holder]] = {}
        for holder in list(self._held.values()):
            members.setdefault(_holders.key_of(holder), []).append(holder)
        groups = [_holders.group(own)[0] for own in members.values()]
        named = zip(groups, members.values(), strict=True)
        ordered = sorted(named, key=lambda one: -one[0].bytes)
        return [one for one in ordered if one[0].place is not None][:_MOST_HOLDERS]

    def _described_holders(self) -> list[dict[str, Any]]:
        return [
            {
                "holder": one.phrase,
                "category": one.category,
                "bytes": one.bytes,
                "blocks": one.storages,
                **_keeping_lines.facts(members[0]),
                **self._kept.get(_holders.key_of(members[0]), {}),
            }
            for one, members in self._groups()
        ]

    def _unread(self) -> list[list[_holders.Holder]]:
        """The largest holders for which the code was not read yet."""
        largest = (members for _, members in self._groups()[:_MOST_READ])
        return [members for members in largest if _holders.key_of(members[0]) not in self._kept]

    def _read_code(self) -> None:
        """Find the lines that make the memory of the largest holders stay."""
        allowed = min(_READ_S, self._budget.left(time.monotonic()))
        began = time.thread_time()
        rested = time.monotonic()

        def rest() -> None:
            nonlocal rested
            if time.thread_time() - began > allowed:
                raise Stop
            if time.monotonic() - rested > _WORK_S:
                time.sleep(_REST_S)
                rested = time.monotonic()

        unread = self._unread()
        # What cannot be read in time is not read again for the next report.
        self._kept.update((_holders.key_of(members[0]), {}) for members in unread)
        reading = Reading(rest)
        try:
            for members in unread:
                stacks = self._survivors.stacks_of(self._addresses_of(members))
                kept = _keeping_lines.keeping(members, stacks, reading)
                if kept is not None:
                    self._kept[_holders.key_of(members[0])] = kept.record()
        except Exception:
            # `Stop`, or code that cannot be read. The search goes on without these lines.
            pass
        finally:
            self._budget.spend(time.thread_time() - began, time.monotonic())

    def _addresses_of(self, members: list[_holders.Holder]) -> list[int]:
        own = {id(one) for one in members}
        return [address for address, one in list(self._held.items()) if id(one) in own]

    def _by_time(self, rate: float, asked_by: str) -> None:
        with turn:
            self.begin(asked_by, "time")
            while not self.is_ended:
                self._window_by_time(rate)
        self.rest()

    def _window_by_time(self, rate: float) -> None:
        history, budget = self._history, self._budget
        counters = history.counters()
        is_programs = history.is_on()
        snapshot_s = counters.blocks * BLOCK_S
        if is_programs or snapshot_s > LONGEST_SNAPSHOT_S:
            reason = f"a snapshot of {counters.blocks:,} blocks is estimated to take too long"
            if is_programs:
                reason = "the program records a history itself and has no steps"
            self._reason, self.is_ended = reason, True
            self._report()
            return
        if budget.left(time.monotonic()) < _WINDOW_S * _RECORDED_SHARE + 2 * snapshot_s:
            time.sleep(1.0)
            return
        if self.is_tainted:
            self.ignore(self._snapshot())
        before = history.counters()
        began = time.monotonic()
        history.open()
        time.sleep(_WINDOW_S)
        history.close()
        seconds = time.monotonic() - began
        allocations = history.counters().allocations - before.allocations
        cost_s = min(seconds * _RECORDED_SHARE, allocations * ALLOCATION_S)
        budget.spend(cost_s, time.monotonic())
        if history.is_taken:
            self._reason = TAKEN
            self.is_ended = True
            self._report()
            return
        time.sleep(_SETTLE_S)
        growth = round(rate * seconds)
        if rate <= 0:
            growth = history.counters().allocated_bytes - before.allocated_bytes
        self._take(Window(None, seconds, growth), self._snapshot())

    def _snapshot(self) -> list[Block]:
        began = time.monotonic()
        blocks, _ = self._history.blocks()
        now = time.monotonic()
        self._budget.pause(now - began, now)
        return blocks

    def _report(self) -> None:
        if self._unread() and self._budget.left(time.monotonic()) >= _SHORTEST_READ_S:
            # The program may end before its code is read.
            self._write(is_open=True)
            self._read_code()
        self._write(is_open=not self.is_ended)

    def _write(self, *, is_open: bool) -> None:
        state = {
            "version": 1,
            "asked_by": self._asked_by,
            "mode": self._mode,
            "device": self._device,
            "state": "open" if is_open else "ended",
            "reason": self._reason,
            **self._survivors.describe(),
            "holders": self._described_holders(),
            "search": self._searched,
            "cost_ms": round(self._budget.total_s * 1000, 1),
            "longest_pause_ms": round(self._budget.longest_pause_s * 1000, 1),
        }
        self._record(state)
        if self.listener is not None:
            self.listener(state)
