"""``stormlog.track()``: records a GPU if PyTorch can use one, else the memory of this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from ._torch import loaded_torch
from .device_collectors import CallableCollector, DeviceMemoryCollector
from .errors import MissingFrameworkError, NoAcceleratorError
from .telemetry import resolve_distributed_identity

if TYPE_CHECKING:
    from .cpu_profiler import CPUMemoryTracker
    from .tracker import MemoryTracker

    Tracker = Union[MemoryTracker, CPUMemoryTracker]


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

    Without a device it uses the GPU that PyTorch can use, or else the memory of the process. With a
    device it fails if that device is not available. ``path`` is the directory of the session; under
    torchrun, mpirun or srun each rank gets a directory below it. An out-of-memory error leaves a
    bundle in ``oom_dump_dir``, or beside the session when there is a path.

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
    """The directory of a process below a root: the root itself, unless the job has several ranks."""
    return root / f"rank-{identity['rank']:04}" if identity["world_size"] > 1 else root


def _torch_has_device() -> bool:
    # A program that has not imported PyTorch by now does not use it; importing it to check would
    # take seconds.
    torch: Any = loaded_torch()
    if torch is None:
        return False
    if torch.cuda.is_available():
        return True
    mps = getattr(torch.backends, "mps", None)
    return mps is not None and bool(mps.is_available())
