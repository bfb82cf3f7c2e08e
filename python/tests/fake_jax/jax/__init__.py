"""As much of JAX as the trackers call; its devices and their memory are set by the tests."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

__version__ = "0.10.2"


class Device:
    """A device with the counters that a GPU of JAX has; ``stats`` None is a CPU's answer."""

    process_index = 0
    client = "client"

    def __init__(self, platform: str = "gpu", number: int = 0) -> None:
        self.platform, self.id = platform, number
        self.device_kind = "cpu" if platform == "cpu" else "NVIDIA H200"
        self.stats: dict[str, int] | None = None
        if platform != "cpu":
            self.stats = {
                "num_allocs": 3,
                "bytes_in_use": 100 << 20,
                "peak_bytes_in_use": 120 << 20,
                "bytes_limit": 1000 << 20,
                "bytes_reserved": 0,
                "pool_bytes": 400 << 20,
            }

    def memory_stats(self) -> dict[str, int] | None:
        return self.stats


DEVICES = [Device("cpu")]


def devices(backend: str | None = None) -> list[Device]:
    found = [device for device in DEVICES if backend in (None, device.platform)]
    if not found:
        raise RuntimeError(f"Unknown backend: '{backend}' requested")
    return found


def default_backend() -> str:
    return DEVICES[0].platform


def block_until_ready(result: Any) -> Any:
    return result


CLEARED: list[int] = []


def clear_caches() -> None:
    CLEARED.append(1)


def _save(path: str) -> None:
    Path(path).write_bytes(b"\x1f\x8b profile")


profiler = types.SimpleNamespace(save_device_memory_profile=_save)
