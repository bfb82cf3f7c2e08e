"""Tracks the memory of an accelerator while the program runs."""

from __future__ import annotations

import gc
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _core, _cuda_history, _oom_cause
from ._compat.legacy_names import legacy_names
from ._oom_bundles import BundlingTracker, Failure
from ._torch import loaded_torch, require_torch
from ._tracking import RecordedEvent, check_limits, given_identity
from .cuda_native_debug import (
    DEFAULT_TRACE_ALLOC_MAX_ENTRIES,
    capture_cuda_snapshot_artifacts,
)
from .device_collectors import DeviceMemoryCollector, build_device_memory_collector
from .errors import InvalidValueError
from .oom_flight_recorder import OOMFlightRecorderConfig, oom_reason
from .utils import format_bytes, get_gpu_info

if TYPE_CHECKING:
    import torch

    from .telemetry_sink import TelemetrySinkConfig

__all__ = ["MemoryTracker", "MemoryWatchdog", "TrackingEvent"]

logger = logging.getLogger(__name__)

_TORCH_OOM = ("OutOfMemoryError", "torch")
_TORCH_REASON = "torch.cuda.OutOfMemoryError"
# PyTorch's messages give sizes with two decimals: "1.00 MiB".
_ROUNDING = 0.01


@dataclass
class TrackingEvent(RecordedEvent):
    """One event of a tracker."""

    backend: str = "cuda"


class _Thresholds(dict[str, float]):
    """Thresholds of alerts. A changed threshold is passed to the recorder at once."""

    def __init__(self, set_limit: Callable[[str, float], None]) -> None:
        super().__init__(_core.DEFAULT_THRESHOLDS)
        self._set_limit = set_limit

    def __setitem__(self, name: str, value: float) -> None:
        self._set_limit(name, value)
        super().__setitem__(name, value)


class MemoryTracker(BundlingTracker):
    """Tracks a CUDA, ROCm or MPS device. A background thread takes the samples.

    With ``enable_oom_flight_recorder`` an out-of-memory error leaves a bundle, even if it is not
    caught. With ``enable_native_cuda_history`` PyTorch records what its allocator does while the
    tracker runs, and a bundle contains that too. ``alert`` is a URL: a separate process reads the
    telemetry sink and sends findings to this URL as they appear.
    """

    _event_class = TrackingEvent

    def __init__(
        self,
        device: str | int | torch.device | None = None,
        sampling_interval: float = 0.1,
        max_events: int = 10000,
        enable_alerts: bool = True,
        enable_oom_flight_recorder: bool = False,
        oom_dump_dir: str = "oom_dumps",
        oom_buffer_size: int | None = None,
        oom_max_dumps: int = 5,
        oom_max_total_mb: int = 256,
        job_id: str | None = None,
        rank: int | None = None,
        local_rank: int | None = None,
        world_size: int | None = None,
        enable_native_cuda_history: bool = False,
        native_history_max_entries: int = DEFAULT_TRACE_ALLOC_MAX_ENTRIES,
        telemetry_sink_config: TelemetrySinkConfig | None = None,
        *,
        collector: DeviceMemoryCollector | None = None,
        alert: str | None = None,
    ) -> None:
        check_limits(sampling_interval, max_events)
        if native_history_max_entries < 1:
            raise InvalidValueError("native_history_max_entries must be >= 1")
        if enable_native_cuda_history:
            _cuda_history.memory_functions()
        self.collector = collector or build_device_memory_collector(device)
        self.device = getattr(self.collector, "device", None)
        self.collector_capabilities = self.collector.capabilities()
        self.backend = self.collector_capabilities["backend"]
        self.enable_native_cuda_history = enable_native_cuda_history
        self.native_history_max_entries = native_history_max_entries
        self.alert_callbacks: list[Callable[[TrackingEvent], None]] = []
        # The bundle of the last error that PyTorch's observer reported, and the bytes that were
        # requested.
        self._announced_oom: tuple[str, int] | None = None
        self._records_history = False
        bundle_events = self._set_up_bundles(
            OOMFlightRecorderConfig(
                enabled=enable_oom_flight_recorder,
                dump_dir=oom_dump_dir,
                buffer_size=max_events if oom_buffer_size is None else oom_buffer_size,
                max_dumps=oom_max_dumps,
                max_total_mb=oom_max_total_mb,
            )
        )
        self._set_up(
            sampling_interval=sampling_interval,
            max_events=max_events,
            enable_alerts=enable_alerts,
            identity=given_identity(job_id, rank, local_rank, world_size),
            telemetry_sink_config=telemetry_sink_config,
            bundle_events=bundle_events,
            collector=self.collector,
            listener=self._deliver_alert,
            alert=alert,
        )
        self.thresholds: dict[str, float] = _Thresholds(self._set_limit)
        self.gpu_info = get_gpu_info(self.device) if self.device is not None else {}
        sample = self.collector.sample_with_diagnostics().sample
        self.total_memory = (sample.total_bytes if sample else None) or 0

    def start_tracking(self) -> None:
        """Start a session; does nothing when one is running."""
        super().start_tracking()
        if self.enable_native_cuda_history and not self._records_history:
            self._records_history = self._switch_history_on()

    def stop_tracking(self) -> Any:
        """End the session; does nothing when none is running."""
        if self._records_history:
            self._records_history = False
            self._switch_history_off()
        return super().stop_tracking()

    @contextmanager
    def capture_oom(
        self, context: str = "runtime", metadata: dict[str, Any] | None = None
    ) -> Iterator[None]:
        """A ``with`` block: an out-of-memory error in it writes a bundle if the tracker writes
        bundles, and is then raised as usual."""
        is_on = self.enable_native_cuda_history and self._switch_history_on()
        try:
            with super().capture_oom(context, metadata):
                yield
        finally:
            if is_on:
                self._switch_history_off()

    def _switch_history_on(self) -> bool:
        try:
            _cuda_history.switch_on(self.native_history_max_entries)
        except Exception as error:
            logger.warning("cannot record the allocator's history: %s", error)
            return False
        return True

    def _switch_history_off(self) -> None:
        try:
            _cuda_history.switch_off()
        except Exception as error:
            logger.warning("cannot stop recording the allocator's history: %s", error)

    def _complete_bundle(self, path: str) -> None:
        if not self.enable_native_cuda_history:
            return
        try:
            # Garbage is kept, because it may be what filled the memory.
            names = capture_cuda_snapshot_artifacts(
                Path(path),
                device=self.device,
                history_recorded=_cuda_history.is_on(require_torch()),
                skip_gc=True,
            )
            _core.attach_history_to_oom_bundle(path, names)
        except Exception as error:
            logger.warning("the bundle has no history of the allocator: %s", error)

    @property
    def stats(self) -> dict[str, Any]:
        """The numbers of samples, allocations and alerts of the session, and the times of its start
        and of the last sample."""
        return self._owner.core.tally()

    def get_statistics(self) -> dict[str, Any]:
        """All statistics of the session."""
        self._owner.report_notices()
        return self._owner.core.device_statistics(self.last_oom_dump_path)

    def get_alerts(self, last_n: int | None = None) -> list[TrackingEvent]:
        """The warnings, critical alerts and errors among the events in memory; with ``last_n``,
        only the last ones."""
        rows = self._owner.core.events(None, last_n, None, True)
        return [TrackingEvent(**row) for row in rows]

    def set_threshold(self, threshold_name: str, value: int | float) -> None:
        """Set the threshold of an alert; it applies from the next sample on."""
        self.thresholds[threshold_name] = value

    def _set_limit(self, name: str, value: float) -> None:
        if not self._owner.core.set_threshold(name, float(value)):
            raise InvalidValueError(f"Unknown threshold: {name}")

    def add_alert_callback(self, callback: Callable[[TrackingEvent], None]) -> None:
        """Call a function with every alert, on the thread that took the sample."""
        self.alert_callbacks.append(callback)

    def remove_alert_callback(self, callback: Callable[[TrackingEvent], None]) -> None:
        """Stop calling a function that ``add_alert_callback`` added."""
        if callback in self.alert_callbacks:
            self.alert_callbacks.remove(callback)

    def _deliver_alert(self, fields: dict[str, Any]) -> None:
        for callback in list(self.alert_callbacks):
            try:
                callback(TrackingEvent(**fields))
            except Exception as error:
                logger.debug("an alert callback failed: %s", error)

    def _on_allocator_oom(self, device: int, requested: int, limit: int, free: int) -> None:
        """Called when PyTorch is about to raise an out-of-memory error on this thread."""
        index = getattr(self.device, "index", None)
        if not self.is_tracking or (index is not None and index != device):
            return
        message = (
            f"CUDA out of memory. Tried to allocate {format_bytes(requested)} on device {device}; "
            f"{format_bytes(free)} of {format_bytes(limit)} were free"
        )
        facts: dict[str, Any] = {
            "requested_bytes": requested,
            "limit_bytes": limit,
            "free_bytes": free,
        }
        try:
            facts["cause"] = _oom_cause.of_allocation(f"cuda:{device}")
        except Exception as error:
            logger.debug("cannot inspect the out-of-memory error: %s", error)
        path = super()._bundle(Failure(_TORCH_REASON, (*_TORCH_OOM, message), "allocator", facts))
        self._announced_oom = (path, requested)

    def _has_announced(self, error: BaseException) -> bool:
        return self._announced_bundle(oom_reason(error), str(error)) is not None

    def _announced_bundle(self, reason: str | None, message: str) -> str | None:
        """The bundle that was written when PyTorch's observer reported an error."""
        if self._announced_oom is None or reason != _TORCH_REASON:
            return None
        path, requested = self._announced_oom
        stated = _core.requested_bytes(message)
        is_same = stated is None or math.isclose(stated, requested, rel_tol=_ROUNDING)
        return path if is_same else None

    def _is_on_current_device(self) -> bool:
        index = getattr(self.device, "index", None)
        if index is None:
            return True
        try:
            return bool(require_torch().cuda.current_device() == index)
        except Exception:
            return True

    def _bundle(self, failure: Failure) -> str:
        announced = self._announced_bundle(failure.reason, failure.exception[2])
        if announced is not None:
            # The observer has already written this bundle; now the details from the program are
            # added.
            self._announced_oom = None
            _core.amend_oom_bundle(
                announced, failure.exception, failure.context, failure.metadata or {}
            )
            return announced
        return super()._bundle(failure)

    def _device_name(self) -> str | None:
        if getattr(self.device, "type", None) != "cuda":
            return None
        return f"cuda:{getattr(self.device, 'index', None) or 0}"


class MemoryWatchdog:
    """Empties the allocator's cache when a tracker reports a warning or a critical alert.

    A warning counts if memory use has reached ``cleanup_threshold`` (0 to 1). A critical alert also
    collects garbage. At most one cleanup runs in 30 seconds. ``aggressive_cleanup_threshold`` has
    no effect.
    """

    def __init__(
        self,
        tracker: MemoryTracker,
        auto_cleanup: bool = True,
        cleanup_threshold: float = 0.9,
        aggressive_cleanup_threshold: float = 0.95,
    ) -> None:
        self.tracker = tracker
        self.auto_cleanup = auto_cleanup
        self.cleanup_threshold = cleanup_threshold
        self.aggressive_cleanup_threshold = aggressive_cleanup_threshold
        self.cleanup_count = 0
        self.last_cleanup_time = 0.0
        self.min_cleanup_interval = 30.0
        tracker.add_alert_callback(self._on_alert)

    def _on_alert(self, event: TrackingEvent) -> None:
        if not self.auto_cleanup or event.event_type not in ("warning", "critical"):
            return
        now = time.time()
        if now - self.last_cleanup_time < self.min_cleanup_interval:
            return
        usage = (event.metadata or {}).get("usage_percent", 0.0)
        critical = event.event_type == "critical"
        if critical or usage >= self.cleanup_threshold * 100:
            self.last_cleanup_time = now
            self._clean(aggressive=critical)

    def force_cleanup(self, aggressive: bool = False) -> None:
        """Empty the allocator's cache now; with ``aggressive``, also collect garbage."""
        self._clean(aggressive)

    def _clean(self, aggressive: bool) -> None:
        torch: Any = loaded_torch()
        runtime = getattr(torch, "mps" if self.tracker.backend == "mps" else "cuda", None)
        try:
            if runtime is not None:
                runtime.empty_cache()
            if aggressive:
                gc.collect()
                if runtime is not None:
                    runtime.synchronize()
                    runtime.empty_cache()
        except Exception as error:
            self.tracker._add_event("error", 0, f"Cleanup failed: {error}")
            return
        kind = "aggressive" if aggressive else "standard"
        self.tracker._add_event("cleanup", 0, f"Performed {kind} memory cleanup")
        # Counted last, so that the event exists when the count is seen.
        self.cleanup_count += 1

    def get_cleanup_stats(self) -> dict[str, Any]:
        """The number of cleanups, the time of the last one in epoch seconds, and the settings."""
        return {
            "cleanup_count": self.cleanup_count,
            "last_cleanup_time": self.last_cleanup_time,
            "auto_cleanup_enabled": self.auto_cleanup,
            "cleanup_threshold": self.cleanup_threshold,
            "aggressive_cleanup_threshold": self.aggressive_cleanup_threshold,
        }


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
