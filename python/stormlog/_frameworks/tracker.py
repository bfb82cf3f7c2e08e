"""Tracks one device of a framework with the same kind of recorder as all other trackers."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._tracking import RecordedTracker
from ..cpu_profiler import TrackingEvent
from ..device_collectors import DeviceMemoryCollector
from ..errors import InvalidValueError
from .sizes import MB

if TYPE_CHECKING:
    from ..telemetry_sink import TelemetrySinkConfig

# The history has room for this many events per sample.
_EVENTS_PER_SAMPLE = 4
_SINK_KEYS = ("rollover_count", "pruned_", "final_retained_")
_HEALTH_KEYS = ("collector_", "telemetry_partial")


class FrameworkCollector(DeviceMemoryCollector):
    """Reads the counters of one device. Every sample calls ``on_sample`` with its megabytes in
    use."""

    on_sample: Callable[[float], None] | None = None

    def is_available(self) -> bool:
        """Whether the device can be read."""
        return self.sample_with_diagnostics().sample is not None


class DeviceTracker(RecordedTracker):
    """Tracks a device. Gives an alert each time the memory in use rises above
    ``alert_threshold_mb``."""

    _event_class = TrackingEvent
    _log: logging.Logger

    def _set_up_device(
        self,
        collector: FrameworkCollector,
        *,
        sampling_interval: float,
        alert_threshold_mb: float | None,
        enable_logging: bool,
        max_history: int,
        identity: dict[str, Any],
        telemetry_sink_config: TelemetrySinkConfig | None,
        bundle_events: int | None = None,
        alert: str | None = None,
    ) -> None:
        if max_history < 1:
            raise InvalidValueError("max_history must be >= 1")
        self.alert_threshold_mb = alert_threshold_mb
        self.enable_logging = enable_logging
        self.max_history = max_history
        self.alert_callbacks: list[Callable[[dict[str, Any]], None]] = []
        self._alerts: deque[dict[str, Any]] = deque(maxlen=max_history)
        self._alert_count = 0
        self._is_above = False
        self._times = (0.0, 0.0)
        collector.on_sample = self._look_at
        self._set_up(
            sampling_interval=sampling_interval,
            max_events=max_history * _EVENTS_PER_SAMPLE,
            enable_alerts=False,
            identity=identity,
            telemetry_sink_config=telemetry_sink_config,
            bundle_events=bundle_events,
            collector=collector,
            alert=alert,
        )

    @property
    def tracking(self) -> bool:
        """Whether a session is running."""
        return self.is_tracking

    @property
    def timestamps(self) -> list[float]:
        """The time of each sample that the tracker still has, in seconds since 1970."""
        return [event.timestamp for event in self._samples()]

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """The newest alerts of the session; the tracker keeps at most ``max_history``."""
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
            self._log.warning("%s", message)
        for callback in list(self.alert_callbacks):
            try:
                callback(alert)
            except Exception as error:
                self._log.debug("an alert callback failed: %s", error)

    def add_alert_callback(self, callback: Callable[[dict[str, Any]], None]) -> None:
        """Add a function that is called with every alert, which is a dictionary."""
        self.alert_callbacks.append(callback)

    def set_alert_threshold(self, threshold_mb: float) -> None:
        """Set the number of megabytes above which there is an alert."""
        self.alert_threshold_mb = threshold_mb

    def check_alerts(self) -> bool:
        """Whether there has been an alert in the session."""
        return self._alert_count > 0

    def start_tracking(self) -> None:
        """Start a session; does nothing when one is running."""
        if self.is_tracking:
            return
        self._alerts.clear()
        self._alert_count, self._is_above = 0, False
        self._times = (time.time(), 0.0)
        super().start_tracking()

    def _end_session(self) -> bool:
        """End the session; returns whether one was running."""
        if not self.is_tracking:
            return False
        super().stop_tracking()
        self._times = (self._times[0], time.time())
        return True

    def _history(self, samples: int) -> dict[str, int]:
        """How many samples, events and alerts the tracker still has, and how many it has dropped.
        ``samples`` is the number of samples that it still has."""
        core = self._owner.core
        return {
            "history_window_limit": self.max_history,
            "history_retained_samples": samples,
            "history_dropped_samples": max(0, core.tally()["total_samples"] - samples),
            "history_retained_events": len(core.records()),
            "history_dropped_events": core.device_statistics(None)["history_dropped_events"],
            "history_retained_alerts": len(self._alerts),
            "history_dropped_alerts": self._alert_count - len(self._alerts),
        }

    def get_statistics(self) -> dict[str, Any]:
        """All statistics of the running or the last session, by name."""
        self._owner.report_notices()
        core = self._owner.core.device_statistics(None)
        usage = [event.memory_allocated / MB for event in self._samples()]
        return {
            "current_memory_mb": usage[-1] if usage else None,
            "peak_memory_mb": max(usage, default=0.0),
            "average_memory_mb": mean(usage),
            "min_memory_mb": min(usage, default=0.0),
            "collector_failure_event_count": len(self.get_events("collector_degraded")),
            "total_events": core["total_events"],
            "tracking_duration_seconds": core.get("tracking_duration_seconds", 0.0),
            **self._history(len(usage)),
            **{name: core[name] for name in core if name.startswith(_SINK_KEYS)},
            "session_id": core["session_id"],
            "session_status": core["session_status"],
            **{name: core[name] for name in core if name.startswith(_HEALTH_KEYS)},
            "peak_memory": core["peak_memory"],
            "alert_count": self._alert_count,
            "total_allocations": core["total_allocations"],
            "total_deallocations": core["total_deallocations"],
        }


def mean(values: list[float]) -> float:
    """The mean; 0 for an empty list."""
    return sum(values) / len(values) if values else 0.0
