"""A small HTTP server for answers that are ready: GET and HEAD, no bodies, nothing unbounded.

Whoever can connect may be hostile: a browser that another site steers, a scanner, somebody who
sends a byte a minute. They cost a few threads for a few seconds.
"""

from __future__ import annotations

import contextlib
import gzip
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Self
from urllib.parse import parse_qsl

from orderly.config.arguments import check_text
from orderly.config.numbers import check_port
from orderly.errors import ConfigError
from orderly.log import get_logger

_log = get_logger("orderly.http")
_AT_ONCE = 16  # requests; more are turned away
_ASKING = 5.0  # seconds for a request, from the first byte to the last
_ANSWERING = 30.0  # seconds for its answer: 25 MB to a slow scraper
_WORTH_PACKING = 1024  # bytes
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept, Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class Question:
    """A request: its path, its query, and the formats that the caller takes."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply. `status` is HTTP's."""

    body: str | bytes
    content_type: str
    status: HTTPStatus = HTTPStatus.OK


class Server:
    """Serves `answer` until closed. Thread-safe.

    Args:
        host, port: where to listen; port 0 for any free one. On loopback only requests for a name
            of loopback are answered, so that no web page gets here by a name of its own.
        answer: called for each request, on a thread of its own.
        role: for the names of threads and for the log.

    Raises:
        ConfigError: no such port.
    """

    def __init__(
        self, host: str, port: int, answer: Callable[[Question], Answer], role: str
    ) -> None:
        check_port("port", port)
        check_text("host", host)
        self._address = (host, port)
        self._answer = answer
        self._role = role
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
            server = _Server(self._address, self._answer, self._role)
        except OSError as error:
            raise ConfigError(
                f"the {self._role} cannot listen at {host}:{port}: {error}; choose another port"
                " (0: any free one) or stop what listens there"
            ) from error
        name = f"orderly-{self._role}-{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, name=name, daemon=True).start()
        return server


def is_loopback(host: str) -> bool:
    """Whether only this host can connect to what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Server(ThreadingMixIn, TCPServer):
    """One thread a request; not HTTPServer, which asks the DNS for its own name."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = _AT_ONCE

    def __init__(
        self, address: tuple[str, int], answer: Callable[[Question], Answer], role: str
    ) -> None:
        self.answer = answer
        self.role = role
        self.only_local = is_loopback(address[0])
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
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
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - inherited
        _log.debug("http.request_failed", role=self.role, peer=client_address[0], exc_info=True)


class _Request(BaseHTTPRequestHandler):
    """One request."""

    server_version, sys_version = "orderly", ""
    server: _Server

    def handle_one_request(self) -> None:
        """A time-out on each read alone would not stop a byte every four seconds."""
        with _limited(self.request, _ASKING):
            self.raw_requestline = self.rfile.readline(65537)
            if len(self.raw_requestline) > 65536:
                self.requestline = self.request_version = self.command = ""
                self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
                return
            if not self.raw_requestline or not self.parse_request():
                return
        self.close_connection = True
        with _limited(self.request, _ANSWERING):
            self._send(self._answered())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited name
        """No access log: probes and scrapers come every few seconds."""

    def send_error(
        self,
        code: int,
        message: str | None = None,  # noqa: ARG002 - it may quote the request
        explain: str | None = None,  # noqa: ARG002 - so may this
    ) -> None:
        """Refuse without repeating what the caller sent."""
        self.close_connection = True
        self._send(_refusal(HTTPStatus(code)))

    def _answered(self) -> Answer:
        if self.command not in ("GET", "HEAD"):
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        if self.headers.get("Transfer-Encoding") or self.headers.get("Content-Length", "0") != "0":
            return _refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if self.server.only_local and not _names_this_host(self.headers.get("Host", "")):
            return _refusal(HTTPStatus.MISDIRECTED_REQUEST)
        path, _, query = self.path.partition("?")
        accept = self.headers.get("Accept", "")
        try:
            fields = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=16))
            return self.server.answer(Question(path, fields, accept))
        except ValueError:
            return _refusal(HTTPStatus.BAD_REQUEST)
        except Exception as error:  # noqa: BLE001 - a defect of ours must not end the server
            _log.error(
                "http.not_answered",
                role=self.server.role,
                path=path,
                error=repr(error),
                exc_info=True,
            )
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _send(self, answer: Answer) -> None:
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        headers = {"Content-Type": answer.content_type, **_HEADERS}
        if len(body) >= _WORTH_PACKING and self._takes_gzip():
            body = gzip.compress(body, compresslevel=1, mtime=0)
            headers["Content-Encoding"] = "gzip"
        if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET, HEAD"
        self.send_response(answer.status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _takes_gzip(self) -> bool:
        offered = self.headers.get("Accept-Encoding", "") if hasattr(self, "headers") else ""
        return any(
            each.strip().partition(";")[0] == "gzip" and not each.strip().endswith("q=0")
            for each in offered.lower().split(",")
        )


@contextlib.contextmanager
def _limited(request: socket.socket, seconds: float) -> Iterator[None]:
    """Cut the connection after `seconds`, whatever goes on until then."""
    limit = threading.Timer(seconds, _cut, (request,))
    limit.name, limit.daemon = "orderly-http-limit", True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()


def _cut(request: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it ended by itself
        request.shutdown(socket.SHUT_RDWR)


def _names_this_host(host: str) -> bool:
    """Whether a browser that sent this Host did not get here by a name of somebody else's.

    A page may have its own name resolved to 127.0.0.1, and then read what we answer (DNS
    rebinding).
    """
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return not host or is_loopback(name.strip("[]"))


def _refusal(status: HTTPStatus) -> Answer:
    return Answer(f"{status.value} {status.phrase}\n", "text/plain; charset=utf-8", status)
