"""Tracks a TensorFlow device with the same kind of recorder as all other trackers."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._compat.legacy_names import legacy_names
from .._frameworks.results import Lasting
from .._frameworks.sizes import MB
from .._frameworks.tracker import DeviceTracker, mean
from .._frameworks.watchdog import Watchdog
from .._tracking import given_identity
from ._device import TensorFlowCollector, default_device, device_bytes
from .tf_env import require_tensorflow

if TYPE_CHECKING:
    from ..telemetry_sink import TelemetrySinkConfig

__all__ = ["MemoryTracker", "MemoryWatchdog", "TrackingResult"]

logger = logging.getLogger(__name__)


@dataclass
class TrackingResult(Lasting):
    """What a tracker recorded between start and stop, with sizes in megabytes."""

    start_time: float
    end_time: float
    memory_usage: list[float] = field(default_factory=list)
    timestamps: list[float] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    alerts_triggered: list[dict[str, Any]] = field(default_factory=list)
    peak_memory: float = 0.0
    average_memory: float = 0.0
    min_memory: float = float("inf")
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
        return self._growth_rate(self.memory_usage)


class MemoryTracker(DeviceTracker):
    """Tracks a TensorFlow device: its memory in use, or on the CPU the host memory of the process.

    It gives an alert each time the memory in use rises above ``alert_threshold_mb``. With ``alert``
    a separate process sends findings to the address ``alert`` while the session lasts; this needs
    ``telemetry_sink_config``.
    """

    session_source = "stormlog.tensorflow.tracker"
    _log = logger

    def __init__(
        self,
        sampling_interval: float = 1.0,
        alert_threshold_mb: float | None = None,
        device: str | None = None,
        enable_logging: bool = True,
        max_history: int = 10000,
        job_id: str | None = None,
        rank: int | None = None,
        local_rank: int | None = None,
        world_size: int | None = None,
        telemetry_sink_config: TelemetrySinkConfig | None = None,
        *,
        alert: str | None = None,
    ) -> None:
        require_tensorflow()
        self.device = device or default_device()
        self._set_up_device(
            TensorFlowCollector(self.device),
            sampling_interval=sampling_interval,
            alert_threshold_mb=alert_threshold_mb,
            enable_logging=enable_logging,
            max_history=max_history,
            identity=given_identity(job_id, rank, local_rank, world_size),
            telemetry_sink_config=telemetry_sink_config,
            alert=alert,
        )

    @property
    def memory_usage(self) -> list[float]:
        """The megabytes in use at each sample that the tracker still has."""
        return [event.memory_allocated / MB for event in self._samples()]

    def stop_tracking(self) -> TrackingResult:  # type: ignore[override]
        """End the session and return its results."""
        self._end_session()
        return self.get_tracking_results()

    def get_current_memory(self) -> float:
        """The megabytes in use on the device now, or on the CPU the resident megabytes of the
        process."""
        return device_bytes(self.device) / MB

    def get_tracking_results(self) -> TrackingResult:
        """The results so far."""
        samples = self._samples()
        usage = [event.memory_allocated / MB for event in samples]
        start, end = self._times
        return TrackingResult(
            start_time=start,
            end_time=end or time.time(),
            memory_usage=usage,
            timestamps=[event.timestamp for event in samples],
            events=self._owner.core.records(),
            alerts_triggered=self.alerts,
            peak_memory=max(usage, default=0.0),
            average_memory=mean(usage),
            min_memory=min(usage, default=0.0),
            **self._history(len(usage)),
        )


class MemoryWatchdog(Watchdog):
    """Runs cleanup functions when a program uses too much memory of TensorFlow's default device.

    This device is the first GPU, or without a GPU the CPU, where the resident size of the process
    counts. ``max_memory_mb`` has no effect.
    """

    def __init__(
        self,
        max_memory_mb: float = 8000,
        cleanup_threshold_mb: float = 6000,
        check_interval: float = 5.0,
    ) -> None:
        super().__init__(
            max_memory_mb, cleanup_threshold_mb, check_interval, "stormlog-tf-watchdog"
        )

    def _used_mb(self) -> float:
        return device_bytes(default_device()) / MB

    def _clean(self, used_mb: float) -> None:
        self.force_cleanup()

    def force_cleanup(self) -> None:
        """Clean up now: clear Keras's session, then call the functions that
        ``add_cleanup_callback`` added."""
        self._run(
            # A missing TensorFlow is an error of the call.
            lambda: require_tensorflow().keras.backend.clear_session(),  # noqa: PLW0108
            "TensorFlow's session",
        )


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
