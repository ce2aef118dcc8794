"""A group's dead letters: read from every broker, and sent again to the topics they came from.

They are in `%DLQ%<group>`, one queue on each broker. This library, Java, or a broker for a gRPC
client wrote them. This module deletes nothing; only the broker does, by age.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby
from operator import attrgetter, itemgetter

from orderly.client import Client
from orderly.client.broker import PullQuery
from orderly.config import ProducerConfig, check_group, check_topic
from orderly.errors import ConfigError, NoPermission, OrderlyError, TopicNotFound
from orderly.foreign_text import shell_word
from orderly.message import Message
from orderly.model import MessageQueue, Permission, ReceivedMessage, SendResult, TopicRoute
from orderly.monitoring.collecting.selection import is_internal
from orderly.namespace import DEAD_PREFIX, wrap
from orderly.producer import OrderlyProducer
from orderly.protocol import properties as names
from orderly.protocol.compression import restored
from orderly.protocol.heartbeat import Subscription
from orderly.selectors.layout import layout_of

_PULL = 32  # messages; a broker gives no more at once
_DIGITS = 10  # of a message's flags
_ADVICE = "name the topic to send it to (--into), or leave it out"
_LONGEST = 127  # characters of a topic's name
_BY_BROKER = "DLQ_ORIGIN_TOPIC"  # where a broker that made the dead letter itself says it


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message of `%DLQ%<group>`.

    Attributes:
        message: as it is stored there; its queue and offset are the dead letter's own.
    """

    message: ReceivedMessage

    @property
    def topic(self) -> str | None:
        """The topic it was originally sent to; None: the dead letter does not say."""
        found = self.message.properties
        return found.get(names.RETRY_TOPIC) or found.get(_BY_BROKER)

    @property
    def message_id(self) -> str:
        """The sender's id of the message; without one, the id of the first stored copy."""
        found = self.message.properties
        origin = found.get(names.ORIGIN_MESSAGE_ID) or self.message.offset_message_id
        return found.get(names.UNIQ_KEY) or origin

    def again(self, topic: str) -> Message:
        """The message to send to `topic`: body, key, tag, index keys and the user's properties.

        Raises:
            UndecodableBody: its body cannot be read.
        """
        found = self.message
        hidden = names.RESERVED | {names.UNREAD}
        own = {k: v for k, v in found.properties.items() if k not in hidden}
        return Message(topic, found.body, found.sharding_key, found.tags, found.keys, own)


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result for one dead letter; either `result` or `error` is None."""

    letter: DeadLetter
    result: SendResult | None
    error: OrderlyError | None


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Where each dead letter goes when it is sent again.

    Attributes:
        due: the topic of each dead letter, as the broker names it. Sorted by topic; within a topic
            in the order given.
        refused: dead letters that are not sent, with the reason.
    """

    due: tuple[tuple[str, DeadLetter], ...]
    refused: tuple[Replayed, ...]


class DeadLetters:
    """The dead letters of one group. Thread-safe; every method blocks.

    Args:
        client: of the cluster.
        group: the consumer group, as the broker names it.
    """

    def __init__(self, client: Client, group: str) -> None:
        self.topic = DEAD_PREFIX + check_group(group)
        self._client = client
        self._group = group

    def list(self) -> tuple[DeadLetter, ...]:
        """All stored dead letters: each broker's in the order of its queue, merged by store time.

        Raises:
            NoPermission: the topic cannot be read on a broker; the text says what to do.
            OrderlyError: a broker does not answer; a part is never returned as if it were
                everything.
        """
        try:
            route = self._client.routes.refresh(self.topic)
        except TopicNotFound:  # made with the first dead letter
            return ()
        require_readable(route)
        stored = map(self._stored, route.read_queues())
        merged = heapq.merge(*stored, key=attrgetter("store_time"))
        return tuple(map(DeadLetter, merged))

    def _stored(self, queue: MessageQueue) -> Iterator[ReceivedMessage]:
        brokers = self._client.brokers
        at, end = brokers.min_offset(queue), brokers.max_offset(queue)
        everything = Subscription(queue.topic)
        while at < end:
            query = PullQuery(self._group, queue, at, _PULL, everything, suspend=0)
            reply = brokers.pull_now(query)
            yield from map(_as_first_stored, reply.messages)
            if reply.next_offset <= at:
                text = f"{queue} cannot be read beyond offset {at}; look at its broker"
                raise OrderlyError(text)
            at = reply.next_offset

    def plan(self, letters: Iterable[DeadLetter], to: str | None = None) -> ReplayPlan:
        """Find the topics to which dead letters would be sent; nothing is sent.

        A dead letter names the topic it came from, and any sender to the group's topics can make it
        name any topic. So without `to`, a topic counts only if the brokers say that the group
        consumes it: a member that is online subscribes to it, or an offset of the group is stored
        for it.

        Args:
            letters: of `list`.
            to: another topic, for all of them.

        Raises:
            ConfigError: `to` is a topic that is not for programs' messages.
        """
        if to is not None:
            to = wrap(self._client.config.namespace, to)
            _require_for_messages(to)
            return ReplayPlan(tuple((to, letter) for letter in letters), ())
        refusal = cache(self._refusal)
        due, refused = list[tuple[str, DeadLetter]](), list[Replayed]()
        for letter in letters:
            topic = wrap(self._client.config.namespace, letter.topic or "")
            if (error := refusal(topic)) is None:
                due.append((topic, letter))
            else:
                refused.append(Replayed(letter, None, error))
        due.sort(key=itemgetter(0))  # stable
        return ReplayPlan(tuple(due), tuple(refused))

    def _refusal(self, topic: str) -> OrderlyError | None:
        """Why nothing is sent to the topic that a dead letter names; None: its group consumes it.

        An unknown topic does not hold up the others: somebody may have made it up.
        """
        if not topic:
            return ConfigError(f"it does not say where it came from; {_ADVICE}")
        says = f"it says that it came from {topic[:_LONGEST]!r}"
        try:
            _require_for_messages(topic)
            if self._group in self._client.groups.consuming(topic):
                return None
        except OrderlyError as error:
            return ConfigError(f"{says}: {error}; {_ADVICE}")
        return ConfigError(
            f"{says}, and nothing shows that group {self._group} consumes that: no member that is"
            f" online subscribes to it, and no offset of the group is stored for it; {_ADVICE}"
        )

    def replay(self, plan: ReplayPlan) -> Iterator[Replayed]:
        """Send dead letters again, to the end of their topics. The sharding key chooses the queue.

        The iterator gives the refused ones first, then the others as they are sent, topic by topic.
        If you do not exhaust it, the rest may not be sent. The order of a key still has a gap: the
        messages sent after the dead letter were consumed long ago. Each dead letter becomes a new
        message with a new id, so sending one twice stores it twice. After a failed send, the later
        dead letters of its key are not sent; the others are.

        Args:
            plan: of `plan`.

        Raises:
            OrderlyError: nothing was sent to a topic or to those after it, for example because it
                does not exist.
        """
        sent = (
            self._send(topic, [letter for _, letter in found])
            for topic, found in groupby(plan.due, key=itemgetter(0))
        )
        return chain(plan.refused, chain.from_iterable(sent))

    def _send(self, topic: str, letters: Iterable[DeadLetter]) -> Iterator[Replayed]:
        layout = str(layout_of(self._client.routes.get(topic)))  # a change meanwhile is refused
        config = ProducerConfig(layout=layout)
        with OrderlyProducer(client=self._client, config=config) as producer:
            waiting = [(letter, _submit(producer, letter, topic)) for letter in letters]
            for letter, future in waiting:
                try:
                    yield Replayed(letter, future.result(), None)
                except OrderlyError as error:
                    yield Replayed(letter, None, error)


def _submit(producer: OrderlyProducer, letter: DeadLetter, topic: str) -> Future[SendResult]:
    """A message that is refused at once is one failure among the others."""
    try:
        return producer.submit(letter.again(topic))
    except OrderlyError as error:
        refused: Future[SendResult] = Future()
        refused.set_exception(error)
        return refused


def _as_first_stored(message: ReceivedMessage) -> ReceivedMessage:
    flags = message.properties.get(names.UNREAD, "")
    is_number = flags.isdecimal() and len(flags) <= _DIGITS  # anybody may send to the topic
    return restored(message, int(flags)) if is_number else message


def _require_for_messages(topic: str) -> None:
    if is_internal(check_topic(topic)):
        raise ConfigError(
            f"no message can be sent to {topic}: the topic belongs to RocketMQ, or to a group's"
            " retries, dead letters or state"
        )


def require_readable(route: TopicRoute) -> None:
    """See that the dead letters can be read.

    Raises:
        NoPermission: a broker lets nobody read them; the text says what to do.
    """
    for data in route.queues:
        if Permission.READ not in data.permission:
            raise NoPermission(
                f"topic {route.topic} is not readable on broker {data.broker_name}, as some"
                " releases create it: set its permission to 6 there (mqadmin updateTopicPerm -b"
                f" HOST:PORT -t {shell_word(route.topic)} -p 6)"
            )
