"""The health of a collector, and the delay before the next try after failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _core

__all__ = [
    "COLLECTOR_HEALTH_DEGRADED",
    "COLLECTOR_HEALTH_HEALTHY",
    "COLLECTOR_HEALTH_UNHEALTHY",
    "CollectorHealthState",
    "collector_retry_delay_seconds",
]

COLLECTOR_HEALTH_HEALTHY = "healthy"
COLLECTOR_HEALTH_DEGRADED = "degraded"
COLLECTOR_HEALTH_UNHEALTHY = "unhealthy"


@dataclass
class CollectorHealthState:
    """The health of a collector: its status, the counters it cannot read, and its failures."""

    status: str = COLLECTOR_HEALTH_HEALTHY
    telemetry_partial: bool = False
    partial_fields: tuple[str, ...] = ()
    last_error: str | None = None
    consecutive_failures: int = 0
    next_retry_epoch_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The health as a dictionary with the keys that records use. Each counter that cannot be
        read is listed once."""
        return {
            "collector_health_status": self.status,
            "telemetry_partial": self.telemetry_partial,
            "collector_partial_fields": list(dict.fromkeys(self.partial_fields)),
            "collector_last_error": self.last_error,
            "collector_consecutive_failures": self.consecutive_failures,
            "collector_next_retry_epoch_s": self.next_retry_epoch_s,
        }


def collector_retry_delay_seconds(
    consecutive_failures: int,
    *,
    initial_delay_s: float,
    factor: float,
    max_delay_s: float,
) -> float:
    """The seconds to wait before the next try. They grow by ``factor`` with each failure in a row,
    up to ``max_delay_s``."""
    return _core.retry_delay_s(consecutive_failures, initial_delay_s, factor, max_delay_s)
