"""The endpoint of a process: `/live`, `/ready` and `/status` as JSON, `/metrics` for Prometheus.

On loopback by default. `/ready` is 200 when there is no problem; else 503 with the problems.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import structlog

from trajlake.streams.metrics import CONTENT_TYPE

log = structlog.get_logger("trajlake.health")

SHORT: Final = ("ready", "problems", "lag_records", "lag_seconds")
"""What `/ready` shows of the view."""


class HealthServer:
    """Serves `view()` and `metrics()` in a thread of its own. `port` 0 takes a free one; read it back from `address`.

    Raises OSError where the address cannot be listened at.
    """

    def __init__(self, host: str, port: int, view: Callable[[], dict[str, Any]], metrics: Callable[[], bytes]) -> None:
        self._server = ThreadingHTTPServer((host, port), _handler(view, metrics))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def serve_beside(
    host: str, port: int, view: Callable[[], dict[str, Any]], metrics: Callable[[], bytes]
) -> HealthServer | None:
    """Start the endpoint of a service whose work does not wait for it: where it cannot listen, that is logged."""
    try:
        server = HealthServer(host, port, view, metrics)
    except OSError as error:
        log.warning("no health endpoint, no metrics", host=host, port=port, reason=error.strerror or str(error))
        return None
    server.start()
    log.info("health endpoint", address=server.address)
    return server


def _handler(view: Callable[[], dict[str, Any]], metrics: Callable[[], bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "trajlake"
        sys_version = ""
        timeout = 10

        def do_GET(self) -> None:
            path = self.path.split("?", 1)[0]
            if path == "/live":
                self._answer(200, {"live": True, "time": time.time()})
            elif path in ("/ready", "/status"):
                seen = view()
                code = 200 if seen["ready"] or path == "/status" else 503
                self._answer(code, seen if path == "/status" else {k: seen[k] for k in SHORT if k in seen})
            elif path == "/metrics":
                self._send(200, metrics(), CONTENT_TYPE)
            else:
                self._answer(404, {"error": "not found", "paths": ["/live", "/ready", "/status", "/metrics"]})

        def _answer(self, code: int, body: dict[str, Any]) -> None:
            self._send(code, json.dumps(body).encode(), "application/json")

        def _send(self, code: int, content: bytes, content_type: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged: probes come every few seconds."""

    return Handler
