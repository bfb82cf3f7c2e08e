"""Tracks a TensorFlow device in megabytes, over the same recorder as everything else."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._repeating import Repeating
from .._tracking import RecordedTracker
from ..cpu_profiler import TrackingEvent
from ..errors import InvalidValueError
from ._device import MB, TensorFlowCollector, default_device, device_bytes
from .tf_env import require_tensorflow

if TYPE_CHECKING:
    from ..telemetry_sink import TelemetrySinkConfig

__all__ = ["MemoryTracker", "MemoryWatchdog", "TrackingResult"]

logger = logging.getLogger(__name__)

# Every sample comes with at most a handful of other events.
_EVENTS_PER_SAMPLE = 4


@dataclass
class TrackingResult:
    """What a tracker saw between start and stop."""

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
    def duration(self) -> float:
        """Seconds."""
        return self.end_time - self.start_time

    @property
    def memory_growth_rate(self) -> float:
        """Megabytes a second from the first sample to the last."""
        if len(self.memory_usage) < 2 or self.duration <= 0:
            return 0.0
        return (self.memory_usage[-1] - self.memory_usage[0]) / self.duration


class MemoryTracker(RecordedTracker):
    """Tracks a TensorFlow device; an alert for every time that memory passes the threshold."""

    session_source = "stormlog.tensorflow.tracker"
    _event_class = TrackingEvent

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
    ) -> None:
        require_tensorflow()
        if max_history < 1:
            raise InvalidValueError("max_history must be >= 1")
        self.alert_threshold_mb = alert_threshold_mb
        self.device = device or default_device()
        self.enable_logging = enable_logging
        self.max_history = max_history
        self.alert_callbacks: list[Callable[[dict[str, Any]], None]] = []
        self._alerts: deque[dict[str, Any]] = deque(maxlen=max_history)
        self._alert_count = 0
        self._is_above = False
        self._times = (0.0, 0.0)
        collector = TensorFlowCollector(self.device)
        collector.on_sample = self._look_at
        self._set_up(
            sampling_interval=sampling_interval,
            max_events=max_history * _EVENTS_PER_SAMPLE,
            enable_alerts=False,
            identity={
                "job_id": job_id,
                "rank": rank,
                "local_rank": local_rank,
                "world_size": world_size,
            },
            telemetry_sink_config=telemetry_sink_config,
            collector=collector,
        )

    @property
    def tracking(self) -> bool:
        """Whether a session is running."""
        return self.is_tracking

    @property
    def memory_usage(self) -> list[float]:
        """Megabytes at each sample at hand."""
        return [event.memory_allocated / MB for event in self._samples()]

    @property
    def timestamps(self) -> list[float]:
        """Epoch seconds of each sample at hand."""
        return [event.timestamp for event in self._samples()]

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """The alerts at hand."""
        return list(self._alerts)

    def _samples(self) -> list[TrackingEvent]:
        return self.get_events("sample", last_n=self.max_history)

    def _look_at(self, memory_mb: float) -> None:
        if not self.is_tracking:
            return
        limit = self.alert_threshold_mb
        was_above, self._is_above = self._is_above, limit is not None and memory_mb > limit
        if limit is not None and self._is_above and not was_above:
            self._alert(memory_mb, limit)

    def _alert(self, memory_mb: float, limit: float) -> None:
        message = f"Memory usage {memory_mb:.1f} MB exceeds threshold {limit:.1f} MB"
        alert = {
            "timestamp": time.time(),
            "memory_mb": memory_mb,
            "threshold_mb": limit,
            "message": message,
        }
        self._alerts.append(alert)
        self._alert_count += 1
        if self.enable_logging:
            logger.warning("%s", message)
        for callback in list(self.alert_callbacks):
            try:
                callback(alert)
            except Exception as error:
                logger.debug("an alert callback failed: %s", error)

    def add_alert_callback(self, callback: Callable[[dict[str, Any]], None]) -> None:
        """Call a function with every alert."""
        self.alert_callbacks.append(callback)

    def set_alert_threshold(self, threshold_mb: float) -> None:
        """Alert above so many megabytes."""
        self.alert_threshold_mb = threshold_mb

    def check_alerts(self) -> bool:
        """Whether there has been an alert."""
        return self._alert_count > 0

    def start_tracking(self) -> None:
        """Start a session; does nothing when one is running."""
        if self.is_tracking:
            return
        self._alerts.clear()
        self._alert_count, self._is_above = 0, False
        self._times = (time.time(), 0.0)
        super().start_tracking()

    def stop_tracking(self) -> TrackingResult:  # type: ignore[override]
        """End the session and give what was seen."""
        if self.is_tracking:
            super().stop_tracking()
            self._times = (self._times[0], time.time())
        return self.get_tracking_results()

    def get_current_memory(self) -> float:
        """Megabytes of the device now."""
        return device_bytes(self.device) / MB

    def get_tracking_results(self) -> TrackingResult:
        """What has been seen so far."""
        samples = self._samples()
        usage = [event.memory_allocated / MB for event in samples]
        records = self._owner.core.records()
        taken = self._owner.core.tally()["total_samples"]
        start, end = self._times
        return TrackingResult(
            start_time=start,
            end_time=end or time.time(),
            memory_usage=usage,
            timestamps=[event.timestamp for event in samples],
            events=records,
            alerts_triggered=self.alerts,
            peak_memory=max(usage, default=0.0),
            average_memory=sum(usage) / len(usage) if usage else 0.0,
            min_memory=min(usage, default=0.0),
            history_window_limit=self.max_history,
            history_retained_samples=len(usage),
            history_dropped_samples=max(0, taken - len(usage)),
            history_retained_events=len(records),
            history_dropped_events=self._owner.core.device_statistics(None)[
                "history_dropped_events"
            ],
            history_retained_alerts=len(self._alerts),
            history_dropped_alerts=self._alert_count - len(self._alerts),
        )

    def get_statistics(self) -> dict[str, Any]:
        """Everything that is known of the session in numbers."""
        self._owner.tell_notices()
        core = self._owner.core.device_statistics(None)
        result = self.get_tracking_results()
        return {
            "current_memory_mb": result.memory_usage[-1] if result.memory_usage else None,
            "peak_memory_mb": result.peak_memory,
            "average_memory_mb": result.average_memory,
            "min_memory_mb": result.min_memory,
            "collector_failure_event_count": len(self.get_events("collector_degraded")),
            "total_events": core["total_events"],
            "tracking_duration_seconds": core.get("tracking_duration_seconds", 0.0),
            **{
                name: getattr(result, name)
                for name in TrackingResult.__dataclass_fields__
                if name.startswith("history_")
            },
            **{name: core[name] for name in core if name.startswith(_SINK_KEYS)},
            "session_id": core["session_id"],
            "session_status": core["session_status"],
            **{name: core[name] for name in core if name.startswith(_HEALTH_KEYS)},
            "peak_memory": core["peak_memory"],
            "alert_count": self._alert_count,
            "total_allocations": core["total_allocations"],
            "total_deallocations": core["total_deallocations"],
        }

    def __enter__(self) -> MemoryTracker:
        self.start_tracking()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop_tracking()


_SINK_KEYS = ("rollover_count", "pruned_", "final_retained_")
_HEALTH_KEYS = ("collector_", "telemetry_partial")


class MemoryWatchdog:
    """Runs clean-up functions when the process holds too much."""

    def __init__(
        self,
        max_memory_mb: float = 8000,
        cleanup_threshold_mb: float = 6000,
        check_interval: float = 5.0,
    ) -> None:
        self.max_memory_mb = max_memory_mb
        self.cleanup_threshold_mb = cleanup_threshold_mb
        self.check_interval = check_interval
        self.cleanup_callbacks: list[Callable[[], None]] = []
        self._watch = Repeating("stormlog-tf-watchdog")

    @property
    def active(self) -> bool:
        """Whether it watches."""
        return self._watch.active

    def add_cleanup_callback(self, callback: Callable[[], None]) -> None:
        """Call a function when memory should be given back."""
        self.cleanup_callbacks.append(callback)

    def start(self) -> None:
        """Watch from here on."""
        self._watch.start(self._check, self.check_interval)

    def stop(self) -> None:
        """No longer."""
        self._watch.stop()

    def _check(self) -> None:
        if device_bytes(default_device()) / MB >= self.cleanup_threshold_mb:
            self.force_cleanup()

    def force_cleanup(self) -> None:
        """Clean now: TensorFlow's session, then the given functions."""
        try:
            require_tensorflow().keras.backend.clear_session()
        except Exception as error:
            logger.warning("cannot clear TensorFlow's session: %s", error)
        for callback in list(self.cleanup_callbacks):
            try:
                callback()
            except Exception as error:
                logger.warning("a cleanup callback failed: %s", error)
