"""Whether a topic is declared for messages that do not come in the order in which they were sent.

A broker stores whatever it is sent over remoting; only proxies heed a topic's type. So it is asked
for here, once for each topic that keyed messages are sent to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orderly.client.admin import Admin
from orderly.errors import ConfigError, OrderlyError
from orderly.model import BrokerData, TopicRoute
from orderly.protocol.message_types import MessageType

_WHY_NOT: Mapping[str, str] = {
    MessageType.DELAY: "others' messages appear in it when their time has come",
    MessageType.TRANSACTION: "others' messages appear in it when their transactions end",
    MessageType.PRIORITY: "its consumers get messages by priority",
    MessageType.LITE: "its messages live in lite topics, not in its own queues",
}


class TopicTypes:
    """The types of topics. Thread-safe.

    Args:
        admin: of the client.
        patience: seconds for an answer.
        log: hears of topics whose type nobody told.
    """

    def __init__(self, admin: Admin, patience: float, log: Any) -> None:
        self._admin = admin
        self._patience = patience
        self._log = log
        self._asked: set[str] = set()  # and not refused; a refused topic is asked for again

    def check(self, route: TopicRoute) -> None:
        """Refuse a topic whose type says that it has no order. Blocks, the first time.

        A broker that does not tell stops nobody: the type is a declaration, and producers may
        lack the permission to ask for it (ACL action Get).

        Raises:
            ConfigError: the text says what to do.
        """
        broker = next((broker for broker in route.brokers if broker.master), None)
        if route.topic in self._asked or broker is None:
            return
        kind = self._kind(route.topic, broker)
        if kind in _WHY_NOT:
            raise ConfigError(
                f"topic {route.topic} is declared for messages of type {kind}: {_WHY_NOT[kind]},"
                " so what wants order (a message with a sharding key, or under a selector that"
                " keeps order) is not sent to it. Send it to a topic of type FIFO, NORMAL or MIXED"
                " (`orderly topic create --type fifo`), or without a key"
            )
        self._asked.add(route.topic)

    def _kind(self, topic: str, broker: BrokerData) -> str:
        try:
            config = self._admin.topic_config(topic, broker, timeout=self._patience)
        except OrderlyError as error:
            self._log.info("topic.type_unknown", topic=topic, error=str(error))
            return MessageType.UNSPECIFIED
        return MessageType.NORMAL if config is None else config.message_type
