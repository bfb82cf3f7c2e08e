"""Which blocks survived which window, and the lines of the user's code that allocated them."""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from typing import Any, NamedTuple

from .. import _core
from .._holders.roots import is_users
from .history import Block

# The most stacks in an event. Blocks with further stacks count only in the totals of a window.
MOST_STACKS = 24
# The most frames of the user's code in a stack. Of a deeper stack, which a recursive function makes,
# the innermost and the outermost frames are kept.
_INNERMOST, _OUTERMOST = 16, 8
_LONGEST_TEXT = 200

# The frames of a stack, each as file, line and function; the innermost frame comes first.
Stack = tuple[tuple[str, int, str], ...]


class Window:
    """One window and the blocks that survived it."""

    def __init__(self, steps: int | None, seconds: float, growth_bytes: int) -> None:
        self.steps, self.seconds, self.growth_bytes = steps, seconds, growth_bytes
        # The size in bytes and the stack of each survivor, by address.
        self.blocks: dict[int, tuple[int, Stack]] = {}

    @property
    def survivor_bytes(self) -> int:
        """The bytes of all survivors."""
        return sum(size for size, _ in self.blocks.values())


class Survivors:
    """The windows of one search, for one device."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._seen: set[int] = set()
        self.windows: list[Window] = []

    def ignore(self, blocks: Iterable[Block]) -> None:
        """Note blocks that exist before the next window, so that they are not its survivors."""
        self._seen.update(address for _, address, _, _ in blocks)

    def add(self, window: Window, blocks: list[Block]) -> None:
        """Add a window with the blocks of a snapshot that was taken after the window. Survivors of
        earlier windows that have been freed since then are no leak, so they are removed."""
        own = {
            address: (size, frames)
            for device, address, size, frames in blocks
            if device == self._device
        }
        for earlier in self.windows:
            earlier.blocks = {
                address: known
                for address, known in earlier.blocks.items()
                if address in own and own[address][0] == known[0]
            }
        window.blocks = {
            address: (size, users_stack(frames))
            for address, (size, frames) in own.items()
            if address not in self._seen
        }
        self.windows.append(window)
        # Addresses of freed blocks are forgotten, because new blocks may get them.
        self._seen = {address for _, address, _, _ in blocks}

    def addresses(self, most: int) -> dict[int, int]:
        """The sizes of at most about ``most`` survivors, by address. Each window contributes the
        same number of survivors, its largest ones."""
        found: dict[int, int] = {}
        share = max(1, most // max(1, len(self.windows)))
        for window in self.windows:
            largest = sorted(window.blocks.items(), key=lambda one: -one[1][0])
            found.update((address, size) for address, (size, _) in largest[:share])
        return found

    def stacks_of(self, addresses: Iterable[int]) -> set[frozenset[tuple[str, int]]]:
        """The stacks of some survivors, each as the files and line numbers of its frames."""
        known = {address: one for window in self.windows for address, one in window.blocks.items()}
        found = (known.get(address) for address in addresses)
        return {
            frozenset((file, line) for file, line, _ in one[1]) for one in found if one is not None
        }

    def describe(self) -> dict[str, Any]:
        """The windows, with their survivors summed by stack, and the stacks, as dictionaries and
        lists."""
        sums: dict[Stack, int] = {}
        for window in self.windows:
            for size, stack in window.blocks.values():
                sums[stack] = sums.get(stack, 0) + size
        named = sorted((stack for stack in sums if stack), key=lambda stack: -sums[stack])
        index = {stack: place for place, stack in enumerate(named[:MOST_STACKS])}
        return {
            "windows": [_described(window, index) for window in self.windows],
            "stacks": [[_frame(*frame) for frame in stack] for stack in index],
        }


class _Sum(NamedTuple):
    stack: int
    bytes: int
    blocks: int


def _described(window: Window, index: dict[Stack, int]) -> dict[str, Any]:
    sums: dict[int, list[int]] = {}
    for size, stack in window.blocks.values():
        place = index.get(stack)
        if place is not None:
            one = sums.setdefault(place, [0, 0])
            one[0] += size
            one[1] += 1
    return {
        "steps": window.steps,
        "seconds": round(window.seconds, 3),
        "growth_bytes": window.growth_bytes,
        "survivor_bytes": window.survivor_bytes,
        "survivors": len(window.blocks),
        "sites": [
            _Sum(place, size, count)._asdict() for place, (size, count) in sorted(sums.items())
        ],
    }


def users_stack(frames: list[dict[str, Any]]) -> Stack:
    """The frames of the user's code, the innermost first; an empty stack when there are none."""
    users = [
        (frame["filename"], int(frame["line"]), frame["name"])
        for frame in frames
        if is_users(frame["filename"])
    ]
    if len(users) > _INNERMOST + _OUTERMOST:
        users = users[:_INNERMOST] + users[-_OUTERMOST:]
    return tuple(users)


def _frame(file: str, line: int, function: str) -> dict[str, Any]:
    text = linecache.getline(file, line).strip()[:_LONGEST_TEXT]
    return {
        "file": _core.sendable_text(file),
        "line": line,
        "function": function,
        "source": _core.sendable_text(text) if text else None,
    }
