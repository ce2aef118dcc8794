"""What a consumer is to be looked at for, and the start that the doctor goes through for it."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.config import ConsumerConfig
from orderly.protocol.heartbeat import BY_SQL, Subscription


@dataclass(frozen=True, slots=True)
class Wanted:
    """A consumer, as far as its start hangs on the cluster; names are the brokers'.

    Attributes:
        group: None: only the topics are looked at.
        topics: () means those that the group has.
        order: "queue" or "key"; "": as the members that are there.
        broadcasting: None: as the members that are there.
        tags, sql: the filter; "": as the members that are there, else everything.
    """

    group: str | None = None
    topics: tuple[str, ...] = ()
    order: str = ""
    broadcasting: bool | None = None
    tags: str = ""
    sql: str = ""

    def config(self, order: str, *, broadcasting: bool) -> ConsumerConfig:
        """The settings of such a consumer.

        Args:
            order: of the members that are there.
            broadcasting: whether those broadcast.
        """
        model = broadcasting if self.broadcasting is None else self.broadcasting
        if model:
            return ConsumerConfig(model="broadcasting", instance="doctor")
        return ConsumerConfig(order=self.order or order)

    def subscription(self, topic: str, theirs: Subscription | None) -> Subscription:
        """What such a consumer subscribes to.

        Args:
            topic: as brokers name it.
            theirs: what the members that are there subscribe to in it.
        """
        if self.sql:
            return Subscription(topic, self.sql, expression_type=BY_SQL)
        if self.tags or theirs is None:
            return Subscription.from_expression(topic, self.tags or "*", 0)
        return theirs
