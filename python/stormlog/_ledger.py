"""The ledger of a device: what uses its memory, as far as it is known.

The context of CUDA is measured when it has just been created: the driver's number for this process,
less what PyTorch had reserved (or, where the driver's allocations are attributed, less all of them)
at that moment. It is never what is left over. Numbers that are not known are null.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from . import _core, _driver
from ._evidence.budget import BLOCK_S

EVENT_TYPE = "memory_ledger"

# How soon after its creation a context must be measured, and how often that is tried.
_SOON_S = 0.15
_TRIES = 25
_BETWEEN_TRIES_S = 0.001
# A snapshot of the allocator, for the sizes of its pools, takes no longer.
_LONGEST_SNAPSHOT_S = 0.01
# How often the numbers are read, and when they are news: a change by a share of the device, or
# an entry that is new.
_READ_S = 2.0
_NEWS_SHARE = 0.01
_NEWS_BYTES = 32 << 20
# A long run records fewer: the next one after this share of its time.
_LATER_SHARE = 0.05
_FIRST_S = 10.0
_MOST_OTHERS = 16
_MOST_LIBRARIES = 32
# PyTorch's allocator, whose pools are known by its own counters.
_PYTORCH = "libc10_cuda"


class Context(NamedTuple):
    """What the CUDA context of this process takes on a device, or why that is not known."""

    bytes: int | None
    reason: str | None


def measure_context(torch: Any, index: int, unused_before_s: float) -> Context:
    """The context on a device that came into use in the last so many seconds."""
    if unused_before_s > _SOON_S:
        return Context(None, f"it was created up to {unused_before_s:.1f} s before a reading")
    gpu = _driver_number(torch, index)
    if gpu is None:
        return Context(None, "the NVIDIA driver does not list this device")
    for _ in range(_TRIES):
        before = _own_share(gpu)
        known = _driver_bytes(index)
        if known is None:
            stats = torch._C._cuda_memoryStats(index)
            known = int(stats["reserved_bytes"]["all"]["current"])
        if before is None:
            return Context(None, "the NVIDIA driver does not list this process")
        if before == _own_share(gpu) and before > known > 0:
            return Context(before - known, None)
        time.sleep(_BETWEEN_TRIES_S)
    return Context(None, "the program allocated faster than its memory could be read")


def _driver_number(torch: Any, index: int) -> int | None:
    """The driver's number of a device of PyTorch."""
    try:
        uuid = str(torch.cuda.get_device_properties(index).uuid).removeprefix("GPU-")
    except Exception:
        return None
    for gpu in _core.nvml_gpus():
        if str(gpu["uuid"]).removeprefix("GPU-") == uuid:
            return int(gpu["index"])
    return None


def _own_share(gpu: int) -> int | None:
    shares = _core.device_shares(gpu)
    return None if shares is None else dict(shares[2]).get(os.getpid())


def _driver_bytes(index: int) -> int | None:
    """Everything that the driver allocated on a device; none where that is not followed."""
    if _core.driver_state()[0] != "on":
        return None
    held, missed = _core.driver_held()
    if missed:
        return None
    on_device = [one for one in held if one["device"] == index and one["kind"] != "managed"]
    return sum(int(one["bytes"]) for one in on_device)


class DeviceLedger:
    """Records what uses one device, when that has changed."""

    def __init__(
        self,
        torch: Any,
        index: int,
        context: Context,
        record: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._torch, self._index, self._context, self._record = torch, index, context, record
        self._gpu = _driver_number(torch, index)
        self._began = time.monotonic()
        self._next_read = self._next_record = 0.0
        self._last: dict[str, int] | None = None

    def look(self) -> None:
        """Read the numbers where that is due. Called about once a second on a thread of the
        recorder, which goes on whatever fails here."""
        now = time.monotonic()
        if now < self._next_read:
            return
        self._next_read = now + _READ_S
        with suppress(Exception):
            if now >= self._next_record and self._is_news():
                self.record()

    def record(self) -> None:
        """Record the numbers of now."""
        now = time.monotonic()
        self._next_record = now + max(_FIRST_S, (now - self._began) * _LATER_SHARE)
        entries = self._entries()
        self._last = _sizes(entries)
        # PyTorch's own numbers are in the samples.
        if entries["used_bytes"] is not None or entries["libraries"] is not None:
            self._record(f"What uses device {self._index}", {"ledger": entries})

    def _is_news(self) -> bool:
        if self._last is None:
            return True
        entries = self._entries(with_pools=False)
        sizes = _sizes(entries)
        least = max(_NEWS_BYTES, _NEWS_SHARE * (entries["total_bytes"] or 0))
        keys = sizes.keys() | self._last.keys()
        return any(abs(sizes.get(key, 0) - self._last.get(key, 0)) >= least for key in keys)

    def _entries(self, with_pools: bool = True) -> dict[str, Any]:
        shares = None if self._gpu is None else _core.device_shares(self._gpu)
        processes = {} if shares is None else dict(shares[2])
        own = processes.pop(os.getpid(), None)
        stats = self._torch._C._cuda_memoryStats(self._index)
        driver = _driver.state()
        return {
            "version": 1,
            "device": self._index,
            "used_bytes": None if shares is None else shares[0],
            "total_bytes": None if shares is None else shares[1],
            "process_bytes": own,
            "context": self._context._asdict(),
            "reserved_bytes": int(stats["reserved_bytes"]["all"]["current"]),
            "allocated_bytes": int(stats["allocated_bytes"]["all"]["current"]),
            "private_pools": self._private_pools(stats) if with_pools else None,
            # A driver that knows processes by the numbers of another namespace knows none of ours.
            "others": None if own is None else _others(processes),
            "driver": driver,
            "libraries": None if driver["state"] in ("off", "unavailable") else self._libraries(),
        }

    def _private_pools(self, stats: dict[str, Any]) -> dict[str, int] | None:
        """The pools of CUDA graphs and others that the program made, apart from the common one."""
        functions = self._torch._C
        take = getattr(functions, "_cuda_memorySnapshot", None)
        is_on = getattr(functions, "_cuda_isHistoryEnabled", None)
        blocks = stats["active"]["all"]["current"] + stats["inactive_split"]["all"]["current"]
        takes_long = blocks * BLOCK_S > _LONGEST_SNAPSHOT_S
        # A history of the program would be copied with the snapshot.
        if take is None or takes_long or (is_on is not None and is_on()):
            return None
        try:
            pools = _core.pool_sizes(self._torch, take, self._index)
        except Exception:
            return None
        private = [pool for pool in pools if pool[0] != (0, 0)]
        return {
            "pools": len(private),
            "reserved_bytes": sum(pool[1] for pool in private),
            "allocated_bytes": sum(pool[2] for pool in private),
        }

    def _libraries(self) -> list[dict[str, Any]]:
        held, _ = _core.driver_held()
        found = []
        for one in held:
            is_pytorchs = str(one["library"] or "").startswith(_PYTORCH)
            if one.pop("device") in (self._index, None) and not is_pytorchs:
                found.append(one)
        rest = found[_MOST_LIBRARIES:]
        if rest:
            total = {name: sum(one[name] for one in rest) for name in ("bytes", "blocks")}
            found[_MOST_LIBRARIES:] = [{"library": None, "kind": "device", **total}]
        return found


def _others(processes: dict[int, int]) -> list[dict[str, Any]]:
    """Other processes on the device, those with the most memory first."""
    largest = sorted(processes.items(), key=lambda one: -one[1])
    named = [
        {"pid": pid, "name": _core.process_name(pid), "bytes": size}
        for pid, size in largest[:_MOST_OTHERS]
    ]
    rest = largest[_MOST_OTHERS:]
    if rest:
        named.append({"pid": None, "name": None, "bytes": sum(size for _, size in rest)})
    return named


def _sizes(entries: dict[str, Any]) -> dict[str, int]:
    """The numbers whose changes are news, by name."""
    sizes = {
        name: entries[name]
        for name in ("used_bytes", "process_bytes", "reserved_bytes")
        if entries[name] is not None
    }
    for one in entries["others"] or []:
        sizes[f"pid {one['pid']}"] = one["bytes"]
    for one in entries["libraries"] or []:
        name = f"library {one['library']}"
        sizes[name] = sizes.get(name, 0) + one["bytes"]
    return sizes
