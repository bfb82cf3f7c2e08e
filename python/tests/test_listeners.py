"""Clients that connect to the server of a recording and send no request."""

from __future__ import annotations

import json
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import waiting


def test_a_recording_survives_a_thousand_silent_clients(tmp_path: Path) -> None:
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    sink = tmp_path / "sink"
    program = [sys.executable, "-c", "import time; time.sleep(600)"]
    watched = subprocess.Popen(program)
    command = [sys.executable, "-m", "stormlog", "track", "--pid", str(watched.pid)]
    command += ["--interval", "0.05", "--sink", str(sink), "--listen", "127.0.0.1:0"]
    errors = (tmp_path / "stderr").open("w+")
    limited = ["bash", "-c", 'ulimit -n 256; exec "$0" "$@"', *command]
    tracker = subprocess.Popen(limited, stdout=subprocess.DEVNULL, stderr=errors)
    clients: list[socket.socket] = []
    try:

        def port() -> int | None:
            found = re.search(r"http://127.0.0.1:(\d+)/", (tmp_path / "stderr").read_text())
            return int(found[1]) if found else None

        waiting.wait_until(lambda: port() is not None)
        address = ("127.0.0.1", port() or 0)
        for _ in range(1100):
            client = socket.create_connection(address, timeout=60)
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
            clients.append(client)
        asking = socket.create_connection(address, timeout=60)
        clients.append(asking)
        asking.sendall(f"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:{address[1]}\r\n\r\n".encode())
        assert b"200 OK" in asking.recv(1000)
        time.sleep(1)
    finally:
        for client in clients:
            client.close()
        tracker.send_signal(signal.SIGINT)
        tracker.wait(60)
        watched.kill()
        watched.wait()
        errors.close()
    manifest = json.loads(next(sink.rglob("manifest.json")).read_text())
    assert [session["status"] for session in manifest["sessions"]] == ["completed"]
