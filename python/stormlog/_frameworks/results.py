"""Base classes for results of profiling and tracking. Each result lists its own fields."""

from __future__ import annotations

from collections.abc import Sequence

from .sizes import MB


class Lasting:
    """A result with a start and an end time."""

    start_time: float
    end_time: float

    @property
    def duration(self) -> float:
        """The duration in seconds."""
        return self.end_time - self.start_time

    def _growth_rate(self, usage: Sequence[float]) -> float:
        """The growth from the first value to the last, divided by the duration."""
        if len(usage) < 2 or self.duration <= 0:
            return 0.0
        return (usage[-1] - usage[0]) / self.duration


class InBytes(Lasting):
    """A result with sizes in bytes, which it also gives in megabytes."""

    peak_memory_bytes: int
    average_memory_bytes: int

    @property
    def peak_memory_mb(self) -> float:
        """The highest memory use in megabytes."""
        return self.peak_memory_bytes / MB

    @property
    def average_memory_mb(self) -> float:
        """The mean memory use in megabytes."""
        return self.average_memory_bytes / MB
