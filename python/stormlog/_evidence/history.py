"""Switches PyTorch's allocation history on for short times, and lists the blocks with a stack.

A history that the program switched on itself is used as it is and left on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import _core, _cuda_history

# A block with a stack: device, address, bytes, frames.
Block = tuple[int, int, int, list[dict[str, Any]]]

# Why a search is refused when ``History.is_taken``.
TAKEN = "the program began to record PyTorch's allocation history while a window was open"

# PyTorch has one history for all devices of the process, so only one search may use it at a time.
turn = _cuda_history.Turn()


class Counters(NamedTuple):
    """Counters of PyTorch's allocator for one device at one moment."""

    allocated_bytes: int
    # The number of allocations since the program started.
    allocations: int
    # The number of allocations and frees since the program started.
    actions: int
    # The number of blocks that exist now, in use or not.
    blocks: int


class History(_cuda_history.Window):
    """PyTorch's allocation history of this process, used for one device."""

    def __init__(self, torch: Any, device: int) -> None:
        super().__init__(torch)
        self._device = device

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
        """Whether PyTorch records now."""
        return _cuda_history.is_on(self._torch)

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being captured on the current stream."""
        ask = getattr(self._torch.cuda, "is_current_stream_capturing", None)
        return bool(ask()) if ask is not None else False

    def blocks(self) -> tuple[list[Block], int]:
        """Take a snapshot. Returns the blocks in use that have a stack, and the number of all
        blocks, in use or not."""
        return _core.live_blocks(self._torch, self._torch._C._cuda_memorySnapshot)
