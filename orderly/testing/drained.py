"""Runs a consumer until it has handled all that is stored: one call in a test."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from orderly.config.arguments import check_kind, check_seconds
from orderly.errors import ConfigError, OrderlyError
from orderly.namespace import is_retry_topic

if TYPE_CHECKING:
    from orderly.consumer import OrderlyConsumer
    from orderly.model import MessageQueue

_LOOK = 0.05  # seconds between two looks


class NotDrained(OrderlyError, TimeoutError):
    """Messages are left; the text says in which queues, and what each of them waits for."""


def run_until_drained(consumer: OrderlyConsumer, timeout: float = 30.0) -> None:
    """Run a consumer until its topics are empty: all messages are handled, parked, or dead letters.

    A consumer that is not started yet is started here and closed at the end; a running one goes on.
    Works on any broker. Messages that handlers send to these topics meanwhile count, too. For
    queues of other members of the group it waits until their offsets are committed
    (`commit_interval`).

        run_until_drained(OrderlyConsumer("shipping", ship).subscribe("orders"))

    In an asyncio test: `await asyncio.to_thread(run_until_drained, consumer)`.

    Args:
        consumer: subscribed. Use `consume_from="first"`: with "last" a new group would pass over
            the messages sent before, which is refused.
        timeout: seconds.

    Raises:
        NotDrained: messages are left after `timeout`.
        OrderlyError: as `start`, or a broker refused a request.
        ConfigError: not a consumer, or not a number of seconds above 0. Or the consumer is not
            started yet, and would begin behind all that is stored: it is closed then, and the group
            has no offset.
    """
    from orderly.consumer import OrderlyConsumer  # noqa: PLC0415  pytest loads this package

    check_kind("consumer", consumer, OrderlyConsumer)
    end = time.monotonic() + check_seconds("timeout", timeout)
    if consumer.state != "created":
        _wait(consumer, end, timeout)
        return
    try:
        _refuse_to_pass_over(consumer)
    except OrderlyError:
        consumer.close()
        raise
    with consumer:
        _wait(consumer, end, timeout)


def _refuse_to_pass_over(consumer: OrderlyConsumer) -> None:
    """Raise ConfigError if all that is stored in a topic would be left out, and "drained" be true.

    So begins a group that has no offset in the topic yet, with consume_from="last".
    """
    session, brokers = consumer._session, consumer._client.brokers  # noqa: SLF001 - one of ours
    if session.consume_from != "last":
        return
    for topic, queues in _queues(consumer).items():
        stored = sum(brokers.max_offset(queue) - brokers.min_offset(queue) for queue in queues)
        if stored and all(_committed(consumer, queue) is None for queue in queues):
            raise ConfigError(
                f"group {session.group} is new in topic {topic}, and with consume_from='last' it"
                f" would pass over the {stored} messages that are stored there: pass"
                " ConsumerConfig(consume_from='first')"
            )


def _queues(consumer: OrderlyConsumer) -> dict[str, tuple[MessageQueue, ...]]:
    """By subscribed topic, those that can be read."""
    topics = [t for t in consumer._session.subscriptions if not is_retry_topic(t)]  # noqa: SLF001
    routes = consumer._client.routes  # noqa: SLF001
    return {topic: routes.get(topic).read_queues() for topic in topics}


def _committed(consumer: OrderlyConsumer, queue: MessageQueue) -> int | None:
    """The offset that a start would find."""
    offsets = consumer._lifecycle.offsets  # noqa: SLF001 - one of ours
    if offsets is None:
        return consumer._client.brokers.query_offset(consumer._session.group, queue)  # noqa: SLF001
    with closing(offsets):
        offsets.open()
        return offsets.get(queue)


def _wait(consumer: OrderlyConsumer, end: float, timeout: float) -> None:
    while left := _left(consumer):
        if time.monotonic() >= end:
            waits = [str(why) for why in consumer.explain() if why.queue in left]
            text = "; ".join(waits) or ", ".join(map(str, left))
            raise NotDrained(f"messages are left after {timeout:g} s: {text}")
        time.sleep(_LOOK)


def _left(consumer: OrderlyConsumer) -> list[MessageQueue]:
    """The queues in which something is not handled yet.

    Ends are read before what was reached, and again after it: meanwhile a handler may have finished
    the last message of one queue, and sent another to a queue whose end was read already.
    """
    session, client = consumer._session, consumer._client  # noqa: SLF001 - one of ours
    queues = [queue for of_topic in _queues(consumer).values() for queue in of_topic]
    ends = {queue: client.brokers.max_offset(queue) for queue in queues}
    here = {queue.queue: queue.offset for queue in consumer.health().queues}
    found = []
    for queue, stored in ends.items():
        reached = here.get(queue)
        if reached is None and stored:
            reached = client.brokers.query_offset(session.group, queue)
        if (reached or 0) < stored:
            found.append(queue)
    return found or [q for q, end in ends.items() if client.brokers.max_offset(q) != end]
