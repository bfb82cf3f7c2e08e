"""The code that all trackers share: it starts and stops a tracker's recorder, which is written in
Rust, and returns the recorder's events.

A tracker that is still running when the interpreter exits is stopped, so that its files are
complete. After a fork the child does not use the parent's recorder.
"""

from __future__ import annotations

import atexit
import copy
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core, _fork, _steps
from ._paths import absolute
from ._phase_writer import PhaseHandle
from ._repeating import Repeating
from ._signals import left_to_the_program
from .errors import InvalidValueError
from .session import SESSION_STATUS_COMPLETED, SESSION_STATUS_INTERRUPTED, SessionSummary
from .telemetry import resolve_distributed_identity

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._alerts import AlertProcess
    from .telemetry_sink import TelemetrySinkConfig

logger = logging.getLogger("stormlog.tracker")

# The seconds between two readings of the messages of a sink, which are then logged.
_NOTICES_EVERY_S = 1.0
# Running recorders and their trackers. A running tracker stays alive through this dictionary, even
# if the program no longer refers to it.
_running: dict[RecorderOwner, object] = {}
# Recorders of the parent process. Dropping one in a child would use locks whose owners exist only
# in the parent.
_left_behind: list[_core.Recorder] = []
_hooked = False
_warned_of_launcher = False


class RecorderOwner:
    """Owns the recorder of a tracker, its step hook, and the thread that reports its messages."""

    def __init__(
        self,
        new_recorder: Callable[[], _core.Recorder],
        report: Callable[[str], None],
        sink_dir: os.PathLike[str] | None = None,
    ) -> None:
        self._new_recorder, self._report = new_recorder, report
        self._sink_dir = None if sink_dir is None else os.path.realpath(sink_dir)
        self.core = new_recorder()
        self._steps: _steps.StepRegistration | None = None
        self._notices = Repeating("stormlog-notices")

    def start(self, tracker: object) -> None:
        """Start recording for a tracker. Does nothing when it is already running."""
        _hook_into_process()
        if not self.core.is_tracking:
            self._warn_of_take_over()
        with left_to_the_program():
            self.core.start()
            _running[self] = tracker
        if self._sink_dir is not None:
            # Where no thread can be started, the messages are logged at the end of the session.
            with suppress(RuntimeError):
                self._notices.start(self._try_to_report_notices, _NOTICES_EVERY_S)
        hook = self.core.step_hook
        if hook is not None and self._steps is None:
            self._steps = _steps.StepRegistration(hook)

    def stop(self, status: str = SESSION_STATUS_COMPLETED) -> None:
        """Stop recording and end the session with a status. Does nothing when it is not running."""
        self._notices.stop()
        self.report_notices()
        self._remove_steps()
        self.core.stop(status)
        _running.pop(self, None)
        # Reports problems that occurred while the session ended.
        self.report_notices()

    def set_paused(self, is_paused: bool) -> None:
        """Pause or resume samples and the step hook. A pause serves to measure what they cost."""
        self.core.set_paused(is_paused)
        hook = self.core.step_hook
        if is_paused:
            self._remove_steps()
        elif hook is not None and self._steps is None:
            self._steps = _steps.StepRegistration(hook)

    def _remove_steps(self) -> None:
        if self._steps is not None:
            self._steps.remove()
            self._steps = None

    def _warn_of_take_over(self) -> None:
        if self._sink_dir is None:
            return
        if any(owner._sink_dir == self._sink_dir for owner in _running if owner is not self):
            logger.warning(
                "another tracker of this process records into '%s': its session ends here as "
                "interrupted, and this tracker takes over (give each its own directory to keep both)",
                self._sink_dir,
            )

    def report_notices(self) -> None:
        """Pass the new messages of the sink to the function that was given for them."""
        for notice in self.core.take_notices():
            self._report(notice)

    def _try_to_report_notices(self) -> None:
        # A logging handler that raises must not end the thread.
        with suppress(Exception):
            self.report_notices()

    def leave_behind(self) -> None:
        """In a forked child, make a new recorder and leave the parent's recorder unused."""
        self._remove_steps()
        self._notices = Repeating("stormlog-notices")
        _left_behind.append(self.core)
        self.core = self._new_recorder()


def _hook_into_process() -> None:
    global _hooked
    if not _hooked:
        _hooked = True
        atexit.register(_stop_all)
        _fork.announce()
        os.register_at_fork(after_in_child=_after_fork_in_child)


def _stop_all() -> None:
    # The interpreter stores the exception that ends a program here; at an interactive prompt it
    # stores every exception.
    failed = getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1")
    status = SESSION_STATUS_INTERRUPTED if failed else SESSION_STATUS_COMPLETED
    for owner in list(_running):
        owner.stop(status)


def _after_fork_in_child() -> None:
    owners = list(_running)
    _running.clear()
    for owner in owners:
        owner.leave_behind()


def _log(text: str) -> None:
    logger.warning("%s", text)


@dataclass
class RecordedEvent:
    """The fields of an event of a tracker; its class adds the field ``backend``."""

    timestamp: float
    event_type: str
    memory_allocated: int
    memory_reserved: int
    memory_change: int
    device_id: int
    session_id: str | None = None
    context: str | None = None
    job_id: str | None = None
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    metadata: dict[str, Any] | None = None
    active_memory: int | None = None
    inactive_memory: int | None = None
    device_used: int | None = None
    device_free: int | None = None
    device_total: int | None = None


class RecordedTracker:
    """The part of a tracker that is the same for all kinds of memory."""

    session_source = "stormlog.tracker"
    # Whether events are left out that only repeat the samples.
    _samples_only = False
    # Called with each message of the sink.
    _report_notice: Callable[[str], None] = staticmethod(_log)
    # Metadata of the first event of a session.
    _start_metadata: dict[str, Any] | None = None
    sampling_interval: float
    max_events: int
    enable_alerts: bool
    distributed_identity: dict[str, Any]
    _owner: RecorderOwner
    _alert_process: AlertProcess | None
    _event_class: Callable[..., Any]

    def _set_up(
        self,
        *,
        sampling_interval: float,
        max_events: int,
        enable_alerts: bool,
        identity: Mapping[str, Any],
        telemetry_sink_config: TelemetrySinkConfig | None,
        bundle_events: int | None = None,
        collector: object | None = None,
        listener: Callable[[dict[str, Any]], None] | None = None,
        alert: str | None = None,
    ) -> None:
        check_limits(sampling_interval, max_events)
        self.sampling_interval = sampling_interval
        self.max_events = max_events
        self.enable_alerts = enable_alerts
        self.distributed_identity = resolve_distributed_identity(**identity, env=os.environ)
        _warn_of_incomplete_launcher(identity)
        sink_dir = None
        if telemetry_sink_config is not None:
            # The program may change its working directory before it starts the tracker or forks.
            sink_dir = absolute(telemetry_sink_config.root_dir)
            telemetry_sink_config = copy.copy(telemetry_sink_config)
            telemetry_sink_config.root_dir = sink_dir
        options: _core._RecorderOptions = {
            "interval": float(sampling_interval),
            "max_events": max_events,
            "bundle_events": bundle_events,
            "alerts": enable_alerts,
            "identity": self.distributed_identity,
            "session_source": self.session_source,
            "sink": telemetry_sink_config,
            "samples_only": self._samples_only,
            "start_metadata": self._start_metadata,
        }
        hear = None if listener is None else _weakly(listener)
        self._alert_process = None if alert is None else _alerts_to(alert, sink_dir)
        self._owner = RecorderOwner(
            lambda: _core.Recorder(options, collector, hear), type(self)._report_notice, sink_dir
        )

    @property
    def is_tracking(self) -> bool:
        """Whether a session is running."""
        return self._owner.core.is_tracking

    @property
    def events(self) -> list[Any]:
        """The events in memory, oldest first; a new list on each access."""
        return self.get_events()

    def start_tracking(self) -> None:
        """Start a session; does nothing when one is running."""
        self._owner.start(self)
        if self._alert_process is not None:
            self._alert_process.start()

    def stop_tracking(self) -> None:
        """End the session; does nothing when none is running."""
        self._owner.stop()
        if self._alert_process is not None:
            self._alert_process.stop()

    def get_session_summary(self) -> SessionSummary | None:
        """The summary of the running session, or else of the last one; None before the first."""
        fields = self._owner.core.session()
        return None if fields is None else SessionSummary(**fields)

    def get_events(
        self,
        event_type: str | None = None,
        last_n: int | None = None,
        since: float | None = None,
    ) -> list[Any]:
        """The events in memory, oldest first. ``event_type`` selects one type, ``since`` the events
        at or after a time in epoch seconds, and ``last_n`` the last of these events."""
        rows = self._owner.core.events(event_type, last_n, since)
        return [self._event_class(**row) for row in rows]

    def get_memory_timeline(self, interval: float = 1.0) -> dict[str, list[Any]]:
        """The memory in bytes at the last event of each interval of ``interval`` seconds. Returns
        lists by name: ``timestamps`` (the start of each interval in epoch seconds), ``allocated``
        and ``reserved``. Intervals without events are left out."""
        if interval <= 0:
            raise InvalidValueError("interval must be > 0")
        timestamps, allocated, reserved = self._owner.core.timeline(float(interval))
        return {"timestamps": timestamps, "allocated": allocated, "reserved": reserved}

    def export_events(self, filename: str, format: str = "csv") -> None:
        """Write the events in memory to a ``csv`` or ``json`` file. Without events, no file is
        written."""
        self._owner.core.export(filename, format)

    def clear_events(self) -> None:
        """Delete the events in memory and reset the statistics. The session continues."""
        self._owner.core.clear()

    def enter_phase(self, name: str, *, metadata: dict[str, Any] | None = None) -> PhaseHandle:
        """Start a phase on this thread; close the handle to end it."""
        core = self._owner.core
        thread = (threading.get_ident(), threading.current_thread().name)
        scope_id, stripped, path = core.enter_phase(str(name), thread, metadata)
        return PhaseHandle(
            scope_id=scope_id,
            name=stripped,
            path=tuple(path),
            close_callback=lambda: core.exit_phase(scope_id, threading.get_ident(), metadata),
        )

    def phase(
        self, name: str, *, metadata: dict[str, Any] | None = None
    ) -> AbstractContextManager[PhaseHandle]:
        """A context manager: the phase lasts as long as its ``with`` block."""
        return _Phase(lambda: self.enter_phase(name, metadata=metadata))

    def __enter__(self) -> Self:
        self.start_tracking()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop_tracking()

    def _add_event(
        self,
        event_type: str,
        memory_change: int,
        context: str,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self._owner.core.record(event_type, memory_change, context, metadata)


def _alerts_to(url: str, sink_dir: os.PathLike[str] | None) -> AlertProcess:
    from ._alerts import AlertProcess

    return AlertProcess(url, sink_dir)


def given_identity(
    job_id: str | None, rank: int | None, local_rank: int | None, world_size: int | None
) -> dict[str, Any]:
    """The identity that the program has given to a tracker; None where it has given nothing."""
    return {"job_id": job_id, "rank": rank, "local_rank": local_rank, "world_size": world_size}


def check_limits(sampling_interval: float, max_events: int) -> None:
    """Raise an error if a setting is invalid. Called before the tracker looks for a device."""
    if not sampling_interval > 0:
        raise InvalidValueError("sampling_interval must be > 0")
    if max_events < 1:
        raise InvalidValueError("max_events must be >= 1")


def _weakly(method: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """A function that calls the method without keeping its object alive. The recorder in Rust would
    keep the method, and thus the object, for ever."""
    reference = weakref.WeakMethod(method)

    def call(fields: dict[str, Any]) -> None:
        bound = reference()
        if bound is not None:
            bound(fields)

    return call


class _Phase(AbstractContextManager[PhaseHandle]):
    """A phase that begins with its ``with`` block, not when the object is created."""

    def __init__(self, enter: Callable[[], PhaseHandle]) -> None:
        self._enter = enter

    def __enter__(self) -> PhaseHandle:
        self._handle = self._enter()
        return self._handle

    def __exit__(self, *exception: object) -> None:
        self._handle.close()


def _warn_of_incomplete_launcher(identity: Mapping[str, Any]) -> None:
    global _warned_of_launcher
    given = any(identity[key] is not None for key in ("rank", "local_rank", "world_size"))
    if given or _warned_of_launcher or not _core.launcher_is_incomplete(dict(os.environ)):
        return
    _warned_of_launcher = True
    logger.warning(
        "the launcher's variables are incomplete (RANK needs WORLD_SIZE); recording as rank 0"
    )
