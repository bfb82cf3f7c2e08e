"""The part of writing OOM bundles that all trackers of devices share."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import _core, _oom_cause, _oom_hooks
from ._tracking import RecordedTracker
from .device_collectors import DeviceMemoryCollector
from .oom_flight_recorder import (
    OOMFlightRecorder,
    OOMFlightRecorderConfig,
    announce,
    exception_facts,
    oom_reason,
)

logger = logging.getLogger("stormlog.oom_flight_recorder")

# What is known of a request for memory that failed: the numbers that PyTorch's observer reports,
# and the cause that `_oom_cause` finds.
_REQUEST = ("requested_bytes", "limit_bytes", "free_bytes", "cause")


class Failure(NamedTuple):
    """An out-of-memory error: what a bundle states about it, and the exception itself if it was
    already raised."""

    reason: str
    # The name of the exception's class, the module of the class, and the text of the exception.
    exception: tuple[str, str, str]
    context: str | None
    metadata: dict[str, Any] | None
    error: BaseException | None = None


def _request_facts(metadata: dict[str, Any]) -> dict[str, Any] | None:
    return {name: metadata[name] for name in _REQUEST if name in metadata} or None


class BundlingTracker(RecordedTracker, ABC):
    """A tracker that can write a bundle when memory runs out."""

    collector: DeviceMemoryCollector
    collector_capabilities: dict[str, Any]
    # The name of the runtime in bundles.
    backend: str
    total_memory: int | None
    last_oom_dump_path: str | None = None
    # Whether the path of each new bundle is logged.
    _announces_bundles = True
    _oom_flight_recorder: OOMFlightRecorder

    def _set_up_bundles(self, config: OOMFlightRecorderConfig) -> int | None:
        """Set up the writing of bundles. Returns the number of events that the recorder must keep
        for a bundle; None when no bundles are written."""
        self._oom_flight_recorder = OOMFlightRecorder(config)
        return max(1, config.buffer_size) if config.enabled else None

    @property
    def oom_buffer_size(self) -> int:
        """The maximum number of events in a bundle."""
        return self._oom_flight_recorder.config.buffer_size

    def start_tracking(self) -> None:
        """Start a session; does nothing when one is running."""
        super().start_tracking()
        if self._oom_flight_recorder.config.enabled:
            _oom_hooks.watch(self)

    def stop_tracking(self) -> Any:
        """End the session; does nothing when none is running."""
        _oom_hooks.unwatch(self)
        return super().stop_tracking()

    def handle_exception(
        self,
        exc: BaseException,
        context: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str | None:
        """Write a bundle if the exception is an out-of-memory error and bundles are enabled.
        Returns the directory of the bundle; None when none is written."""
        reason = oom_reason(exc)
        if reason is None or not self._oom_flight_recorder.config.enabled:
            return None
        _oom_hooks.note_handled(exc)
        return self._bundle(Failure(reason, exception_facts(exc), context, metadata, exc))

    @contextmanager
    def capture_oom(
        self, context: str = "runtime", metadata: dict[str, Any] | None = None
    ) -> Iterator[None]:
        """A context manager that writes a bundle for an out-of-memory error in its ``with`` block.
        The exception is still raised."""
        try:
            yield
        except Exception as error:
            # Even if the bundle cannot be written, the program must get its own exception.
            try:
                self.handle_exception(error, context=context, metadata=metadata)
            except Exception as failure:
                logger.warning("cannot write the bundle of an out-of-memory error: %s", failure)
            raise

    def _on_allocator_oom(self, device: int, requested: int, limit: int, free: int) -> None:
        """Called when PyTorch is about to raise an out-of-memory error on this thread."""

    def _has_announced(self, error: BaseException) -> bool:
        """Whether PyTorch's observer has reported this error to the tracker."""
        return False

    def _is_on_current_device(self) -> bool:
        """Whether operations that name no device use the device of this tracker."""
        return True

    def _bundle(self, failure: Failure) -> str:
        core = self._owner.core
        metadata = failure.metadata or {}
        if failure.error is not None:
            metadata = {**metadata, **self._facts_of(failure.error)}
        events = core.record_oom(failure.reason, _request_facts(metadata))
        session = self.get_session_summary()
        sample = self.collector.sample_with_diagnostics().sample
        custom: dict[str, Any] = {
            "tracker_stats": self.get_statistics(),
            "collector_capabilities": self.collector_capabilities,
            "total_memory_bytes": self.total_memory,
            "sampling_interval_s": self.sampling_interval,
            "session_id": None if session is None else session.session_id,
            **self.distributed_identity,
            **metadata,
        }
        for name in ("allocated", "reserved", "used", "free", "total"):
            custom[f"sample_{name}_bytes"] = getattr(sample, f"{name}_bytes", None)
        custom["sample_device_id"] = getattr(sample, "device_id", None)
        path = self._oom_flight_recorder.dump_events(
            events,
            reason=failure.reason,
            exception=failure.exception,
            context=failure.context,
            backend=self.backend,
            metadata=custom,
            session_summary=session,
        )
        self.last_oom_dump_path = path
        if self._announces_bundles:
            announce(path)
        # The process may end before the next regular flush, so the events are flushed now.
        core.flush(0.5)
        self._complete_bundle(path)
        return path

    def _facts_of(self, error: BaseException) -> dict[str, Any]:
        """The requested bytes and the cause, from the exception alone. Used when PyTorch's observer
        has not reported the error."""
        facts: dict[str, Any] = {}
        requested = _core.requested_bytes(str(error))
        if requested is not None:
            facts["requested_bytes"] = requested
        try:
            facts["cause"] = _oom_cause.of_exception(error, self._device_name())
        except Exception as failure:
            logger.debug("cannot inspect the out-of-memory error: %s", failure)
        return facts

    def _device_name(self) -> str | None:
        """The name of the tracked device, such as "cuda:0" or "jax:0"; None for host memory."""
        return None

    def _complete_bundle(self, path: str) -> None:
        """Add to a bundle the files that only this kind of tracker can write. The bundle is already
        complete without them."""

    @abstractmethod
    def get_statistics(self) -> dict[str, Any]:
        """All statistics of the session."""
