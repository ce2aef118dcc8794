"""For how long a broker keeps messages: it deletes whole files by their age."""

from __future__ import annotations

from orderly.client.client import Client
from orderly.errors import OrderlyError, RouteError
from orderly.model import MessageQueue
from orderly.protocol.broker_settings import retention_of


def retention(client: Client, queue: MessageQueue) -> float:
    """Return the seconds for which the broker of `queue` keeps messages, if its disk is not full.

    Raises:
        OrderlyError: it does not answer, or does not say.
    """
    name = queue.broker_name
    broker = client.routes.get(queue.topic).broker(name)
    if broker is None:
        raise RouteError(f"broker {name} is not in the route of {queue.topic}")
    seconds = retention_of(client.admin.broker_settings(broker))
    if seconds is None:
        raise OrderlyError(f"broker {name} does not tell how long it keeps messages")
    return seconds
