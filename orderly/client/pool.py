"""One connection per address, opened when first needed and again after a loss.

Membership of a consumer group is per socket at the broker, so a second connection to the same
address would list a client twice: this is the only place that opens connections.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from orderly.client.background import Schedule, SingleFlight
from orderly.client.connection import Connection
from orderly.client.security import UNPROTECTED, Security
from orderly.clock import AwakeClock
from orderly.errors import LifecycleError
from orderly.interruptions import shielded
from orderly.log import get_logger
from orderly.protocol.frame import RemotingCommand

_log = get_logger("orderly.remoting")


class _Process:
    """This process, and no child that was forked from it."""

    def __init__(self) -> None:
        self.id = os.getpid()


_process = _Process()


def _forked() -> None:
    global _process  # noqa: PLW0603 - asked for with each request: os.getpid() is a system call
    _process = _Process()


os.register_at_fork(after_in_child=_forked)


class Connections:
    """The connections of one client. Thread-safe.

    They belong to the process that made them. A forked child has copies of the sockets, but none
    of the threads that read them, and of each lock in any state: there every use is
    refused before any lock is touched, and nothing is said on the parent's connections.

    Args:
        awake, connect_timeout, max_frame, security: see `Connection`.
        on_request: gets the peers' requests, on reader threads: must not block.
        on_open: called after a connection was opened, on the thread that asked for it.
        on_loss: called after a connection was lost (not by `close`), on its reader thread:
            must not block.

    Attributes:
        proxies: addresses at which proxies answer, as far as that is known.
    """

    def __init__(
        self,
        *,
        awake: AwakeClock,
        connect_timeout: float,
        max_frame: int,
        on_request: Callable[[Connection, RemotingCommand], None],
        on_open: Callable[[Connection], None],
        on_loss: Callable[[Connection], None],
        security: Security = UNPROTECTED,
    ) -> None:
        self._process = _process
        self._awake = awake
        self._connect_timeout = connect_timeout
        self._max_frame = max_frame
        self._on_request = on_request
        self._on_open = on_open
        self._on_loss = on_loss
        self._security = security
        self.proxies: set[str] = set()
        self._timeouts = Schedule("timeouts")
        self._opening = SingleFlight[Connection]()
        self._lock = threading.Lock()
        self._open: dict[str, Connection] = {}
        self._closed = False
        self._warned_of_keys = False

    @property
    def foreign(self) -> bool:
        """Whether this is a forked child's copy of another process's connections."""
        return _process is not self._process

    def check_process(self) -> None:
        """Refuse the use of a forked child's copy. Takes no lock: one may be held for ever there.

        Objects that use connections call this first, before their own locks, in each public call.

        Raises:
            LifecycleError: this process did not make them.
        """
        if self.foreign:
            raise LifecycleError(
                f"this client was made before a fork, by process {self._process.id}; make a new one"
                " in the child, after the fork"
            )

    def connected(self, address: str) -> Connection | None:
        """The open connection to `address`, or None. Never connects, never waits.

        Raises:
            LifecycleError: in a forked child.
        """
        if _process is not self._process:
            self.check_process()
        connection = self._open.get(address)
        return connection if connection is not None and connection.alive else None

    def get(self, address: str) -> Connection:
        """The open connection to `address`; opens one if necessary.

        Of many callers one connects; the others wait for it and share its failure. Blocks for
        the connect time-out at most, so reader threads use `connected`.

        Raises:
            ConnectFailed: names the address and what to check; `broker_hosts` if it is not allowed.
            LifecycleError: after `close`, or in a forked child.
        """
        return self.connected(address) or shielded(
            lambda: self._opening.do(address, lambda: self._connect(address))
        )

    def close(self) -> None:
        """Close all connections and refuse new ones. Idempotent; no effect in a forked child."""
        if self.foreign:
            return
        with self._lock:
            self._closed = True
            connections = list(self._open.values())
        for connection in connections:
            connection.close()
        self._timeouts.close()

    def _connect(self, address: str) -> Connection:
        self._check_open()
        connection = self.connected(address)
        if connection is not None:  # opened since the caller looked
            return connection
        self._security.check(address)
        connection = Connection(
            address,
            timeouts=self._timeouts,
            awake=self._awake,
            connect_timeout=self._connect_timeout,
            max_frame=self._max_frame,
            on_request=self._on_request,
            on_close=self._forget,
            security=self._security,
        )
        self._admit(connection)
        if self._security.exposes_keys_to(address):
            self._warn_of_exposed_keys(address)
        self._on_open(connection)
        return connection

    def _admit(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed:
                self._open[connection.address] = connection
                return
        connection.close()
        self._check_open()

    def _forget(self, connection: Connection) -> None:
        with self._lock:
            if self._open.get(connection.address) is connection:
                del self._open[connection.address]
            closed = self._closed
        if not closed:
            self._on_loss(connection)

    def _warn_of_exposed_keys(self, address: str) -> None:
        with self._lock:
            warned, self._warned_of_keys = self._warned_of_keys, True
        if not warned:
            _log.warning(
                "keys.not_encrypted",
                address=address,
                hint="requests are signed but not encrypted: anybody on the network can repeat"
                " them, and guess at the secret key; turn TLS on at the servers, and set"
                " tls=True (ORDERLY_TLS)",
            )

    def _check_open(self) -> None:
        if self._closed:
            raise LifecycleError("the client is closed; make a new one")
