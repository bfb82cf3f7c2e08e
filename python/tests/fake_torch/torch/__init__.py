"""As much of PyTorch as the trackers call, over counters that a test sets in ``STATE``."""

from __future__ import annotations

import sys
import types
from typing import Any

__version__ = "2.11.0"

MIB = 1 << 20
STATE: dict[str, Any] = {
    "available": True,
    "initialized": True,
    "allocated": 50 * MIB,
    "reserved": 60 * MIB,
    "peak": 50 * MIB,
    "outside": 0,
    "total": 1000 * MIB,
    "core_error": None,
    "stats_error": None,
    "free_blocks": 0,
    "capturing": False,
}
# Blocks that were allocated one by one, by their address: bytes, and the stack when it was recorded.
BLOCKS: dict[int, tuple[int, list[dict[str, Any]]]] = {}
COUNTS = {"made": 0, "freed": 0, "snapshots": 0}
OBSERVERS: list[Any] = []
# What was asked of the allocator's history, and what a snapshot shows.
HISTORY: dict[str, Any] = {"calls": [], "enabled": False, "snapshot": {"segments": []}}


class device:
    def __init__(self, kind: Any, index: int | None = None) -> None:
        if isinstance(kind, device):
            self.type, self.index = kind.type, kind.index
            return
        self.type, _, number = str(kind).partition(":")
        if self.type not in ("cuda", "mps", "cpu", "xpu"):
            raise RuntimeError(f"Expected one of cpu, cuda device type: {kind}")
        self.index = int(number) if number else index

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


class OutOfMemoryError(RuntimeError):
    pass


def _read(name: str) -> Any:
    def read(place: Any = None) -> int:
        if STATE["core_error"]:
            raise RuntimeError(STATE["core_error"])
        return int(STATE[name])

    return read


def _nested_stats(index: int) -> dict[str, Any]:
    if STATE["core_error"]:
        raise RuntimeError(STATE["core_error"])
    STATE["peak"] = max(STATE["peak"], STATE["allocated"])

    def group(current: int, peak: int) -> dict[str, Any]:
        return {"all": {"current": current, "peak": peak, "allocated": 0, "freed": 0}}

    in_use = len(BLOCKS)
    made = {
        "all": {
            "current": in_use,
            "peak": in_use,
            "allocated": COUNTS["made"],
            "freed": COUNTS["freed"],
        }
    }
    stats = {
        "allocation": made,
        "active": made,
        "inactive_split": group(STATE["free_blocks"], 0),
        "allocated_bytes": group(STATE["allocated"], STATE["peak"]),
        "reserved_bytes": group(STATE["reserved"], STATE["reserved"]),
        "num_ooms": 0,
        "num_alloc_retries": 0,
    }
    if not STATE["stats_error"]:
        stats["active_bytes"] = group(STATE["allocated"], STATE["peak"])
        stats["inactive_split_bytes"] = group(0, 0)
    return stats


def _flat_stats(place: Any = None) -> dict[str, int]:
    if STATE["stats_error"]:
        raise RuntimeError(STATE["stats_error"])
    return {
        "active_bytes.all.current": STATE["allocated"],
        "inactive_split_bytes.all.current": 0,
        "reserved_bytes.all.current": STATE["reserved"],
    }


def malloc(size: int, *frames: tuple[str, int, str]) -> int:
    """Allocate a block at the lowest free address; the innermost frame comes first."""
    address = next(at for at in range(1 << 30, 1 << 60, 1 << 20) if at not in BLOCKS)
    named = [{"filename": file, "line": line, "name": name} for file, line, name in frames]
    BLOCKS[address] = (size, named if HISTORY["enabled"] else [])
    STATE["allocated"] += size
    COUNTS["made"] += 1
    return address


def free(address: int) -> None:
    STATE["allocated"] -= BLOCKS.pop(address)[0]
    COUNTS["freed"] += 1


def _memory_snapshot(pool: object) -> dict[str, Any]:
    # The real one looks this up to explain generated code, and loading it takes seconds.
    assert "_inductor" in globals(), "torch._inductor would be imported here"
    COUNTS["snapshots"] += 1
    blocks = [
        {"address": address, "size": size, "state": "active_allocated", "frames": frames}
        for address, (size, frames) in BLOCKS.items()
    ]
    blocks.append({"address": 1, "size": 512, "state": "inactive", "frames": []})
    return {"segments": [{"device": 0, "blocks": blocks}], "device_traces": [[]]}


def run_out_of_memory(requested: int = 8 << 30) -> None:
    """What PyTorch does when an allocation fails: call the observers, then raise."""
    for observer in OBSERVERS:
        observer(0, requested, STATE["total"], STATE["total"] - STATE["reserved"])
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB.")


def is_tensor(item: object) -> bool:
    return False


class Tensor:
    """A tensor at an address of the device."""

    is_cuda, requires_grad, is_leaf, grad, dtype = True, True, True, None, "torch.float32"
    retains_grad, grad_fn = False, None

    def __init__(self, pointer: int, *shape: int, nbytes: int = 24) -> None:
        self.pointer, self.shape, self.device = pointer, shape or (2, 3), device("cuda:0")
        self.storage_bytes = nbytes

    def get_device(self) -> int:
        return 0

    def untyped_storage(self) -> Any:
        return types.SimpleNamespace(
            data_ptr=lambda: self.pointer, nbytes=lambda: self.storage_bytes
        )

    def nelement(self) -> int:
        return 6

    def element_size(self) -> int:
        return 4


def _is_history_enabled() -> bool:
    assert STATE["initialized"], "the real function ends the process here"
    return bool(HISTORY["enabled"])


version = types.SimpleNamespace(cuda="13.0", hip=None)
backends = types.SimpleNamespace()
_C = types.SimpleNamespace(
    _cuda_memoryStats=_nested_stats,
    _cuda_attach_out_of_memory_observer=OBSERVERS.append,
    _cuda_isHistoryEnabled=_is_history_enabled,
    _cuda_memorySnapshot=_memory_snapshot,
)

cuda = types.ModuleType("torch.cuda")
cuda.__dict__.update(
    OutOfMemoryError=OutOfMemoryError,
    is_available=lambda: STATE["available"],
    is_initialized=lambda: STATE["initialized"],
    device_count=lambda: 1 if STATE["available"] else 0,
    current_device=lambda: 0,
    memory_allocated=_read("allocated"),
    memory_reserved=_read("reserved"),
    max_memory_allocated=_read("allocated"),
    max_memory_reserved=_read("reserved"),
    memory_stats=_flat_stats,
    mem_get_info=lambda place=None: (
        STATE["total"] - STATE["reserved"] - STATE["outside"],
        STATE["total"],
    ),
    get_device_properties=lambda place=None: types.SimpleNamespace(
        name="Fake", total_memory=STATE["total"], major=9, minor=0, multi_processor_count=1
    ),
    synchronize=lambda place=None: None,
    empty_cache=lambda: None,
    is_current_stream_capturing=lambda: STATE["capturing"],
    reset_peak_memory_stats=lambda place=None: None,
)
sys.modules["torch.cuda"] = cuda


def _switch_history(enabled: str | None, options: dict[str, Any]) -> None:
    HISTORY["calls"].append((enabled, options))
    HISTORY["enabled"] = enabled is not None


_C._cuda_record_memory_history = _switch_history


def _record_memory_history(enabled: str | None = "all", **options: Any) -> None:
    _C._cuda_record_memory_history(enabled, options)


# Functions passed to `_lazy_call`, which run when the program starts CUDA.
_waiting: list[Any] = []


def _start_cuda() -> None:
    if STATE["initialized"]:
        return
    STATE["initialized"] = True
    for call in _waiting:
        call()


cuda.__dict__.update(
    memory=types.SimpleNamespace(
        _record_memory_history=_record_memory_history,
        _snapshot=lambda: HISTORY["snapshot"],
    ),
    _lazy_call=lambda call: call() if STATE["initialized"] else _waiting.append(call),
    start=_start_cuda,
    init=_start_cuda,
)

nn = types.ModuleType("torch.nn")


class Module:
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)  # type: ignore[attr-defined]


nn.__dict__["Module"] = Module
sys.modules["torch.nn"] = nn

optim = types.ModuleType("torch.optim")


STEP_HOOKS: list[Any] = []


class Optimizer:
    def step(self) -> None:
        for hook in list(STEP_HOOKS):
            hook(self, (), {})


def _register_step_hook(hook: Any) -> Any:
    STEP_HOOKS.append(hook)
    return types.SimpleNamespace(remove=lambda: STEP_HOOKS.remove(hook))


optim.__dict__["Optimizer"] = Optimizer
sys.modules["torch.optim"] = optim
# The real package has the module, but not as an attribute.
optimizer_module = types.ModuleType("torch.optim.optimizer")
optimizer_module.__dict__["register_optimizer_step_post_hook"] = _register_step_hook
sys.modules["torch.optim.optimizer"] = optimizer_module
