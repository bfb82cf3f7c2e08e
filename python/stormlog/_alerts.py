"""Sends alerts about the session of a tracker from a separate process.

The detectors keep a processor core busy now and then, and the receiver of alerts may not answer.
Neither may slow the process that trains, so ``stormlog watch`` detects problems and sends alerts in
a process of its own.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys

from .errors import InvalidValueError

logger = logging.getLogger(__name__)


class AlertProcess:
    """Runs ``stormlog watch`` on the sink of a tracker while a session lasts."""

    def __init__(self, url: str, sink_dir: os.PathLike[str] | None) -> None:
        if sink_dir is None:
            raise InvalidValueError("alert needs a telemetry sink: give telemetry_sink_config")
        self._url = url
        self._sink_dir = sink_dir
        self._process: subprocess.Popen[bytes] | None = None
        # A forked child has a copy of this object, but only the process with this pid may stop
        # `_process`.
        self._owner_pid = os.getpid()

    def start(self) -> None:
        """Start ``stormlog watch``; does nothing when it is running. If the process cannot be
        started, a warning is logged, and the tracker records without sending alerts."""
        if self._is_running():
            return
        self._owner_pid = os.getpid()
        command = [sys.executable, "-m", "stormlog", "watch", os.fspath(self._sink_dir)]
        command += ["--pid", str(os.getpid())]
        try:
            # The address is passed in the environment, because it is a secret and every user of the
            # machine can read a command line.
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "STORMLOG_ALERT": self._url},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            logger.warning("no alerts are sent: %s", error)

    def stop(self) -> None:
        """Ask the process to send the alerts that are queued and to end, without waiting until it
        has ended."""
        if self._process is not None and self._is_running():
            self._process.terminate()

    def _is_running(self) -> bool:
        is_ours = self._owner_pid == os.getpid()
        return is_ours and self._process is not None and self._process.poll() is None
