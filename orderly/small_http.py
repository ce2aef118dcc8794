"""A small HTTP server for answers that are ready: GET and HEAD, no bodies, nothing unbounded.

Whoever can connect may be hostile: a browser that another site steers, a scanner, somebody that
sends a byte a minute or holds every connection that there may be. They cost a few threads for a
few seconds, and keep nobody else out: the one that waits longest without a question makes room.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Generic, Self, TypeVar
from urllib.parse import parse_qsl

from orderly.config.arguments import check_port, check_text
from orderly.errors import ConfigError
from orderly.log import get_logger

_C = TypeVar("_C", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What callers may take of a server.

    Attributes:
        at_once: connections. For one more the oldest that has not asked yet makes room.
        per_peer: connections of one address, the same way.
        asking: seconds for a request, from the connection to its last byte.
        answering: seconds for sending its answer: 25 MB to a slow scraper.
        head: bytes of a request.
    """

    at_once: int = 16
    per_peer: int = 8
    asking: float = 5.0
    answering: float = 30.0
    head: int = 16 << 10


class Stage(IntEnum):
    """What a connection is at. Who is at the lowest makes room first."""

    ASKING = 0
    READING = 1  # the answer is being sent, as fast as the caller takes it
    WORKING = 2  # the answer is being found: nothing ends that, so it keeps its place


@dataclass(slots=True)
class _Place:
    peer: str
    until: float
    stage: Stage = Stage.ASKING


class Places(Generic[_C]):
    """The places of a server's connections. Times are seconds of one clock."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._taken: dict[_C, _Place] = {}  # the oldest first

    def admit(self, connection: _C, peer: str, now: float) -> list[_C] | None:
        """Give a place to a new connection.

        Returns:
            Who lost theirs for it, at most one; None: all are at work, there is no place to be had.
        """
        leaving = self._makes_room(peer)
        if leaving is not None:
            if self._taken[leaving].stage is Stage.WORKING:
                return None
            self.leave(leaving)
        self._taken[connection] = _Place(peer, now + self._limits.asking)
        return [] if leaving is None else [leaving]

    def enter(self, connection: _C, stage: Stage, now: float) -> bool:
        """Note what a connection is at from now on; False: it has lost its place."""
        place = self._taken.get(connection)
        if place is None:
            return False
        place.stage = stage
        place.until = now + self._limits.answering if stage is Stage.READING else float("inf")
        return True

    def leave(self, connection: _C) -> None:
        """Free its place, if it has one."""
        self._taken.pop(connection, None)

    def late(self, now: float) -> list[_C]:
        """Take the places of those whose time is over, at infinity all, and return them."""
        found = [each for each, place in self._taken.items() if place.until <= now]
        for each in found:
            self.leave(each)
        return found

    def _makes_room(self, peer: str) -> _C | None:
        """Who would have to leave for one more; None: nobody."""
        own = [each for each, place in self._taken.items() if place.peer == peer]
        if len(own) >= self._limits.per_peer:
            crowd = own
        elif len(self._taken) >= self._limits.at_once:
            crowd = list(self._taken)
        else:
            return None
        return min(crowd, key=lambda each: self._taken[each].stage)


# --- the server -----------------------------------------------------------------------------------


_log = get_logger("orderly.http")
_LIMITS = ServerLimits()
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
class HttpRequest:
    """A request: its path, its query, and the formats that the caller takes."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = ""


@dataclass(frozen=True, slots=True)
class HttpResponse:
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
        limits: what callers may take.

    Raises:
        ConfigError: no such port.
    """

    def __init__(
        self,
        host: str,
        port: int,
        answer: Callable[[HttpRequest], HttpResponse],
        role: str,
        limits: ServerLimits = _LIMITS,
    ) -> None:
        check_port("port", port)
        check_text("host", host)
        self._address = (host, port)
        self._answer = answer
        self._role = role
        self._limits = limits
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
        """Stop listening and end every connection, within about half a second. Idempotent."""
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
            server = _Server(self._address, self._answer, self._role, self._limits)
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
    """One thread a connection; not HTTPServer, which asks the DNS for its own name."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # beyond it the system lets callers wait a second and try again

    def __init__(
        self,
        address: tuple[str, int],
        answer: Callable[[HttpRequest], HttpResponse],
        role: str,
        limits: ServerLimits,
    ) -> None:
        self.answer = answer
        self.role = role
        self.limits = limits
        self.only_local = is_loopback(address[0])
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._lock = threading.Lock()
        self._places: Places[socket.socket] = Places(limits)
        super().__init__(address, _Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin with a connection, if there is a place for it or one can be had."""
        with self._lock:
            leaving = self._places.admit(request, client_address[0], time.monotonic())
            _cut(leaving or ())
        if leaving is None:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def enter(self, request: socket.socket, stage: Stage) -> bool:
        """Whether a connection may go on to that stage: it still has its place."""
        with self._lock:
            return self._places.enter(request, stage, time.monotonic())

    def shutdown_request(self, request: Any) -> None:
        """End a connection, however far it got."""
        with self._lock:  # before it is closed: a connection with a place can be cut
            self._places.leave(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called about twice a second: who is late loses its place."""
        with self._lock:
            _cut(self._places.late(time.monotonic()))

    def server_close(self) -> None:
        """Stop, and leave no thread behind that waits for a caller."""
        super().server_close()
        with self._lock:
            _cut(self._places.late(float("inf")))

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - inherited
        _log.debug("http.request_failed", role=self.role, peer=client_address[0], exc_info=True)


class _Request(BaseHTTPRequestHandler):
    """One request."""

    server_version, sys_version = "orderly", ""
    server: _Server

    def handle_one_request(self) -> None:
        """Read a whole request, which is bounded in time and bytes, before any of it is parsed."""
        self.close_connection = True
        self.requestline = self.request_version = self.command = ""
        with self.rfile:
            head = self._head()
        if len(head) > self.server.limits.head:
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        if not self.server.enter(self.request, Stage.WORKING):
            return
        self.rfile = io.BytesIO(head)
        self.raw_requestline = self.rfile.readline()
        if self.raw_requestline and self.parse_request():
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

    def _head(self) -> bytes:
        """What comes up to an empty line; empty if the caller ends before."""
        head = b""
        while line := self.rfile.readline(self.server.limits.head + 1 - len(head)):
            head += line
            if line in (b"\r\n", b"\n") or len(head) > self.server.limits.head:
                return head
        return b""

    def _answered(self) -> HttpResponse:
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
        except ValueError:  # more fields
            return _refusal(HTTPStatus.BAD_REQUEST)
        try:
            return self.server.answer(HttpRequest(path, fields, accept))
        except Exception as error:  # noqa: BLE001 - a defect of ours must not end the server
            _log.error(
                "http.not_answered",
                role=self.server.role,
                path=path,
                error=repr(error),
                exc_info=True,
            )
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _send(self, answer: HttpResponse) -> None:
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        headers = {"Content-Type": answer.content_type, **_HEADERS}
        if len(body) >= _WORTH_PACKING and self._takes_gzip():
            body = gzip.compress(body, compresslevel=1, mtime=0)
            headers["Content-Encoding"] = "gzip"
        if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET, HEAD"
        if not self.server.enter(self.request, Stage.READING):
            return
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


def _cut(requests: Iterable[socket.socket]) -> None:
    """Wake the threads of connections that lost their places: they find it so, and end."""
    for request in requests:
        with contextlib.suppress(OSError):  # the caller was faster
            request.shutdown(socket.SHUT_RDWR)


def _names_this_host(host: str) -> bool:
    """Whether a browser that sent this Host did not get here by a name of somebody else's.

    A page may have its own name resolved to 127.0.0.1, and then read what we answer (DNS
    rebinding).
    """
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return not host or is_loopback(name.strip("[]"))


def _refusal(status: HTTPStatus) -> HttpResponse:
    return HttpResponse(f"{status.value} {status.phrase}\n", "text/plain; charset=utf-8", status)
