#!/usr/bin/env python3
"""Measures how receivers of alerts and metrics slow a program: its steps, and the time from its end
to the end of ``stormlog run``. Dead, slow and hostile receivers take turns with a good one and
with none.

    python benches/cost/receivers.py [--repeats 5] [--seconds 20]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

# Steps of a fixed amount of work that leak 1 MiB each, so that there is something to alert about.
PROGRAM = """
import json, sys, time
kept, times = [], []
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    start = time.perf_counter()
    block = bytearray(1 << 20)
    block[::4096] = b"x" * len(block[::4096])
    kept.append(block)
    total = 0
    for number in range(40_000):
        total += number * number
    times.append(time.perf_counter() - start)
    time.sleep(0.01)
times.sort()
print(json.dumps({"steps": len(times), "median_ms": 1000 * times[len(times) // 2],
                  "p99_ms": 1000 * times[len(times) * 99 // 100], "end": time.time()}))
"""


def serve(answer: Callable[[socket.socket], None]) -> str:
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=run, args=(connection,), daemon=True).start()

    def run(connection: socket.socket) -> None:
        try:
            with connection:
                answer(connection)
        except OSError:
            pass

    threading.Thread(target=work, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/hook"


def good(connection: socket.socket) -> None:
    connection.settimeout(5)
    while connection.recv(1 << 16):
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


def slow(connection: socket.socket) -> None:
    time.sleep(3600)


def dripping(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def garbage(connection: socket.socket) -> None:
    while True:
        connection.sendall(os.urandom(1 << 16))


def dead() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/hook"


def measure(url: str | None, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        flags = []
        if url is not None:
            flags = [
                "--alert",
                url,
                "--otlp",
                url,
                "--alert-after",
                "5",
                "--metrics-interval",
                "0.5",
            ]
        command = [
            sys.executable,
            "-m",
            "stormlog",
            "run",
            "--quiet",
            "--dir",
            str(Path(folder) / "run"),
        ]
        command += [*flags, "--", sys.executable, "-c", PROGRAM, str(seconds)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        end = time.time()
        result: dict[str, float] = json.loads(ran.stdout)
        result["exit_ms"] = 1000 * (end - result.pop("end"))
        result["lost"] = ran.stderr.count("not delivered")
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    receivers = {
        "none": None,
        "good": serve(good),
        "dead": dead(),
        "silent": serve(slow),
        "dripping": serve(dripping),
        "garbage": serve(garbage),
    }
    results: dict[str, list[dict[str, float]]] = {name: [] for name in receivers}
    for _ in range(arguments.repeats):
        for name, url in receivers.items():
            results[name].append(measure(url, arguments.seconds))
    print(
        "| receiver | steps | median step | 99 % of steps | exit after the program | reports losses |"
    )
    print("|---|---|---|---|---|---|")
    for name, runs in results.items():
        median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        slowest = max(run["exit_ms"] for run in runs)
        print(
            f"| {name} | {median['steps']:.0f} | {median['median_ms']:.2f} ms | "
            f"{median['p99_ms']:.2f} ms | {median['exit_ms']:.0f} ms (at most {slowest:.0f}) | "
            f"{'yes' if median['lost'] else 'no'} |"
        )


if __name__ == "__main__":
    main()
