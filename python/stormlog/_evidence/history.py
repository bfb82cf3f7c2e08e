"""Switches PyTorch's allocation history on for short times, and reads the blocks that it shows.

A history that the program switched on itself is used as it is and left on.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any, NamedTuple

from .. import _core

# A block with a stack: device, address, bytes, frames.
Block = tuple[int, int, int, list[dict[str, Any]]]


class Turn:
    """A lock that is free in a forked child, where the thread that held it does not exist."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock and return True; without ``blocking``, return False if it is taken."""
        return self._lock.acquire(blocking=blocking)

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()


# PyTorch has one history for all devices of the process, so only one search may use it at a time.
turn = Turn()


class Counters(NamedTuple):
    """Counters of PyTorch's allocator for one device at one moment."""

    allocated_bytes: int
    # Since the program started: allocations, and allocations plus frees.
    allocations: int
    actions: int
    blocks: int


class History:
    """PyTorch's allocation history of this process, used for one device."""

    def __init__(self, torch: Any, device: int) -> None:
        self._torch, self._device = torch, device
        self._original: Any = None
        # Whether the program switched the history on itself while we had it on.
        self.is_taken = False

    def counters(self) -> Counters:
        """Read the counters, which takes 20 µs."""
        stats = self._torch._C._cuda_memoryStats(self._device)
        allocations = stats["allocation"]["all"]
        active, inactive = stats["active"]["all"], stats["inactive_split"]["all"]
        return Counters(
            stats["allocated_bytes"]["all"]["current"],
            allocations["allocated"],
            allocations["allocated"] + allocations["freed"],
            active["current"] + inactive["current"],
        )

    def is_on(self) -> bool:
        """Whether PyTorch records now. Before CUDA is in use, this returns False without asking
        PyTorch, because the question would end the process."""
        ask = getattr(self._torch._C, "_cuda_isHistoryEnabled", None)
        return bool(ask()) if ask is not None and self._torch.cuda.is_initialized() else False

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being captured on the current stream."""
        ask = getattr(self._torch.cuda, "is_current_stream_capturing", None)
        return bool(ask()) if ask is not None else False

    def switch_on(self) -> None:
        """Record the stack of each new block, but no list of past allocations and frees."""
        self.is_taken = False
        self._torch.cuda.memory._record_memory_history(
            enabled="state", context="state", stacks="python"
        )
        functions = self._torch._C
        original = getattr(functions, "_cuda_record_memory_history", None)
        if original is None:
            return

        def noticed(*arguments: Any, **options: Any) -> Any:
            self.is_taken = True
            self._restore()
            return original(*arguments, **options)

        self._original = (original, noticed)
        functions._cuda_record_memory_history = noticed

    def switch_off(self) -> None:
        """Stop recording, unless the program has switched the history on itself meanwhile."""
        self._restore()
        if not self.is_taken:
            self._torch.cuda.memory._record_memory_history(enabled=None)

    def _restore(self) -> None:
        if self._original is None:
            return
        (original, noticed), self._original = self._original, None
        functions = self._torch._C
        if functions._cuda_record_memory_history is noticed:
            functions._cuda_record_memory_history = original

    def blocks(self) -> tuple[list[Block], int]:
        """The blocks in use that have a stack, and the number of all blocks."""
        return _core.live_blocks(self._torch, self._torch._C._cuda_memorySnapshot)
