"""For how long a broker keeps messages: it deletes whole files by their age."""

from __future__ import annotations

from orderly.client.client import Client
from orderly.errors import OrderlyError, RouteError
from orderly.model import MessageQueue

_SETTING = "fileReservedTime"  # hours (Java: MessageStoreConfig)
_HOUR = 3600.0


def retention(client: Client, queue: MessageQueue) -> float:
    """Return the seconds for which the broker of `queue` keeps messages, if its disk is not full.

    Raises:
        OrderlyError: it does not answer, or does not say.
    """
    name = queue.broker_name
    broker = client.routes.get(queue.topic).broker(name)
    if broker is None:
        raise RouteError(f"broker {name} is not in the route of {queue.topic}")
    hours = client.admin.broker_settings(broker).get(_SETTING, "")
    if not hours.isdecimal():
        raise OrderlyError(f"broker {name} does not tell how long it keeps messages")
    return int(hours) * _HOUR
