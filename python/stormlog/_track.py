"""``stormlog.track()``: records a GPU if the program uses PyTorch with one, else the host memory of
this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._torch import loaded_torch
from .device_collectors import (
    CallableCollector,
    DeviceMemoryCollector,
    detect_torch_runtime_backend,
)
from .errors import MissingFrameworkError, NoAcceleratorError
from .telemetry import resolve_distributed_identity

if TYPE_CHECKING:
    from .cpu_profiler import CPUMemoryTracker
    from .tracker import MemoryTracker

    Tracker = MemoryTracker | CPUMemoryTracker


def track(
    path: str | os.PathLike[str] | None = None,
    *,
    device: Any = None,
    interval: float = 0.1,
    collector: DeviceMemoryCollector | Callable[[], Any] | None = None,
    oom_dump_dir: str | os.PathLike[str] | None = None,
    max_events: int = 10000,
) -> Tracker:
    """Start recording, and return the running tracker.

    Without ``device`` and ``collector`` it records the GPU that PyTorch can use, if the program has
    imported PyTorch, and otherwise the host memory of the process. With ``device`` it raises an
    error if that device is not available. A ``collector`` replaces the source of the readings.
    ``interval`` is the time between two samples in seconds, and ``max_events`` the number of events
    that are kept in memory. ``path`` is the directory of the sink; in a job of several ranks each
    rank gets a directory below it. While a device is recorded, an out-of-memory error leaves a
    bundle in ``oom_dump_dir``. Without ``oom_dump_dir`` the bundle is written to ``oom_dumps`` in
    the directory of the sink, and without a ``path`` no bundle is written.

        with stormlog.track("runs/today"):
            train()
    """
    from .cpu_profiler import CPUMemoryTracker
    from .telemetry_sink import TelemetrySinkConfig
    from .tracker import MemoryTracker

    sink = None
    if path is not None:
        identity = resolve_distributed_identity(env=os.environ)
        sink = TelemetrySinkConfig(root_dir=rank_directory(Path(path), identity))
    if oom_dump_dir is None and sink is not None:
        oom_dump_dir = sink.root_dir / "oom_dumps"
    if collector is not None and not isinstance(collector, DeviceMemoryCollector):
        collector = CallableCollector(collector)
    wants_device = device is not None or collector is not None
    tracker: Tracker
    if wants_device or _torch_has_device():
        try:
            tracker = MemoryTracker(
                device=device,
                sampling_interval=interval,
                max_events=max_events,
                enable_oom_flight_recorder=oom_dump_dir is not None,
                oom_dump_dir=os.fspath(oom_dump_dir or "oom_dumps"),
                telemetry_sink_config=sink,
                collector=collector,
            )
        except (MissingFrameworkError, NoAcceleratorError):
            if wants_device:
                raise
        else:
            tracker.start_tracking()
            return tracker
    tracker = CPUMemoryTracker(
        sampling_interval=interval, max_events=max_events, telemetry_sink_config=sink
    )
    tracker.start_tracking()
    return tracker


def rank_directory(root: Path, identity: Mapping[str, Any]) -> Path:
    """The directory for the recordings of a process: ``root`` itself, or a directory of the rank
    below it when the job has several ranks."""
    return root / f"rank-{identity['rank']:04}" if identity["world_size"] > 1 else root


def _torch_has_device() -> bool:
    # A program that has not imported PyTorch by now does not use it; importing it to check would
    # take seconds.
    return loaded_torch() is not None and detect_torch_runtime_backend() != "cpu"
