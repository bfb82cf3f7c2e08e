"""How soon the terminal UI shows something of a large sink, and how smoothly the rest comes.

    python benches/speed/tui_first_screen.py --program target/release/stormlog [--sink DIRECTORY]

Opens the sink in a terminal of its own, 120 by 40, and notes the CPU time that the program has
used, all threads together, when the number of events is first on the screen; then the frames
that it draws until the verdict is there. Without a sink one of 1,000,000 events is made, and
once more with rollups beside it.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import os
import pty
import select
import signal
import struct
import tempfile
import termios
import time
from dataclasses import dataclass
from pathlib import Path

from make_sink import write_sink

# Reads this close together are of one frame.
SAME_FRAME_S = 0.004


@dataclass
class Opening:
    """The measurements of one start."""

    first_cpu_s: float
    first_wall_s: float
    whole_cpu_s: float
    whole_wall_s: float
    frames: int
    longest_wait_s: float

    @property
    def frames_per_second(self) -> float:
        """While the rest was loading."""
        return self.frames / max(self.whole_wall_s - self.first_wall_s, 1e-9)


def cpu_s(pid: int) -> float:
    """CPU time of a process, its ended threads included."""
    # The id of another process's CPU clock, as clock_getcpuclockid(3) computes it.
    return time.clock_gettime((~pid << 3) | 2)


def open_in_terminal(program: str, sink: Path, first: bytes, limit_s: float = 120.0) -> Opening:
    """Start the program on a sink and watch what it draws."""
    start = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(program, [program, "tui", str(sink)], os.environ | {"TERM": "xterm-256color"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    os.kill(pid, signal.SIGWINCH)
    drawn, frames = b"", []
    seen: tuple[float, float] | None = None
    try:
        while True:
            ready, _, _ = select.select([terminal], [], [], limit_s)
            if not ready:
                raise SystemExit(f"nothing more was drawn; the last was {drawn[-400:]!r}")
            drawn += os.read(terminal, 65536)
            now = time.perf_counter()
            if not frames or now - frames[-1] > SAME_FRAME_S:
                frames.append(now)
            if seen is None and first in drawn:
                seen = (cpu_s(pid), now - start)
            # The title of the plot changes with the verdict.
            if seen is not None and b"in all), peak" in drawn:
                later = [frame for frame in frames if frame - start > seen[1]]
                waits = [b - a for a, b in itertools.pairwise(later)]
                return Opening(*seen, cpu_s(pid), now - start, len(later), max(waits, default=0.0))
    finally:
        os.write(terminal, b"q")
        deadline = time.monotonic() + 10
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            if select.select([terminal], [], [], 0.05)[0]:
                try:
                    os.read(terminal, 65536)
                except OSError:
                    pass
        os.close(terminal)


def report(name: str, openings: list[Opening]) -> None:
    """The middle one of several starts, by the CPU time of the first screen."""
    middle = sorted(openings, key=lambda opening: opening.first_cpu_s)[len(openings) // 2]
    print(
        f"{name:28} first screen {middle.first_cpu_s * 1000:6.1f} ms CPU, {middle.first_wall_s * 1000:6.1f} ms wall;"
        f" everything {middle.whole_cpu_s:5.2f} s CPU, {middle.whole_wall_s:5.2f} s wall;"
        f" {middle.frames_per_second:4.1f} frames/s, longest wait {middle.longest_wait_s * 1000:.0f} ms"
    )


def write_rollups(sink: Path) -> None:
    """Rollups as a recorder would have left them."""
    from stormlog.telemetry import load_telemetry_sessions
    from stormlog.telemetry_rollups import build_telemetry_rollups, write_telemetry_rollups
    from stormlog.telemetry_sink import read_telemetry_sink_manifest

    sessions = load_telemetry_sessions(sink)
    manifest = read_telemetry_sink_manifest(sink)
    write_telemetry_rollups(sink, build_telemetry_rollups(sessions, manifest))


def main() -> None:
    """Print one line for a sink without rollups and one for the same sink with them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--sink", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sink = options.sink
        if sink is None:
            sink = Path(folder) / "sink"
            write_sink(sink, options.events, 8)
        first = str(options.events).encode()
        runs = range(options.runs)
        rollups = sink / "rollups.json"
        name = "with rollups" if rollups.exists() else "without rollups"
        report(name, [open_in_terminal(options.program, sink, first) for _ in runs])
        if not rollups.exists() and options.sink is None:
            write_rollups(sink)
            report("with rollups", [open_in_terminal(options.program, sink, first) for _ in runs])


if __name__ == "__main__":
    main()
