"""Asking one address and reading its answer: the step every request of the client shares."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from orderly.client.replies import failure
from orderly.errors import OrderlyError, ProtocolError, RemotingError
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand
from orderly.remoting.connection import Attend
from orderly.remoting.pool import Connections

R = TypeVar("R")

ONLY_SUCCESS = frozenset({ResponseCode.SUCCESS})


class Calls:
    """Requests over a client's connections, checked for their response code. Thread-safe.

    Args:
        connections: of the client.
        timeout: seconds for each reply, unless a call says otherwise.
    """

    def __init__(self, connections: Connections, timeout: float) -> None:
        self._connections = connections
        self._timeout = timeout

    def connected(self, address: str) -> bool:
        """Whether there is an open connection to `address`."""
        return self._connections.connected(address) is not None

    def ask(
        self,
        address: str,
        command: RemotingCommand,
        what: str,
        *,
        timeout: float | None = None,
        accept: Collection[int] = ONLY_SUCCESS,
    ) -> RemotingCommand:
        """Send a request and wait for its reply; connects if need be.

        Args:
            address: "host:port".
            command: the request.
            what: what is asked, for the error's text, with topic and group.
            timeout: seconds for the reply.
            accept: response codes that are answers, not errors.

        Raises:
            RemotingError: no connection or no reply.
            BrokerError: a reply with a code that is not in `accept`.
        """
        limit = self._timeout if timeout is None else timeout
        reply = self._connections.get(address).call(command, limit)
        if reply.code not in accept:
            raise failure(reply, address, what)
        return reply

    def submit(
        self,
        address: str,
        command: RemotingCommand,
        read: Callable[[RemotingCommand, str], R],
        on_result: Callable[[R | OrderlyError], None],
        *,
        timeout: float,
        may_connect: bool,
        attended: bool = False,
    ) -> Attend | None:
        """Send a request and return; `on_result` gets what `read` makes of the reply.

        Args:
            address: "host:port".
            command: the request.
            read: turns reply and address into the result, or raises OrderlyError; on the reader
                thread.
            on_result: called exactly once if the request went out, on the reader thread (a
                time-out: on a timer thread); must not block.
            timeout: seconds for the reply.
            may_connect: False on threads that must not block.
            attended: the caller waits, and calls what is returned; see `Connection.submit`.

        Returns:
            What reads the reply on the calling thread. None if there is no connection and
            `may_connect` is False: nothing was sent.

        Raises:
            RemotingError: nothing was executed and `on_result` is not called.
        """
        connect = self._connections.get if may_connect else self._connections.connected
        connection = connect(address)
        if connection is None:
            return None

        def on_reply(outcome: RemotingCommand | RemotingError) -> None:
            if isinstance(outcome, RemotingError):
                on_result(outcome)
                return
            try:
                result: R | OrderlyError = read(outcome, address)
            except OrderlyError as error:
                result = error
            except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for it
                result = ProtocolError(f"the reply of {address} could not be read: {error!r}")
                result.__cause__ = error
            on_result(result)

        return connection.submit(command, timeout, on_reply, attended)
