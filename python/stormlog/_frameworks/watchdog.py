"""Runs cleanup functions when a device uses too much memory."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from .._repeating import Repeating

logger = logging.getLogger(__name__)


class Watchdog(ABC):
    """Reads every ``check_interval`` seconds how much memory of a device is in use.

    Each time the memory in use is at least ``cleanup_threshold_mb``, the watchdog frees memory in
    the way that a subclass defines for its framework, and calls the functions that
    ``add_cleanup_callback`` added.
    """

    def __init__(
        self, max_memory_mb: float, cleanup_threshold_mb: float, check_interval: float, name: str
    ) -> None:
        self.max_memory_mb = max_memory_mb
        self.cleanup_threshold_mb = cleanup_threshold_mb
        self.check_interval = check_interval
        self.cleanup_callbacks: list[Callable[[], None]] = []
        self._watch = Repeating(name)

    @property
    def active(self) -> bool:
        """Whether the watchdog is running."""
        return self._watch.active

    def add_cleanup_callback(self, callback: Callable[[], None]) -> None:
        """Add a function that each cleanup calls."""
        self.cleanup_callbacks.append(callback)

    def start(self) -> None:
        """Start reading the memory use at the interval."""
        self._watch.start(self._check, self.check_interval)

    def stop(self) -> None:
        """Stop reading the memory use."""
        self._watch.stop()

    @abstractmethod
    def _used_mb(self) -> float | None:
        """Megabytes in use on the device now; None when they cannot be read."""

    @abstractmethod
    def _clean(self, used_mb: float) -> None:
        """Free memory and call the added functions. ``used_mb`` is the memory use that reached the
        threshold, in megabytes."""

    def _check(self) -> None:
        try:
            used = self._used_mb()
        except Exception as error:
            logger.debug("the watchdog cannot read the device: %s", error)
            return
        if used is not None and used >= self.cleanup_threshold_mb:
            self._clean(used)

    def _run(self, first: Callable[[], object], what: str) -> None:
        """Clean up now: with the framework's own function, then with the added functions."""
        try:
            first()
        except Exception as error:
            logger.warning("cannot clear %s: %s", what, error)
        for callback in list(self.cleanup_callbacks):
            try:
                callback()
            except Exception as error:
                logger.warning("a cleanup callback failed: %s", error)
