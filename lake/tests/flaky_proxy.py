"""A proxy in front of an HTTP server that drops, delays and fails requests.

A dropped request reaches the server or does not; in both cases the client gets no answer.
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FlakyProxy:
    """Listens on the loopback; `rate` of the requests are disturbed while `is_calm` is false."""

    def __init__(self, server_port: int, rate: float, seed: int = 1) -> None:
        self.rate, self.chance, self.is_calm = rate, random.Random(seed), False
        self.disturbed = 0
        lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def forward(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                with lock:
                    kind = None
                    if not proxy.is_calm and proxy.chance.random() < proxy.rate:
                        kind = proxy.chance.choice(["before", "after", "delay", "error"])
                        proxy.disturbed += 1
                if kind == "before":
                    self.drop()
                    return
                if kind == "error":
                    self.answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
                    return
                if kind == "delay":
                    time.sleep(0.3)
                connection = http.client.HTTPConnection("127.0.0.1", server_port, timeout=60)
                headers = {
                    k: v
                    for k, v in self.headers.items()
                    if k.lower() not in ("connection", "expect")
                }
                connection.request(self.command, self.path, body, headers)
                response = connection.getresponse()
                data = response.read()
                if kind == "after":
                    # The request was carried out, but its answer is lost.
                    self.drop()
                    return
                self.answer(response.status, dict(response.getheaders()), data)

            def drop(self) -> None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            def answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                length = headers.get("Content-Length", headers.get("content-length"))
                size = length if self.command == "HEAD" and length else str(len(data))
                self.send_header("Content-Length", size)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = forward

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
