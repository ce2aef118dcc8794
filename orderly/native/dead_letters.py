"""Dead letters for the native driver: librocketmq has no call for them, so they go past it.

It tells of a delivered message neither the broker nor all properties. So the message is read again
where it can only be, recognised by its id, and sent as any consumer of ours does.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from orderly.client import Client
from orderly.client.pulling import PullQuery
from orderly.config import ClientConfig, check_group
from orderly.errors import DataLost
from orderly.model import MessageQueue, ReceivedMessage
from orderly.namespace import wrap
from orderly.protocol.dead_letter import dead_letter_request
from orderly.protocol.heartbeat import Subscription


class DeadLetters:
    """Thread-safe; connects with the first dead letter.

    Args:
        group: the consumer group.
        namesrv: "host:port;host:port"; wins over the config's.
        config: of the connections.

    Attributes:
        group: as at the broker.
        config: of the connections.

    Raises:
        ConfigError: a bad group; no name server.
    """

    def __init__(
        self, group: str, *, namesrv: str = "", config: ClientConfig | None = None
    ) -> None:
        self._client = Client(config, namesrv=namesrv)
        self.config = self._client.config
        self.group = wrap(self.config.namespace, check_group(group))
        self._opening = threading.Lock()

    def bury(self, message: ReceivedMessage) -> None:
        """Store a message in the group's dead letters. Blocks.

        Args:
            message: as librocketmq delivered it.

        Raises:
            DataLost: no broker has it any more.
            OrderlyError: it is not stored, or nobody knows.
        """
        with self._opening:
            self._client.start()
        found = self._original(message)
        found = replace(found, reconsume_times=message.reconsume_times)
        command = dead_letter_request(self.group, found, found.queue.broker_name, time.time())
        self._client.brokers.send_now(found.queue, command)

    def close(self) -> None:
        """Close its connections. Idempotent."""
        self._client.close()

    def _original(self, message: ReceivedMessage) -> ReceivedMessage:
        queue_id = message.queue.queue_id
        for queue in self._client.routes.get(message.queue.topic).read_queues():
            if queue.queue_id == queue_id and (found := self._at(queue, message)) is not None:
                return found
        raise DataLost(
            f"message {message.message_id} is at offset {message.queue_offset} of no queue"
            f" {queue_id} of {message.queue.topic}: the broker deleted it, or its master is down"
        )

    def _at(self, queue: MessageQueue, message: ReceivedMessage) -> ReceivedMessage | None:
        offset, everything = message.queue_offset, Subscription(queue.topic)
        query = PullQuery(self.group, queue, offset, 1, everything, suspend=0)
        for found in self._client.brokers.pull_now(query).messages[:1]:
            ids = found.message_id, found.offset_message_id
            if found.queue_offset == offset and message.message_id in ids:
                return found
        return None
