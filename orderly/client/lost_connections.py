"""After the loss of a connection, sends wait until their broker has read what was written to it.

A broker that stood still reads its connections in any order. What it had not read of one that was
given up, it may read after what we write to the next: it would store a copy of a message behind
later ones. So the first send waits until the broker answers on the new connection and lists no
other of this client: it notices the end of a connection after all that was written to it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial

from orderly.client.background import SingleFlight
from orderly.client.calls import Calls
from orderly.client.connection import Connection
from orderly.errors import BrokerError
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import (
    GetProducerConnections,
    Heartbeat,
    ProducerData,
    decode_producer_connections,
    encode_heartbeat,
)

_LOOK_AGAIN = 0.05  # seconds
# Seconds that a broker that answers may go on to list a connection that ended. It may for 130 s, if
# it read a heartbeat of it after its end; all else was read by then.
_LONGEST = 3.0
_SETTLE = 0.2  # seconds that a broker keeps what it has read in its queue, at most
_BLIND = 1.0  # seconds in the place of a look, where nobody tells: at proxies, without permission


class LostConnections:
    """Where an earlier connection may not have been read to its end. Thread-safe.

    Args:
        calls: of the client.
        client_id: of the client.
        producers: returns its producer groups; brokers list connections by them.
    """

    def __init__(
        self, calls: Calls, client_id: str, producers: Callable[[], Sequence[str]]
    ) -> None:
        self._calls = calls
        self._client_id = client_id
        self._producers = producers
        # By address, a new object each time: whether the broker listed all that were lost. What was
        # waited for is kept beside it, not taken out: another loss may come between two steps.
        self._lost: dict[str, tuple[bool]] = {}
        self._read: dict[str, tuple[bool]] = {}
        self._waiting = SingleFlight[None]()

    def note(self, connection: Connection) -> None:
        """Note the loss of a connection to a broker. Never blocks."""
        (listed,) = self._unread(connection.address) or (True,)
        self._lost[connection.address] = (listed and connection.heard,)

    def are_read(self, address: str, timeout: float | None) -> bool:
        """Whether a send may go out to `address` now.

        Args:
            address: "host:port".
            timeout: seconds in which the broker must answer, and it may take some more to read.
                None on threads that must not wait.

        Raises:
            RemotingError: it does not answer.
        """
        if self._unread(address) is None:
            return True
        if timeout is None:
            return False
        self._waiting.do(address, partial(self._wait, address, timeout))
        return True

    def _unread(self, address: str) -> tuple[bool] | None:
        lost = self._lost.get(address)
        return None if lost is self._read.get(address) else lost

    def _wait(self, address: str, timeout: float) -> None:
        while (lost := self._unread(address)) is not None:  # another one, while it waited
            self._introduce(address, timeout)
            time.sleep(_SETTLE if self._end_is_seen(address) and lost[0] else _BLIND)
            self._read[address] = lost

    def _introduce(self, address: str, timeout: float) -> None:
        """Have the broker list the connection that there is now; whatever it answers, it reads."""
        producers = tuple(map(ProducerData, self._producers()))
        body = encode_heartbeat(Heartbeat(self._client_id, producers, ()))
        command = request(RequestCode.HEART_BEAT, body=body)
        with contextlib.suppress(BrokerError):
            self._calls.ask(address, command, "a heartbeat", timeout=timeout)

    def _end_is_seen(self, address: str) -> bool:
        """Wait while the broker lists more than one connection; False: it does not tell."""
        until = time.monotonic() + _LONGEST
        try:
            while (listed := self._listed(address)) > 1 and time.monotonic() < until:
                time.sleep(_LOOK_AGAIN)
        except BrokerError:
            return False
        return listed > 0

    def _listed(self, address: str) -> int:
        """How many connections of this client the broker lists."""
        most = 0
        for group in self._producers():
            header = GetProducerConnections(producer_group=group)
            what = f"the connections of producer group {group!r}"
            reply = self._calls.ask(address, request(header.code, to_ext(header)), what)
            listed = decode_producer_connections(reply.body)
            most = max(most, listed.count(self._client_id))
        return most
