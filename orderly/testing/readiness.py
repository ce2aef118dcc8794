"""When a name server and a broker that were just started can be used, however they run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orderly.client import Client
from orderly.config import ClientConfig
from orderly.errors import EmbeddedBrokerError, OrderlyError
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.frame import RemotingCommand, request

START_TIMEOUT = 90.0  # seconds
_POLL = 0.1
_ASK_AGAIN = 1.0


class BrokerStartFailed(EmbeddedBrokerError):
    """A server ended, or did not answer in time; the text has the end of its log."""


@dataclass(frozen=True, slots=True)
class StartedBroker:
    """A name server and a broker that were started, as clients see them."""

    namesrv: str
    broker_name: str
    broker_address: str
    permission: str = "6"
    """The broker's setting `brokerPermission`: read and write."""
    client_settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ClientConfig that a client needs there: keys, TLS."""
    broker_id: int = 0
    """0: a master; else one of its slaves."""


def wait_ready(
    started: StartedBroker, problem: Callable[[], str | None], report: Callable[[str], str]
) -> None:
    """Wait until the name server knows the broker and the broker answers.

    Args:
        started: what was started.
        problem: says why it can no longer come up, or None; asked again and again.
        report: makes the error's text of such a reason.

    Raises:
        BrokerStartFailed: there is a problem, or START_TIMEOUT passed.
    """
    config = ClientConfig(
        namesrv=started.namesrv,
        connect_timeout=1.0,
        request_timeout=2.0,
        **started.client_settings,
    )
    deadline = time.monotonic() + START_TIMEOUT
    with contextlib.closing(Client(config)) as client:
        question = _Question(client, started)
        while not question.answered():
            why = problem()
            if why is None and time.monotonic() > deadline:
                why = f"not ready after {START_TIMEOUT:g} s"
            if why is not None:
                raise BrokerStartFailed(report(why))
            time.sleep(_POLL)


class _Question:
    """Asks both servers whether they are there."""

    def __init__(self, client: Client, started: StartedBroker) -> None:
        self._client = client
        self._started = started
        self._next_asking = 0.0

    def answered(self) -> bool:
        try:
            broker = self._client.admin.cluster().brokers.get(self._started.broker_name)
            if broker is None or self._started.broker_id not in broker.addresses:
                self._have_it_register()
                return False
            command = request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            return self._ask(command).code == ResponseCode.SUCCESS
        except OrderlyError:
            return False

    def _ask(self, command: RemotingCommand) -> RemotingCommand:
        connection = self._client.connections.get(self._started.broker_address)
        return connection.call(command, timeout=2.0)

    def _have_it_register(self) -> None:
        """Change a setting of the broker (to what it is), upon which it registers at once.

        At its start it often finds no name server in its list yet, which a timer fills, and would
        try again only after 10 s (BrokerController.registerBrokerAll). On a busy machine the list
        may be empty still when we ask, so we ask again.
        """
        if time.monotonic() < self._next_asking:
            return
        setting = f"brokerPermission={self._started.permission}"
        command = request(RequestCode.UPDATE_BROKER_CONFIG, body=setting.encode())
        if self._ask(command).code == ResponseCode.SUCCESS:
            self._next_asking = time.monotonic() + _ASK_AGAIN
