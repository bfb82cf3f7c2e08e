"""The ledger of a device: what uses its memory, as far as it is known.

The size of the CUDA context is measured on each device just after the context is created: it is the
number of bytes that the driver reports for this process, minus the bytes that PyTorch has reserved
by then. With ``--driver-allocations``, the bytes of the allocations that CUPTI has reported are
subtracted instead. The size is never computed as the remainder after all other entries of the
ledger. Numbers that are not known are null in a recorded ledger.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from . import _core, _cuda_history, _driver
from ._evidence.budget import BLOCK_S, Budget

EVENT_TYPE = "memory_ledger"

# How soon after its creation a context must be measured. An allocation by PyTorch shows that the
# context is complete; if there is none, the context is measured at the end of this time.
_SOON_S = 0.15
_BETWEEN_TRIES_S = 0.002
# The sizes of PyTorch's pools are read from a snapshot, which is not taken if it may take longer
# than this.
_LONGEST_SNAPSHOT_S = 0.01
# The seconds between two readings, and by how much a number must change before a new ledger is
# recorded: by this share of the device's memory, and at least by this number of bytes.
_READ_S = 2.0
_NEWS_SHARE = 0.01
_NEWS_BYTES = 32 << 20
# A long run records less often: the next ledger follows after this share of the time so far, but
# not sooner than after _FIRST_S seconds.
_LATER_SHARE = 0.05
_FIRST_S = 10.0
_MOST_OTHERS = 16
_MOST_LIBRARIES = 32
# The library of PyTorch's allocator. It is not listed among the libraries, because PyTorch's own
# counters show its memory.
_PYTORCH = "libc10_cuda"


class Context(NamedTuple):
    """The bytes that the CUDA context of this process takes on a device, or the reason why they are
    not known."""

    bytes: int | None
    reason: str | None


def measure_context(torch: Any, index: int, unused_since: float) -> Context:
    """Measure the context on a device that had none at ``unused_since`` (``time.monotonic()``)."""
    gpu = _driver_number(torch, index)
    if gpu is None:
        return Context(None, "the NVIDIA driver does not list this device")
    until = unused_since + _SOON_S
    if time.monotonic() > until:
        late_s = time.monotonic() - unused_since
        return Context(None, f"it was created up to {late_s:.1f} s before a reading")
    reason = "the program allocated faster than its memory could be read"
    while True:
        own = _own_share(gpu)
        known = _known_bytes(torch, index)
        now = time.monotonic()
        if own is None:
            reason = "the NVIDIA driver does not list this process"
        elif known is None:
            return Context(None, "it has CUDA arrays, whose size the driver does not report")
        elif own == _own_share(gpu) and own > known and (known > 0 or now >= until):
            return Context(own - known, None)
        if now >= until:
            return Context(None, reason)
        time.sleep(_BETWEEN_TRIES_S)


def _known_bytes(torch: Any, index: int) -> int | None:
    """The bytes that known allocations of this process take on a device. If
    ``--driver-allocations`` has followed every allocation, they are the allocations of all
    libraries, except managed memory. Otherwise, they are the bytes that PyTorch has reserved. None
    when the size of an allocation is unknown."""
    if _core.driver_state()[0] == "on":
        held, missed = _core.driver_held()
        if not missed:
            on_device = [one for one in held if one["device"] == index and one["kind"] != "managed"]
            sizes = [one["bytes"] for one in on_device]
            return None if None in sizes else sum(map(int, sizes))
    stats = torch._C._cuda_memoryStats(index)
    return int(stats["reserved_bytes"]["all"]["current"])


def _driver_number(torch: Any, index: int) -> int | None:
    """The driver's index of the device that PyTorch numbers ``index``; None when the driver does
    not list the device."""
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


class _Reading(NamedTuple):
    """The memory use of a device at one moment, by process and library. Processes are listed by
    pid; their names are added when the reading is recorded."""

    # Used and total bytes of the device, as the driver counts them.
    shares: tuple[int, int] | None
    # The bytes of this process on the device, and the bytes of each other process, by pid.
    own: int | None
    processes: dict[int, int]
    stats: dict[str, Any]
    driver: dict[str, Any]
    libraries: list[dict[str, Any]] | None

    def stat(self, name: str) -> int:
        """A counter of PyTorch's allocator."""
        return int(self.stats[name]["all"]["current"])

    def sizes(self) -> dict[str, int]:
        """The byte counts of this reading, by name. A new ledger is recorded when one of them has
        changed enough since the last ledger."""
        sizes = {"reserved_bytes": self.stat("reserved_bytes")}
        if self.shares is not None:
            sizes["used_bytes"] = self.shares[0]
        if self.own is not None:
            sizes["process_bytes"] = self.own
            sizes.update((f"pid {pid}", size) for pid, size in self.processes.items())
        for one in self.libraries or []:
            name = f"library {one['library']}"
            sizes[name] = sizes.get(name, 0) + (one["bytes"] or 0)
        return sizes


class DeviceLedger:
    """Records what uses the memory of one device, each time a number has changed enough."""

    def __init__(
        self,
        torch: Any,
        index: int,
        context: Context,
        record: Callable[[str, dict[str, Any]], None],
        budget: Budget,
    ) -> None:
        self._torch, self._index, self._context, self._record = torch, index, context, record
        self._budget = budget
        self._gpu = _driver_number(torch, index)
        self._began = time.monotonic()
        self._next_read = self._next_record = 0.0
        self._last: dict[str, int] | None = None

    def look(self) -> None:
        """Every 2 s, read what uses the device's memory, and record it if it has changed enough and
        enough time has passed since the last record. Called about once a second on a thread of the
        recorder. An error here does not stop that thread."""
        now = time.monotonic()
        if now < self._next_read:
            return
        self._next_read = now + _READ_S
        with suppress(Exception):
            if now >= self._next_record and self._is_news():
                self.record()

    def record(self) -> None:
        """Record what uses the device's memory now."""
        now = time.monotonic()
        self._next_record = now + max(_FIRST_S, (now - self._began) * _LATER_SHARE)
        reading = self._read()
        self._last = reading.sizes()
        # PyTorch's own numbers alone are not recorded here, because samples contain them.
        if reading.shares is not None or reading.libraries is not None:
            self._record(f"What uses device {self._index}", {"ledger": self._entries(reading)})

    def _is_news(self) -> bool:
        if self._last is None:
            return True
        reading = self._read()
        sizes = reading.sizes()
        total = 0 if reading.shares is None else reading.shares[1]
        least = max(_NEWS_BYTES, _NEWS_SHARE * total)
        keys = sizes.keys() | self._last.keys()
        return any(abs(sizes.get(key, 0) - self._last.get(key, 0)) >= least for key in keys)

    def _read(self) -> _Reading:
        shares = None if self._gpu is None else _core.device_shares(self._gpu)
        processes = {} if shares is None else dict(shares[2])
        own = processes.pop(os.getpid(), None)
        driver = _driver.state()
        return _Reading(
            None if shares is None else shares[:2],
            own,
            processes,
            self._torch._C._cuda_memoryStats(self._index),
            driver,
            None if driver["state"] in ("off", "unavailable") else self._libraries(),
        )

    def _entries(self, reading: _Reading) -> dict[str, Any]:
        shares, own = reading.shares, reading.own
        return {
            "version": 1,
            "device": self._index,
            "used_bytes": None if shares is None else shares[0],
            "total_bytes": None if shares is None else shares[1],
            "process_bytes": own,
            "context": self._context._asdict(),
            "reserved_bytes": reading.stat("reserved_bytes"),
            "allocated_bytes": reading.stat("allocated_bytes"),
            "private_pools": self._private_pools(reading),
            # A driver that does not list this process uses the pids of another namespace (as in a
            # container), so its other pids mean nothing here.
            "others": None if own is None else _others(reading.processes),
            "driver": reading.driver,
            "libraries": reading.libraries,
        }

    def _private_pools(self, reading: _Reading) -> dict[str, int] | None:
        """The number of private pools (of CUDA graphs, or made by the program), and their reserved
        and allocated bytes in total; the default pool is not counted. None when these numbers
        cannot be read in a short time. The time that the snapshot takes counts against the budget
        of evidence windows."""
        take = getattr(self._torch._C, "_cuda_memorySnapshot", None)
        blocks = reading.stat("active") + reading.stat("inactive_split")
        began = time.monotonic()
        longest_s = min(_LONGEST_SNAPSHOT_S, self._budget.left(began))
        takes_long = blocks * BLOCK_S > longest_s
        # A history that the program records would be copied with the snapshot, which is slow.
        if take is None or takes_long or _cuda_history.is_on(self._torch):
            return None
        try:
            pools = _core.pool_sizes(self._torch, take, self._index)
        except Exception:
            return None
        finally:
            now = time.monotonic()
            self._budget.pause(now - began, now)
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
            sized = [one for one in rest if one["bytes"] is not None]
            total = {name: sum(one[name] for one in sized) for name in ("bytes", "blocks")}
            found[_MOST_LIBRARIES:] = [{"library": None, "kind": "device", **total}]
            arrays = sum(one["blocks"] for one in rest if one["bytes"] is None)
            if arrays:
                found.append({"library": None, "kind": "array", "bytes": None, "blocks": arrays})
        return found


def _others(processes: dict[int, int]) -> list[dict[str, Any]]:
    """Other processes on the device, ordered by memory use, the largest first."""
    largest = sorted(processes.items(), key=lambda one: -one[1])
    named = [
        {"pid": pid, "name": _core.process_name(pid), "bytes": size}
        for pid, size in largest[:_MOST_OTHERS]
    ]
    rest = largest[_MOST_OTHERS:]
    if rest:
        named.append({"pid": None, "name": None, "bytes": sum(size for _, size in rest)})
    return named
