"""What ``stormlog run`` starts inside a Python program, before its first line.

The first Python process of a run records its own memory, and each rank of a job does. Once
the program has put something on a GPU, a new session records that device instead. Helper
processes are recorded only if they use a GPU.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from . import _oom_hooks
from ._signals import left_to_the_program
from ._torch import loaded_torch
from ._track import rank_directory
from .cpu_profiler import CPUMemoryTracker
from .oom_flight_recorder import classify_oom_exception
from .telemetry import resolve_distributed_identity
from .telemetry_sink import TelemetrySinkConfig

_LAUNCHERS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "deepspeed",
    "accelerate",
)
_LOOK_FOR_GPU_S = 0.1
# Set by ``stormlog diagnose --native-history``: where its files go, and how much is recorded.
HISTORY_DIRECTORY = "STORMLOG_RUN_NATIVE_HISTORY"
HISTORY_ENTRIES = "STORMLOG_RUN_NATIVE_HISTORY_ENTRIES"


class _RunTracker(CPUMemoryTracker):
    session_source = "stormlog.run"

    def handle_exception(self, error: BaseException, *, context: str) -> None:
        """Record an error that ended the program when it says that memory ran out."""
        reason = classify_oom_exception(error).reason
        if reason is None and isinstance(error, MemoryError):
            reason = "MemoryError"
        if reason is not None and self.is_tracking:
            self._owner.core.record_oom(reason)

    def _on_allocator_oom(self, device: int, requested: int, limit: int, free: int) -> None:
        """A device has a tracker of its own."""


def start() -> None:
    """Record this process as the variables of ``stormlog run`` say."""
    root = os.environ.get("STORMLOG_RUN_ROOT")
    if not root or _is_launcher():
        return
    interval = float(os.environ.get("STORMLOG_RUN_INTERVAL", "0.1"))
    directory, records_host = _place(Path(root))
    _Recording(Path(root), directory, interval, records_host).begin()


def _is_launcher() -> bool:
    words = [Path(word).name for word in sys.orig_argv[1:4]]
    return "RANK" not in os.environ and any(word in _LAUNCHERS for word in words)


def _place(root: Path) -> tuple[Path, bool]:
    """Where this process records, and whether its own memory is worth it."""
    if resolve_distributed_identity(env=os.environ)["world_size"] > 1:
        directory = rank_directory(root)
        claim = f"STORMLOG_RUN_CLAIM_{directory.name}"
    else:
        directory, claim = root, "STORMLOG_RUN_CLAIM"
    # Inherited by everything that this process starts, which thereby knows that it is a helper;
    # and by what it runs in its own place, which is still the program.
    this = str(os.getpid())
    if os.environ.setdefault(claim, this) == this:
        return directory, True
    return root / f"pid-{os.getpid()}", False


class _Recording:
    """The session of a process: its own memory first, then that of the device it uses."""

    def __init__(self, root: Path, directory: Path, interval: float, records_host: bool) -> None:
        self._root, self._directory, self._interval = root, directory, interval
        self._host = self._host_tracker() if records_host else None
        os.register_at_fork(after_in_child=self._after_fork)

    def _host_tracker(self) -> _RunTracker:
        return _RunTracker(
            sampling_interval=self._interval,
            telemetry_sink_config=TelemetrySinkConfig(root_dir=self._directory),
        )

    def begin(self) -> None:
        """Start recording and looking out for a device."""
        if self._host is not None:
            self._host.start_tracking()
            _oom_hooks.watch(self._host)
            self._tell()
        if _wants_history():
            from . import _run_history

            place = self._directory.relative_to(self._root)
            folder = Path(os.environ[HISTORY_DIRECTORY]) / place
            _run_history.begin(folder, int(os.environ[HISTORY_ENTRIES]), _used_device)
        self._look_out()

    def _look_out(self) -> None:
        thread = threading.Thread(target=self._look_for_gpu, name="stormlog-run", daemon=True)
        with left_to_the_program():
            thread.start()

    def _after_fork(self) -> None:
        # The child's own memory is its parent's story; a device it uses is not.
        self._host = None
        self._directory = self._root / f"pid-{os.getpid()}"
        self._look_out()

    def _tell(self) -> None:
        """Let the command know that this process records itself."""
        seen = os.environ.get("STORMLOG_RUN_SEEN")
        if seen and os.path.isdir(seen):
            Path(seen, str(os.getpid())).touch()

    def _look_for_gpu(self) -> None:
        pause = threading.Event()
        while not pause.wait(_LOOK_FOR_GPU_S):
            device = _used_device()
            if device is None:
                continue
            try:
                self._switch_to(device)
            except Exception as error:
                sys.stderr.write(f"stormlog: cannot record device {device}: {error}\n")
            return

    def _switch_to(self, device: int) -> None:
        from . import _cuda_history
        from .tracker import MemoryTracker

        if self._host is not None:
            self._host.stop_tracking()
        options: dict[str, Any] = {}
        # Without it the device is recorded all the same.
        if _wants_history() and _cuda_history.is_supported():
            options["enable_native_cuda_history"] = True
            options["native_history_max_entries"] = int(os.environ[HISTORY_ENTRIES])
        tracker = MemoryTracker(
            device=f"cuda:{device}",
            sampling_interval=self._interval,
            enable_oom_flight_recorder=True,
            oom_dump_dir=str(self._directory / "oom_dumps"),
            telemetry_sink_config=TelemetrySinkConfig(root_dir=self._directory),
            **options,
        )
        tracker.start_tracking()
        self._tell()


def _wants_history() -> bool:
    return bool(os.environ.get(HISTORY_DIRECTORY) and os.environ.get(HISTORY_ENTRIES))


def _used_device() -> int | None:
    """The first CUDA device that PyTorch holds memory on; asking starts nothing."""
    torch: Any = loaded_torch()
    try:
        if torch is None or not torch.cuda.is_initialized():
            return None
        for index in range(torch.cuda.device_count()):
            if torch.cuda.memory_reserved(index) > 0:
                return index
    except AttributeError:
        # The module is still being imported.
        return None
    return None
