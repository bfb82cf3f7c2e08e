"""The recorder that ``stormlog run`` starts inside a Python program that uses a framework.

Every device on which the process holds memory gets its own session. Host memory is not read here:
the process of ``stormlog run`` reads the host memory of all processes of the program.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import _core, _cuda_start, _driver, _ledger, _memory_errors, _run_evidence, _run_phases
from ._evidence.budget import Budget
from ._signals import left_to_the_program
from ._step_counter import StepCounter
from ._torch import loaded_torch
from ._track import rank_directory
from .telemetry_sink import TelemetrySinkConfig
from .tracker import MemoryTracker

_LAUNCHERS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "deepspeed",
    "accelerate",
)
# The seconds between two looks for devices in use: _LOOK_SELDOM_S once a device is in use. Until
# then, _LOOK_SOON_S in the _SOON_FOR_S seconds after a context was created, otherwise
# _LOOK_OFTEN_S. Each look holds the interpreter lock for 20 µs per device.
_LOOK_OFTEN_S = 0.1
_LOOK_SOON_S, _SOON_FOR_S = 0.02, 3.0
_LOOK_SELDOM_S = 1.0
# The driver is asked for new contexts after CUDA has started, so that each context is measured just
# after its creation: every _ASK_SOON_S seconds at first, later every _ASK_S. Asking takes a
# microsecond per device and does not hold the interpreter lock. After _ASK_FOR_S seconds without a
# new context the driver is asked only with each look, so that a long run is not disturbed.
_ASK_SOON_S, _ASK_S, _ASK_FOR_S = 0.002, 0.02, 60.0
# Set by ``stormlog diagnose --native-history``: where to write the files, and how many entries to
# record.
HISTORY_DIRECTORY = "STORMLOG_RUN_NATIVE_HISTORY"
HISTORY_ENTRIES = "STORMLOG_RUN_NATIVE_HISTORY_ENTRIES"

# The name of a framework ("cuda", "jax") and the index that it gives a device.
# Variables with settings of PyTorch's allocator.
_ALLOCATOR_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_LONGEST_SETTINGS = 400
_Device = tuple[str, int]
_recording: _Recording | None = None


def _warn(text: str) -> None:
    # The program may have closed the stream.
    with suppress(Exception):
        sys.stderr.write(f"stormlog: {text}\n")


class _Quiet:
    """What the trackers of ``stormlog run`` have in common. The program did not start them, so they
    write only failures to its standard error, and nothing else to its log or standard error."""

    session_source = "stormlog.run"
    _samples_only = True
    _announces_bundles = False
    _report_notice = staticmethod(_warn)


class _TorchTracker(_Quiet, MemoryTracker):
    def __init__(self, index: int, start_metadata: dict[str, Any], **options: Any) -> None:
        self._start_metadata = start_metadata
        # Alerts are off, because the analysis sees the whole run and finds problems better.
        super().__init__(
            device=f"cuda:{index}",
            enable_alerts=False,
            enable_oom_flight_recorder=True,
            **options,
        )


def _jax_tracker(index: int, start_metadata: dict[str, Any], **options: Any) -> Any:
    from .jax.tracker import MemoryTracker as JaxMemoryTracker

    class JaxTracker(_Quiet, JaxMemoryTracker):
        _start_metadata = start_metadata

    return JaxTracker(
        device_index=index, enable_logging=False, enable_oom_flight_recorder=True, **options
    )


# Makes the tracker for a device of a framework.
_TRACKERS: dict[str, Callable[..., Any]] = {"cuda": _TorchTracker, "jax": _jax_tracker}


def start() -> None:
    """Record the devices of this process, with the settings that ``stormlog run`` has put into
    environment variables."""
    global _recording
    root, inbox = os.environ.get("STORMLOG_RUN_ROOT"), os.environ.get("STORMLOG_RUN_INBOX")
    if not root or not inbox or _recording is not None or _is_launcher():
        return
    interval = float(os.environ.get("STORMLOG_RUN_INTERVAL", "0.1"))
    _recording = _Recording(Path(root), Path(inbox), interval)
    _recording.begin()


def _is_launcher() -> bool:
    return "RANK" not in os.environ and _program() in _LAUNCHERS


def _program() -> str | None:
    """The name of the script or module that the interpreter runs; None for code of ``-c``.
    ``sys.argv`` is not used, because the program may have changed it."""
    words = iter(sys.orig_argv[1:])
    for word in words:
        if word == "--check-hash-based-pycs":
            next(words, None)
        elif word == "-" or not word.startswith("-"):
            return Path(word).name
        elif not word.startswith("--"):
            # The first option of the word that takes a value; its value is the rest of the word, or
            # the next word.
            position = next((at for at, letter in enumerate(word) if letter in "mcWX"), None)
            if position is not None:
                value = word[position + 1 :] or next(words, None)
                if word[position] in "mc":
                    return value if word[position] == "m" else None
    return None


class _Recording:
    """Records the devices of one process."""

    def __init__(self, root: Path, inbox: Path, interval: float) -> None:
        self._root, self._inbox, self._interval = root, inbox, interval
        self._directory: Path | None = None
        self.trackers: dict[_Device, Any] = {}
        self._evidence: list[_run_evidence.DeviceEvidence] = []
        self._ledgers: list[_ledger.DeviceLedger] = []
        self._wakes = threading.Event()
        self._cuda_since: float | None = None
        self._contexts: dict[int, _ledger.Context] = {}
        # When it was last known that no new context existed, and when the newest context was found
        # (`time.monotonic()`).
        self._none_until = self._newest = 0.0
        self._steps = StepCounter(inbox)
        os.register_at_fork(after_in_child=self._after_fork)

    def begin(self) -> None:
        """Start the thread that looks for devices in use and records them."""
        if _wants_history():
            from . import _run_history

            folder = Path(os.environ[HISTORY_DIRECTORY]) / self._place().relative_to(self._root)
            entries = int(os.environ[HISTORY_ENTRIES])
            _run_history.begin(folder, entries, lambda: next(iter(_torch_devices()), None))
        _cuda_start.notify(self._cuda_starts, self._cuda_started)
        with suppress(Exception):
            _memory_errors.watch(self._inbox)
        thread = threading.Thread(target=self._look, name="stormlog-run", daemon=True)
        with left_to_the_program():
            thread.start()

    def _after_fork(self) -> None:
        # Trackers and threads belong to the parent; the child records the devices that it uses
        # itself.
        self.trackers = {}
        self._evidence, self._ledgers = [], []
        self._wakes, self._cuda_since = threading.Event(), None
        self._contexts = {}
        self._directory = None
        self._steps.forget()
        self._steps = StepCounter(self._inbox)
        self.begin()

    def _cuda_starts(self) -> None:
        """Called on the thread that is about to start CUDA."""
        # Another library may have created a context before, and may have allocated memory in it.
        earlier, _ = _core.wait_for_contexts([], _ASK_S, 0.0)
        reason = "it existed before PyTorch started CUDA"
        self._contexts.update((index, _ledger.Context(None, reason)) for index in earlier)
        self._none_until = time.monotonic()

    def _cuda_started(self) -> None:
        """Called on the thread that has started CUDA, before it creates a context."""
        self._cuda_since = time.monotonic()
        self._wakes.set()
        if _driver.is_wanted():
            reason = _driver.start()
            if reason is not None:
                _warn(f"the driver's allocations are not attributed: {reason}")

    def _pause(self) -> None:
        """Wait until it is time to look for devices in use again. Meanwhile, measure the contexts
        that are created."""
        if self._cuda_since is None:
            # Woken once, when CUDA starts.
            self._wakes.wait(_LOOK_SELDOM_S if self.trackers else _LOOK_OFTEN_S)
            return
        now = time.monotonic()
        since = now - max(self._cuda_since, self._newest)
        is_soon = since < _SOON_FOR_S
        if self.trackers:
            pause = _LOOK_SELDOM_S
        else:
            pause = _LOOK_SOON_S if is_soon and self._contexts else _LOOK_OFTEN_S
        every = _ASK_SOON_S if is_soon and not self._contexts else _ASK_S
        if since > _ASK_FOR_S:
            every = pause
        found, last_without = _core.wait_for_contexts(list(self._contexts), every, pause)
        if last_without is not None:
            self._none_until = now + last_without
        for index in found:
            self._newest = time.monotonic()
            self._contexts[index] = self._measured(index)

    def _measured(self, index: int) -> _ledger.Context:
        try:
            return _ledger.measure_context(loaded_torch(), index, self._none_until)
        except Exception as error:
            return _ledger.Context(None, f"{type(error).__name__}: {error}")

    def _look(self) -> None:
        failed: set[_Device] = set()
        followed = 0.0
        while True:
            self._pause()
            if time.monotonic() - followed >= _LOOK_OFTEN_S:
                followed = time.monotonic()
                _run_phases.follow(self.phase)
                self._steps.look()
            for evidence in self._evidence:
                evidence.look()
            used = [("cuda", index) for index in _torch_devices()]
            used += [("jax", index) for index in _jax_devices()]
            for device in used:
                if device in self.trackers or device in failed:
                    continue
                try:
                    self._record(device)
                except Exception as error:
                    failed.add(device)
                    _warn(f"cannot record device {device[0]}:{device[1]}: {error}")
            for ledger in self._ledgers:
                ledger.look()

    def _record(self, device: _Device) -> None:
        from . import _cuda_history

        framework, index = device
        directory = self._place()
        if self.trackers:
            directory = directory / f"gpu-{index}"
        options: dict[str, Any] = {}
        # The history is recorded only if the first device of the process is a CUDA device whose
        # PyTorch supports a history. Without it, samples are recorded as usual.
        is_first = framework == "cuda" and not self.trackers
        if _wants_history() and is_first and _cuda_history.is_supported():
            options["enable_native_cuda_history"] = True
            options["native_history_max_entries"] = int(os.environ[HISTORY_ENTRIES])
        tracker = _TRACKERS[framework](
            index,
            self._describe(device),
            sampling_interval=self._interval,
            oom_dump_dir=str(directory / "oom_dumps"),
            telemetry_sink_config=TelemetrySinkConfig(
                root_dir=directory, thinning_budget_bytes=_core.THINNING_BUDGET_BYTES
            ),
            **_identity(),
            **options,
        )
        tracker.start_tracking()
        self.trackers[device] = tracker
        self._mark("device")
        if framework == "cuda":
            budget = Budget()
            self._keep_ledger(index, tracker, budget)
            # A history that is always on makes evidence windows unnecessary.
            if not _wants_history():
                with suppress(Exception):
                    evidence = _run_evidence.of_tracker(index, tracker, budget)
                    self._evidence += [] if evidence is None else [evidence]

    def _keep_ledger(self, index: int, tracker: Any, budget: Budget) -> None:
        torch: Any = loaded_torch()
        if not hasattr(getattr(torch, "_C", None), "_cuda_memoryStats"):
            return
        unseen = _ledger.Context(None, "its creation was not seen")
        core = tracker._owner.core
        ledger = _ledger.DeviceLedger(
            torch,
            index,
            self._contexts.get(index, unseen),
            lambda text, metadata: core.record(_ledger.EVENT_TYPE, 0, text, metadata),
            budget,
        )
        self._ledgers.append(ledger)
        # Functions at exit run in reverse order. So this one runs before that of the tracker, which
        # was registered earlier and ends the session.
        atexit.register(self._close_ledger, ledger, os.getpid())

    def _close_ledger(self, ledger: _ledger.DeviceLedger, pid: int) -> None:
        if os.getpid() == pid:
            with suppress(Exception):
                ledger.record()

    def _describe(self, device: _Device) -> dict[str, Any]:
        torch: Any = loaded_torch()
        name = " ".join(Path(word).name if "/" in word else word for word in sys.argv[:1])
        return {
            "run_id": os.environ.get("STORMLOG_RUN_ID"),
            "resource": f"{device[0]}:{device[1]}",
            "process": {"pid": os.getpid(), "name": name or sys.executable},
            "versions": {
                "python": sys.version.split()[0],
                "torch": str(getattr(torch, "__version__", "")) or None,
                "cuda": getattr(getattr(torch, "version", None), "cuda", None),
                "jax": getattr(sys.modules.get("jax"), "__version__", None),
            },
            "allocator_settings": {
                name: _core.sendable_text(os.environ[name][:_LONGEST_SETTINGS])
                for name in _ALLOCATOR_SETTINGS
                if os.environ.get(name)
            },
        }

    def _place(self) -> Path:
        """The directory for the recordings of this process. The first process of a run or rank
        uses the directory of the run or rank, every other process a directory of its own."""
        if self._directory is None:
            directory = rank_directory(self._root, _identity())
            is_first = self._claim("run" if directory == self._root else directory.name)
            self._directory = directory if is_first else self._root / f"pid-{os.getpid()}"
        return self._directory

    def _claim(self, name: str) -> bool:
        path, this = self._inbox / f"claim-{name}", str(os.getpid())
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(this)
        except FileExistsError:
            # This process may have claimed the name itself, before it replaced its program by
            # another one (``exec``).
            return path.read_text() == this
        except OSError:
            return False
        return True

    def _mark(self, kind: str) -> None:
        """Write an empty file to the inbox. It shows ``stormlog run`` what kind of resource this
        process records itself."""
        # `stormlog run` may have ended and deleted its inbox.
        with suppress(OSError):
            (self._inbox / f"{kind}-{os.getpid()}").touch()

    def phase(self, name: str) -> Callable[[], None]:
        """Begin a phase in the session of every device. The returned function ends it."""
        handles = [tracker.enter_phase(name) for tracker in list(self.trackers.values())]

        def leave() -> None:
            for handle in handles:
                handle.close()

        return leave


def _identity() -> dict[str, Any]:
    """Job id, rank, local rank and world size of this process, from the same environment variables
    that ``stormlog run`` reads."""
    return _core.recorded_identity(dict(os.environ))


def _wants_history() -> bool:
    return bool(os.environ.get(HISTORY_DIRECTORY) and os.environ.get(HISTORY_ENTRIES))


def _torch_devices() -> list[int]:
    """The indices of the CUDA devices on which PyTorch holds memory. This does not start CUDA."""
    torch: Any = loaded_torch()
    try:
        if torch is None or not torch.cuda.is_initialized():
            return []
        read = getattr(torch._C, "_cuda_memoryStats", None)
        devices = range(torch.cuda.device_count())
        if read is None:
            return [index for index in devices if torch.cuda.memory_reserved(index) > 0]
        return [index for index in devices if read(index)["reserved_bytes"]["all"]["current"] > 0]
    except Exception:
        # The module is still being imported, or the interpreter shuts down.
        return []


def _jax_devices() -> list[int]:
    """The indices of the devices of this process for which JAX counts memory. Empty until the
    program has started a backend of JAX; this function starts none."""
    jax: Any = sys.modules.get("jax")
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    try:
        if jax is None or not bridge.backends_are_initialized():
            return []
        local = {device.id for device in jax.local_devices() if device.memory_stats()}
        return [index for index, device in enumerate(jax.devices()) if device.id in local]
    except Exception:
        # The module is still being imported, or no longer has this function.
        return []
