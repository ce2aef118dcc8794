"""Requests about a queue, sent to a broker that has it, by the routes this client knows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from orderly.client.calls import ONLY_SUCCESS, Calls
from orderly.client.routes import Routes, address_in
from orderly.errors import OrderlyError
from orderly.model import MessageQueue, TopicRoute
from orderly.protocol.frame import RemotingCommand
from orderly.remoting.connection import Attend

R = TypeVar("R")


class QueueRequests:
    """`Calls` by queue instead of by address. Thread-safe.

    A failure that makes the route suspect has it fetched again in the background.
    """

    def __init__(self, calls: Calls, routes: Routes) -> None:
        self._calls = calls
        self._routes = routes

    def ask(
        self,
        queue: MessageQueue,
        command: RemotingCommand,
        what: str,
        *,
        timeout: float | None = None,
        accept: Collection[int] = ONLY_SUCCESS,
        replica: int | None = None,
    ) -> RemotingCommand:
        """Ask the broker of `queue`; further errors as `Calls.ask`.

        Args:
            queue: its topic's route says where its broker is.
            command: the request.
            what: what is asked, for the error's text, with topic and group.
            timeout: seconds for the reply; None: the client's request time-out.
            accept: response codes that are answers, not errors.
            replica: the broker id to prefer where a slave will do, too; None: only the master.

        Raises:
            RouteError: the broker is not in the route, or has no fitting address.
        """
        try:
            address = _address(self._routes.get(queue.topic), queue, replica)
            return self._calls.ask(address, command, what, timeout=timeout, accept=accept)
        except OrderlyError as error:
            self._note(queue.topic, error)
            raise

    def submit(
        self,
        queue: MessageQueue,
        command: RemotingCommand,
        read: Callable[[RemotingCommand, str], R],
        on_result: Callable[[R | OrderlyError], None],
        *,
        timeout: float,
        may_connect: bool,
        attended: bool = False,
        replica: int | None = None,
    ) -> Attend | None:
        """Send to the broker of `queue` and return; errors as `Calls.submit`.

        Args:
            queue: its topic's route says where its broker is.
            command: the request.
            read: turns reply and address into the result, or raises OrderlyError.
            on_result: called exactly once if the request went out; see `Calls.submit`.
            timeout: seconds for the reply.
            may_connect: False on threads that must not block: neither is a route fetched.
            attended: the caller waits, and calls what is returned.
            replica: as for `ask`.

        Returns:
            What reads the reply on the calling thread. None if it would have had to connect or to
            ask a name server, and must not.
        """
        topic = queue.topic

        def heard(result: R | OrderlyError) -> None:
            if isinstance(result, OrderlyError):
                self._note(topic, result)
            on_result(result)

        try:
            route = self._routes.get(topic) if may_connect else self._routes.cached(topic)
            if route is None:
                return None
            return self._calls.submit(
                _address(route, queue, replica),
                command,
                read,
                heard,
                timeout=timeout,
                may_connect=may_connect,
                attended=attended,
            )
        except OrderlyError as error:
            self._note(topic, error)
            raise

    def _note(self, topic: str, error: OrderlyError) -> None:
        """Have the topic's route fetched again after a failure that says it may be wrong."""
        if error.refresh_route:
            self._routes.suspect(topic)


def _address(route: TopicRoute, queue: MessageQueue, replica: int | None) -> str:
    """The master's address; with a `replica` preferred, any that is there will do."""
    if replica is None:
        return address_in(route, queue.broker_name)
    return address_in(route, queue.broker_name, master=False, broker_id=replica)
