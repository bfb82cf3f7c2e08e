"""The flight recorder: keeps the last events, and writes a bundle on an out-of-memory error."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from . import _core
from ._compat.legacy_names import legacy_names
from ._paths import absolute
from ._system import system_info
from ._torch import loaded_torch

if TYPE_CHECKING:
    from .session import SessionSummary

__all__ = [
    "OOMExceptionClassification",
    "OOMFlightRecorder",
    "OOMFlightRecorderConfig",
    "classify_oom_exception",
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OOMExceptionClassification:
    """Whether an exception is an out-of-memory error, and the reason."""

    is_oom: bool
    reason: str | None


@dataclass(frozen=True)
class OOMFlightRecorderConfig:
    """Where bundles are written, how many of them are kept, their largest total size in MB, and how
    many events each contains at most (``buffer_size``)."""

    enabled: bool = False
    dump_dir: str = "oom_dumps"
    buffer_size: int = 10000
    max_dumps: int = 5
    max_total_mb: int = 256


class OOMFlightRecorder:
    """Keeps the last events in memory; ``dump`` writes them to a bundle."""

    def __init__(self, config: OOMFlightRecorderConfig) -> None:
        self.config = config
        # The program may change its working directory before memory runs out.
        self._root = absolute(config.dump_dir)
        self._events: deque[dict[str, Any]] = deque(maxlen=max(1, config.buffer_size))
        self._sequence = 0

    def record_event(self, event: dict[str, Any]) -> None:
        """Keep an event. When ``buffer_size`` events are kept, the oldest is dropped."""
        self._events.append(dict(event))

    def snapshot_events(self) -> list[dict[str, Any]]:
        """A copy of the kept events, oldest first."""
        return [dict(event) for event in self._events]

    def clear(self) -> None:
        """Drop all kept events."""
        self._events.clear()

    def dump(
        self,
        *,
        reason: str,
        exception: BaseException,
        context: str | None,
        backend: str,
        metadata: dict[str, Any] | None = None,
        session_summary: SessionSummary | None = None,
    ) -> str | None:
        """Write the kept events to a bundle and return its directory; ``None`` if not enabled.

        The bundle is complete on disk when this function returns. Text that looks like a secret is
        left out. The oldest bundles beyond the limits of the configuration are deleted.
        """
        if not self.config.enabled:
            return None
        path = self.dump_events(
            self._events,
            reason=reason,
            exception=exception_facts(exception),
            context=context,
            backend=backend,
            metadata=metadata,
            session_summary=session_summary,
        )
        announce(path)
        return path

    def dump_events(
        self,
        events: Iterable[dict[str, Any]],
        *,
        reason: str,
        exception: tuple[str, str, str],
        context: str | None,
        backend: str,
        metadata: dict[str, Any] | None,
        session_summary: SessionSummary | None,
    ) -> str:
        """Write a bundle of the given events. ``exception`` is class, module and text of an
        exception."""
        now = datetime.now(timezone.utc)
        root = self._root
        self._sequence += 1
        path = _core.write_oom_bundle(
            {
                "root": root,
                "sequence": self._sequence,
                "stamp": now.strftime("%Y%m%dT%H%M%SZ"),
                "created": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "reason": reason,
                "exception": exception,
                "context": context,
                "backend": backend,
                "events": list(events),
                "metadata": metadata or {},
                "session": None if session_summary is None else asdict(session_summary),
                "system": system_info(),
                "pid": os.getpid(),
                "cwd": os.getcwd(),
            }
        )
        _core.prune_oom_bundles(root, self.config.max_dumps, self.config.max_total_mb)
        return str(path)


def announce(path: str) -> None:
    """Log the path of a bundle."""
    logger.warning("OOM flight recorder dump saved to: %s", path)


def classify_oom_exception(exc: BaseException) -> OOMExceptionClassification:
    """Whether an exception means that memory ran out, by its type or its text."""
    reason = _core.classify_oom_legacy(*exception_facts(exc), _is_torch_oom(exc))
    return OOMExceptionClassification(reason is not None, reason)


def oom_reason(exc: BaseException) -> str | None:
    """The reason that a bundle states if the exception means that a device ran out of memory;
    otherwise ``None``."""
    return _core.classify_oom(*exception_facts(exc), _is_torch_oom(exc))


def _is_torch_oom(exc: BaseException) -> bool:
    torch_type = getattr(getattr(loaded_torch(), "cuda", None), "OutOfMemoryError", None)
    return isinstance(torch_type, type) and isinstance(exc, torch_type)


def exception_facts(exception: BaseException) -> tuple[str, str, str]:
    """The name of an exception's class, the module of the class, and the text of the exception."""
    kind = type(exception)
    return kind.__name__, kind.__module__, str(exception)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
