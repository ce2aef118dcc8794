"""A small HTTP endpoint that tells an orchestrator whether the consumer in this process is well.

GET /live and GET /ready answer 200 or 503, GET /health all that is known as JSON.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Self

from orderly.consumer.telling.health import Health
from orderly.errors import ConfigError
from orderly.log import get_logger

_log = get_logger("orderly.probe")
_PATIENCE = 5.0  # seconds for one request, from the first byte to the last
_AT_ONCE = 16  # requests; more are turned away, so that a slow caller costs no more than this


class Probe:
    """Serves the answers of `read` until closed. Thread-safe.

    Args:
        port: 0 for any free one.
        read: called for each request, on a thread of its own.
        host: the address to listen at. "0.0.0.0" for a prober outside this host or container, which
            shows /health (topics, offsets) to everybody who can connect.

    Raises:
        ConfigError: no such port.
    """

    def __init__(self, port: int, read: Callable[[], Health], host: str = "127.0.0.1") -> None:
        if not 0 <= port < 65536:
            raise ConfigError(f"the probe's port must be 0 to 65535, not {port!r}")
        self._address = (host, port)
        self._read = read
        self._lifecycle = threading.Lock()
        self._server: _Server | None = None

    @property
    def port(self) -> int:
        """The port it listens at; before the start the one asked for."""
        server = self._server
        return self._address[1] if server is None else int(server.server_address[1])

    def start(self) -> Self:
        """Listen. Without effect if it does already.

        Raises:
            ConfigError: the address is taken, or not one of this host.
        """
        with self._lifecycle:
            if self._server is None:
                self._server = self._listen()
        return self

    def close(self) -> None:
        """Stop listening, within about half a second. Idempotent."""
        with self._lifecycle:
            if self._server is not None:
                self._server.shutdown()
                self._server.server_close()
                self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _listen(self) -> _Server:
        host, port = self._address
        try:
            server = _Server(self._address, self._read)
        except OSError as error:
            raise ConfigError(
                f"the probe cannot listen at {host}:{port}: {error}; choose another port (0: any"
                " free one) or stop what listens there"
            ) from error
        name = f"orderly-probe-{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, name=name, daemon=True).start()
        return server


class _Server(ThreadingMixIn, TCPServer):
    """One thread a request; not HTTPServer, which asks the DNS for its own name."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = _AT_ONCE

    def __init__(self, address: tuple[str, int], read: Callable[[], Health]) -> None:
        self.read = read
        self._room = threading.Semaphore(_AT_ONCE)
        super().__init__(address, _Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread to be had
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one; a time-out on each read would not stop a byte every four seconds."""
        limit = threading.Timer(_PATIENCE, _cut, (request,))
        limit.name, limit.daemon = "orderly-probe-limit", True
        try:
            limit.start()
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - inherited
        _log.debug("probe.request_failed", peer=client_address[0], exc_info=True)


class _Request(BaseHTTPRequestHandler):
    """One request."""

    server_version, sys_version = "orderly", ""
    server: _Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        answer = _ANSWERS.get(path)
        if answer is None:
            paths = ", ".join(_ANSWERS)
            self._reply(HTTPStatus.NOT_FOUND, json.dumps({"error": f"there is only {paths}"}))
            return
        try:
            well, body = answer(self.server.read())
        except Exception as error:  # noqa: BLE001 - who cannot tell its health is not well
            _log.error("probe.health_not_read", error=repr(error), exc_info=True)
            well, body = False, json.dumps({"error": "the health could not be read; see the log"})
        self._reply(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited name
        """No access log: probes come every few seconds."""

    def _reply(self, status: HTTPStatus, body: str) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(data)


def _cut(request: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it ended by itself
        request.shutdown(socket.SHUT_RDWR)


def _live(health: Health) -> tuple[bool, str]:
    return health.live, json.dumps({"live": health.live, "reasons": health.reasons})


def _ready(health: Health) -> tuple[bool, str]:
    return health.ready, json.dumps({"ready": health.ready, "reasons": health.reasons})


def _all(health: Health) -> tuple[bool, str]:
    return True, health.to_json()


_ANSWERS: dict[str, Callable[[Health], tuple[bool, str]]] = {
    "/live": _live,
    "/ready": _ready,
    "/health": _all,
}
