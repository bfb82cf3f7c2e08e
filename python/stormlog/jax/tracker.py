"""Tracks a JAX device with the same kind of recorder as all other trackers."""

from __future__ import annotations

import gc
import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._compat.legacy_names import legacy_names
from .._frameworks.results import InBytes
from .._frameworks.sizes import MB, resident_bytes
from .._frameworks.tracker import DeviceTracker
from .._frameworks.watchdog import Watchdog
from .._oom_bundles import BundlingTracker
from .._tracking import given_identity
from ..oom_flight_recorder import OOMFlightRecorderConfig
from ..session import SessionSummary
from ._device import NO_STATS, JaxCollector, resolve
from .jax_env import require_jax

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..telemetry_sink import TelemetrySinkConfig

__all__ = ["JAXMemoryTracker", "MemoryTracker", "MemoryWatchdog", "TrackingResult"]

logger = logging.getLogger(__name__)


@dataclass
class TrackingResult(InBytes):
    """What a tracker recorded between start and stop, with sizes in bytes."""

    start_time: float
    end_time: float
    samples_collected: int
    peak_memory_bytes: int
    min_memory_bytes: int
    average_memory_bytes: int
    alert_count: int
    session_summary: SessionSummary | None = None
    telemetry_events: list[dict[str, Any]] = field(default_factory=list)
    memory_usage: list[int] = field(default_factory=list)
    timestamps: list[float] = field(default_factory=list)
    device_memory_profile_path: str | None = None
    device_memory_available: bool = False
    memory_source: str = "unavailable"
    device_memory_unavailable_reason: str | None = None
    process_memory_bytes: int | None = None
    history_window_limit: int = 0
    history_retained_samples: int = 0
    history_dropped_samples: int = 0
    history_retained_events: int = 0
    history_dropped_events: int = 0
    history_retained_alerts: int = 0
    history_dropped_alerts: int = 0

    @property
    def memory_growth_rate(self) -> float:
        """The growth of the memory in use from the first sample to the last, divided by the
        duration: megabytes per second."""
        return self._growth_rate(self.memory_usage) / MB


class MemoryTracker(DeviceTracker, BundlingTracker):
    """Tracks a JAX device: its allocator's counters, or on the CPU the host memory of the process.

    It gives an alert each time the memory in use rises above ``alert_threshold_mb``. With
    ``enable_oom_flight_recorder`` an OOM bundle is written after an out-of-memory error, even if
    the program does not catch the error. With ``alert`` a separate process sends findings to the
    address ``alert`` while the session lasts; this needs ``telemetry_sink_config``.
    """

    session_source = "stormlog.jax.tracker"
    # The name of the runtime in bundles.
    backend = "jax"
    _log = logger

    def __init__(
        self,
        sampling_interval: float = 1.0,
        alert_threshold_mb: float | None = None,
        device_index: int | str = 0,
        enable_logging: bool = True,
        max_history: int = 10000,
        job_id: str | None = None,
        rank: int | None = None,
        local_rank: int | None = None,
        world_size: int | None = None,
        telemetry_sink_config: TelemetrySinkConfig | None = None,
        save_device_profile_on_stop: bool = False,
        enable_oom_flight_recorder: bool = False,
        oom_dump_dir: str = "oom_dumps",
        oom_buffer_size: int | None = None,
        oom_max_dumps: int = 5,
        oom_max_total_mb: int = 256,
        *,
        alert: str | None = None,
    ) -> None:
        device, number = resolve(device_index)
        self.device_index = device_index
        self._device_number = number
        self.collector: JaxCollector = JaxCollector(device, number)
        self.collector_capabilities = self.collector.capabilities()
        self.save_device_profile_on_stop = save_device_profile_on_stop
        self._profile_path: str | None = None
        bundle_events = self._set_up_bundles(
            OOMFlightRecorderConfig(
                enabled=enable_oom_flight_recorder,
                dump_dir=oom_dump_dir,
                buffer_size=max_history if oom_buffer_size is None else oom_buffer_size,
                max_dumps=oom_max_dumps,
                max_total_mb=oom_max_total_mb,
            )
        )
        self._set_up_device(
            self.collector,
            sampling_interval=sampling_interval,
            alert_threshold_mb=alert_threshold_mb,
            enable_logging=enable_logging,
            max_history=max_history,
            identity=given_identity(job_id, rank, local_rank, world_size),
            telemetry_sink_config=telemetry_sink_config,
            bundle_events=bundle_events,
            alert=alert,
        )
        sample = self.collector.sample_with_diagnostics().sample
        self.total_memory = sample.total_bytes if sample else None

    def remove_alert_callback(self, callback: Callable[[dict[str, Any]], None]) -> None:
        """Stop calling a function that ``add_alert_callback`` added."""
        if callback in self.alert_callbacks:
            self.alert_callbacks.remove(callback)

    def start_tracking(self) -> None:
        """Start a session; does nothing when one is running."""
        if not self.is_tracking:
            self._profile_path = None
        super().start_tracking()

    def stop_tracking(self) -> TrackingResult:  # type: ignore[override]
        """End the session and return its results."""
        if self._end_session() and self.save_device_profile_on_stop:
            self._profile_path = self.save_device_memory_profile_to_dir()
        return self.get_tracking_results()

    def get_current_memory(self) -> float:
        """The megabytes in use on the device now, or on the CPU the resident megabytes of the
        process; 0 where they cannot be read."""
        sample = self.collector.sample_with_diagnostics().sample
        return 0.0 if sample is None else sample.allocated_bytes / MB

    def get_tracking_results(self) -> TrackingResult:
        """The results so far."""
        samples = self._samples()
        usage = [event.memory_allocated for event in samples]
        start, end = self._times
        is_device, known = not self.collector.is_cpu, bool(usage)
        last_error = self._owner.core.device_statistics(None)["collector_last_error"]
        return TrackingResult(
            start_time=start,
            end_time=end or time.time(),
            samples_collected=self._owner.core.tally()["total_samples"],
            peak_memory_bytes=max(usage, default=0),
            min_memory_bytes=min(usage, default=0),
            average_memory_bytes=sum(usage) // len(usage) if usage else 0,
            alert_count=self._alert_count,
            session_summary=self.get_session_summary(),
            telemetry_events=self._owner.core.records(),
            memory_usage=usage,
            timestamps=[event.timestamp for event in samples],
            device_memory_profile_path=self._profile_path,
            device_memory_available=is_device and known,
            memory_source=self.collector.source if known or not is_device else "unavailable",
            device_memory_unavailable_reason=None
            if is_device and known
            else last_error or NO_STATS,
            process_memory_bytes=resident_bytes(),
            **self._history(len(usage)),
        )

    def get_statistics(self) -> dict[str, Any]:
        """All statistics of the running or the last session, by name."""
        return {
            **super().get_statistics(),
            "oom_flight_recorder_enabled": self._oom_flight_recorder.config.enabled,
            "last_oom_dump_path": self.last_oom_dump_path,
        }

    def save_device_memory_profile(self, output_path: str) -> bool:
        """Write JAX's device memory profile, a file for the program `pprof`; returns whether that
        succeeded."""
        try:
            require_jax().profiler.save_device_memory_profile(output_path)
        except Exception as error:
            logger.warning("cannot save a device memory profile: %s", error)
            return False
        return os.path.exists(output_path)

    def save_device_memory_profile_to_dir(self, output_dir: str | None = None) -> str | None:
        """Write a device memory profile with a generated name, in the given or the current
        directory; returns the path on success."""
        folder = Path.cwd() if output_dir is None else Path(output_dir)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            logger.warning("cannot save a device memory profile: %s", error)
            return None
        path = str(folder / f"jax-device-memory-{int(time.time())}.prof")
        return path if self.save_device_memory_profile(path) else None

    def trigger_oom_dump(
        self,
        exception: BaseException,
        context: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str | None:
        """Write an OOM bundle when the exception is an out-of-memory error, and return its
        directory.

        Returns None for other exceptions, and when the OOM flight recorder is not enabled.
        """
        return self.handle_exception(exception, context, metadata)

    def _complete_bundle(self, path: str) -> None:
        self.save_device_memory_profile_to_dir(path)

    def _device_name(self) -> str | None:
        return f"jax:{self._device_number}"


JAXMemoryTracker = MemoryTracker


class MemoryWatchdog(Watchdog):
    """Runs cleanup functions when a program uses too much memory of a JAX device.

    At ``cleanup_threshold_mb`` garbage is collected and the functions that ``add_cleanup_callback``
    added are called. At ``max_memory_mb`` JAX's caches of compiled functions are cleared too.
    """

    def __init__(
        self,
        max_memory_mb: float = 8000,
        cleanup_threshold_mb: float = 6000,
        check_interval: float = 5.0,
        device_index: int = 0,
    ) -> None:
        super().__init__(
            max_memory_mb, cleanup_threshold_mb, check_interval, "stormlog-jax-watchdog"
        )
        self._collector = JaxCollector(*resolve(device_index))

    def _used_mb(self) -> float | None:
        sample = self._collector.sample_with_diagnostics().sample
        return None if sample is None else sample.allocated_bytes / MB

    def _clean(self, used_mb: float) -> None:
        self.force_cleanup(aggressive=used_mb >= self.max_memory_mb)

    def force_cleanup(self, aggressive: bool = False) -> None:
        """Clean up now: collect garbage, with ``aggressive`` also clear JAX's caches of compiled
        functions, then call the added functions."""

        def clear() -> None:
            gc.collect()
            if aggressive:
                require_jax().clear_caches()

        self._run(clear, "JAX's caches")


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
