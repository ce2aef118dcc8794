"""What groups have committed on a topic: one request to each of its brokers; reads only."""

from __future__ import annotations

import time
from collections.abc import Collection

from orderly.client import Client
from orderly.client.pipeline import Pipeline
from orderly.errors import OrderlyError, RouteError
from orderly.model import MessageQueue
from orderly.monitoring.collecting.questions import all_committed

_PATIENCE = 10.0  # seconds for all brokers


def committed_on(
    client: Client,
    topic: str,
    brokers: Collection[str] = (),
) -> dict[str, dict[MessageQueue, int]]:
    """Committed offsets by group and queue; what was never committed is absent.

    Args:
        client: asks.
        topic: as the broker names it.
        brokers: names of some that must be asked, though the topic's route has them no more.

    Raises:
        OrderlyError: one of the brokers does not answer: what it knows is not known.
    """
    masters: dict[str, str | None] = dict.fromkeys(brokers)
    masters |= {broker.broker_name: broker.master for broker in client.routes.get(topic).brokers}
    for name, master in masters.items():
        if master is None:
            raise RouteError(f"broker {name!r} has no master now, so what groups consumed there is"
                             " not known; wait until it is back")  # fmt: skip
    questions = {master: [all_committed(None)] for master in masters.values() if master}
    answers = Pipeline(client.connections).ask_each(questions, time.monotonic() + _PATIENCE)
    found: dict[str, dict[MessageQueue, int]] = {}
    for name, master in masters.items():
        (answer,) = answers[master or ""]
        if isinstance(answer, OrderlyError):
            raise answer
        for (group, of_topic), offsets in answer.items():
            if of_topic == topic:
                queues = {MessageQueue(topic, name, at): it for at, it in offsets.items()}
                found.setdefault(group, {}).update(queues)
    return found
