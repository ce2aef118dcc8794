"""Requests to brokers about queues: locks, offsets, members, pulls, sends.

One method, one request. When to ask, and what to do with a "no", is the consumer's and the
producer's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache, partial
from typing import TypeVar

from orderly.client.calls import ONLY_SUCCESS, Calls, failure
from orderly.client.connection import Attend
from orderly.client.lost_connections import LostConnections
from orderly.client.routes import Routes, address_in
from orderly.errors import (
    BrokerError,
    BrokerUnavailable,
    OrderlyError,
    RemotingError,
    ReplyTooLarge,
    RouteError,
    TopicNotFound,
)
from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.ext import from_ext, of_queue, to_ext
from orderly.protocol.frame import FixedHeader, RemotingCommand, request
from orderly.protocol.groups import TopicsOfGroup
from orderly.protocol.heartbeat import GetConsumerList, Subscription, decode_consumer_ids
from orderly.protocol.locks import decode_locked, lock_request
from orderly.protocol.offsets import (
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from orderly.protocol.pull import PullFlag, PullMessage, PullReply, QueryMessage
from orderly.protocol.send import SendReply
from orderly.protocol.statistics import GetTopicStats, TopicOffset, decode_topic_stats
from orderly.protocol.stored_message import decode_each, decode_pull
from orderly.protocol.topics import decode_topic_list

MAX_SUSPEND = 15.0  # seconds (Java: brokerSuspendMaxTimeMillis)
_READERS_ROOM = 64 * 1024 * 1024  # bytes, for callers without a cache


@dataclass(frozen=True, slots=True)
class PullQuery:
    """Messages of a queue from an offset on.

    The subscription travels with each pull, so that another member's heartbeat cannot change
    what this one gets. A pull never carries an offset commit.

    Args:
        group: consumer group.
        queue: which queue.
        offset: the first wanted.
        max_messages: the broker itself stops at 32 messages or 256 KiB.
        subscription: the broker filters by hashes of its tags; compare the tags again.
        suspend: seconds the broker may hold the request until a message comes; 0: answer now.
        broker_id: the replica to ask, as the previous reply suggested; 0 is the master.
        room: bytes of memory there are for what is unpacked of the reply, asked when it is read;
            64 MiB for callers without a cache. Messages that do not fit are left for the next pull.
    """

    group: str
    queue: MessageQueue
    offset: int
    max_messages: int
    subscription: Subscription
    suspend: float = MAX_SUSPEND
    broker_id: int = 0
    room: Callable[[], float] = field(default=lambda: _READERS_ROOM, repr=False, compare=False)

    def for_fewer(self) -> PullQuery:
        """The same for half of the messages, after a reply that was too large."""
        return replace(self, max_messages=max(1, self.max_messages // 2))

    def too_large(self, error: ReplyTooLarge) -> ReplyTooLarge:
        """Say which message it is that alone is too large; a filter may have passed over some."""
        text = f"the message of {self.queue} at offset {self.offset}, or the next one: {error}"
        return ReplyTooLarge(text, error.address, size=error.size)


class PullStatus(Enum):
    """What became of a pull (PullStatus in Java)."""

    FOUND = "found"
    NO_NEW = "no new message"
    NO_MATCH = "no message matched"
    OFFSET_ILLEGAL = "offset illegal"


_STATUS: dict[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCH,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}
PULL_ANSWERS = frozenset(_STATUS)


@dataclass(frozen=True, slots=True)
class PullResult:
    """A pull's reply.

    Attributes:
        status: FOUND, NO_NEW (the queue ends before `offset`), NO_MATCH (pull on at once), or
            OFFSET_ILLEGAL (below the oldest or beyond the newest message).
        messages: in the order of their offsets; may have gaps where messages were filtered.
        next_offset: where to pull next; with OFFSET_ILLEGAL the one the broker takes for right.
        min_offset, max_offset: where the queue began and ended when the broker replied.
        suggested_broker_id: the replica the broker would rather have asked next.
        address: who replied; "" if nobody noted it.
        marked: some of the messages can be second attempts of a send (`ordering.repeats`).
    """

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    address: str = ""
    marked: bool = False


_QUEUE_OFFSET = "queueOffset"


def pull_command(query: PullQuery) -> RemotingCommand:
    """Write the request for `query`."""
    fixed = _header(query.group, query.queue, query.max_messages, query.subscription, query.suspend)
    return fixed.request({_QUEUE_OFFSET: str(query.offset)})


@lru_cache(maxsize=4096)
def _header(
    group: str, queue: MessageQueue, max_messages: int, subscription: Subscription, suspend: float
) -> FixedHeader:
    """All of a pull's header but its offset: the same from pull to pull."""
    flags = PullFlag.SUBSCRIPTION
    if suspend > 0:
        flags |= PullFlag.SUSPEND
    header = PullMessage(
        consumer_group=group,
        **of_queue(queue),
        queue_offset=0,
        max_msg_nums=max_messages,
        sys_flag=int(flags),
        suspend_timeout_millis=round(suspend * 1000),
        subscription=subscription.expression,
        sub_version=subscription.version,
        expression_type=subscription.expression_type,
    )
    return FixedHeader(PullMessage.code, to_ext(header), (_QUEUE_OFFSET,))


def read_pull_reply(query: PullQuery, reply: RemotingCommand, address: str = "") -> PullResult:
    """Read the reply to `query`, sent by the broker at `address`.

    Raises:
        BrokerError: it says no.
        ProtocolError: header or messages break the format; the offset must not move on.
    """
    status = _STATUS.get(reply.code)
    if status is None:
        raise failure(reply, address, f"messages of {query.queue} for group {query.group!r}")
    header = from_ext(PullReply, reply.ext)
    messages: list[ReceivedMessage] = []
    left_at: int | None = None
    marked = False
    if status is PullStatus.FOUND:
        messages, left_at, marked = decode_pull(
            reply.body, query.queue.broker_name, end=header.next_begin_offset, room=query.room()
        )
        if messages and messages[0].queue_offset < query.offset:  # the offset lies within a batch
            messages = [m for m in messages if m.queue_offset >= query.offset]
    return PullResult(
        status,
        messages,
        header.next_begin_offset if left_at is None else left_at,
        header.min_offset,
        header.max_offset,
        header.suggest_which_broker_id,
        address,
        marked,
    )


# --- a send: what the reply means; the request is the producer's to make --------------------------


SEND_STATUS: dict[int, str] = {
    ResponseCode.SUCCESS: "SEND_OK",
    ResponseCode.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    ResponseCode.SLAVE_NOT_AVAILABLE: "SLAVE_NOT_AVAILABLE",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "FLUSH_SLAVE_TIMEOUT",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a message, or a batch, was stored.

    Attributes:
        status: "SEND_OK"; or the name of the code of a message that is stored all the same, with
            weaker durability.
        queue_offset: of the first message; a batch's others follow without a gap.
        offset_message_ids: one for each message of the batch, in order.
    """

    status: str
    queue_id: int
    queue_offset: int
    offset_message_ids: tuple[str, ...]


def read_send_reply(queue: MessageQueue, reply: RemotingCommand, address: str) -> Stored:
    """Read the reply to a send (310 or 320) by the broker at `address`.

    Raises:
        BrokerError: nothing was stored.
        ProtocolError: a header that breaks the format; the message is stored, nobody knows where.
    """
    status = SEND_STATUS.get(reply.code)
    if status is None:
        raise failure(reply, address, f"a send to {queue}")
    header = from_ext(SendReply, reply.ext)
    return Stored(status, header.queue_id, header.queue_offset, tuple(header.msg_id.split(",")))


# --- requests -------------------------------------------------------------------------------------


R = TypeVar("R")

OffsetQuestion = GetMaxOffset | GetMinOffset | SearchOffset

LOCK_TIMEOUT = 1.0  # seconds, as in Java
_PULL_PATIENCE = 15.0  # seconds beyond `suspend`: the broker looks for expired pulls every 5 s
USUAL_PULL = MAX_SUSPEND + _PULL_PATIENCE  # seconds within which one is answered, or has failed
_FOUND_OR_NONE = frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND})
_SOME_OR_NONE = frozenset({ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR})


class BrokerCalls:
    """Requests about queues, sent to the brokers that have them. Thread-safe.

    Blocking methods raise a RemotingError when there is no answer, a BrokerError when the answer
    says no and a RouteError when the broker cannot be addressed. A failure that makes the route
    suspect has it fetched again in the background.
    """

    def __init__(self, calls: Calls, routes: Routes, client_id: str, lost: LostConnections) -> None:
        self._calls = calls
        self._routes = routes
        self._client_id = client_id
        self._lost = lost
        self._silent: set[str] = set()  # brokers that did not answer who the members are

    # --- locks ---------------------------------------------------------------------------------

    def lock_queues(
        self,
        group: str,
        broker_name: str,
        queues: Iterable[MessageQueue],
        timeout: float = LOCK_TIMEOUT,
    ) -> frozenset[MessageQueue]:
        """Lock queues of one broker for this client, or renew their locks.

        The broker checks neither the topic nor the broker's name, so only real queues may be
        asked for. A lock lasts 60 s from the broker's receipt (RebalanceLockManager).

        Returns:
            Those of `queues` that this client holds now; the others are someone else's.
        """
        wanted = frozenset(queues)
        if not wanted:
            return wanted
        command = self._lock_command(RequestCode.LOCK_BATCH_MQ, group, wanted)
        what = f"the lock of {len(wanted)} queues of group {group!r}"
        reply = self._ask_of_locks(broker_name, wanted, command, what, timeout)
        return decode_locked(reply.body) & wanted

    def unlock_queues(
        self,
        group: str,
        broker_name: str,
        queues: Iterable[MessageQueue],
        timeout: float = LOCK_TIMEOUT,
    ) -> None:
        """Give back the locks of queues of one broker; queues that are not held are ignored."""
        wanted = frozenset(queues)
        if not wanted:
            return
        command = self._lock_command(RequestCode.UNLOCK_BATCH_MQ, group, wanted)
        what = f"the unlock of {len(wanted)} queues of group {group!r}"
        self._ask_of_locks(broker_name, wanted, command, what, timeout)

    def _ask_of_locks(
        self,
        broker_name: str,
        queues: frozenset[MessageQueue],
        command: RemotingCommand,
        what: str,
        timeout: float,
    ) -> RemotingCommand:
        """Ask a broker; it keeps the locks of a topic that was deleted, too, and of all others."""
        queue = MessageQueue(min(queues).topic, broker_name, 0)
        try:
            return self._ask(queue, command, what, timeout=timeout)
        except TopicNotFound:
            address = self._routes.master_of(broker_name)
            if address is None:
                raise
        return self._ask_at(address, command, what, timeout=timeout)

    def _lock_command(
        self, code: RequestCode, group: str, queues: frozenset[MessageQueue]
    ) -> RemotingCommand:
        return request(code, body=lock_request(group, self._client_id, sorted(queues)))

    # --- offsets -------------------------------------------------------------------------------

    def query_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The group's committed offset; None only if the broker says that it has none."""
        header = QueryConsumerOffset(
            consumer_group=group,
            **of_queue(queue),
            set_zero_if_not_found=False,
        )
        reply = self._ask(
            queue,
            request(header.code, to_ext(header)),
            f"the offset of group {group!r} in {queue}",
            accept=_FOUND_OR_NONE,
        )
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return from_ext(OffsetReply, reply.ext).offset

    def has_offsets(self, group: str, queues: Sequence[MessageQueue]) -> bool:
        """Whether the group has a committed offset at one broker, in any queue of a topic.

        Two requests; one for each queue where a server does not tell a group's topics: a proxy, or
        a broker that does not permit it.

        Args:
            group: which group.
            queues: all that the topic has at the broker.
        """
        first = queues[0]
        # A broker before 5.0 may say 0 where there is none.
        if self.query_offset(group, first):
            return True
        header = TopicsOfGroup(group=group)
        what = f"the topics in which group {group!r} has offsets"
        try:
            reply = self._ask(first, request(header.code, to_ext(header)), what)
        except BrokerError as error:
            if error.retriable:
                raise
            return any(self.query_offset(group, queue) is not None for queue in queues)
        return first.topic in decode_topic_list(reply.body)

    def update_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit the group's offset and wait for the acknowledgement.

        The broker takes any value from anybody: have one commit of a queue in flight, and only
        while its lock is held.
        """
        header = UpdateConsumerOffset(
            consumer_group=group,
            **of_queue(queue),
            commit_offset=offset,
        )
        what = f"the commit of offset {offset} of group {group!r} in {queue}"
        self._ask(queue, request(header.code, to_ext(header)), what)

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset the queue's next message will get; 0 also for a queue that does not exist."""
        return self._offset(queue, GetMaxOffset(**of_queue(queue)), "the maximum offset")

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message still there; 0 also for a queue that does not exist."""
        return self._offset(queue, GetMinOffset(**of_queue(queue)), "the minimum offset")

    def topic_stats(self, queue: MessageQueue) -> dict[MessageQueue, TopicOffset]:
        """Oldest and next offset of the queues of a topic at the broker of `queue`.

        While its master is away a slave's, which may lag behind. Empty where a server does not tell
        them: a proxy, or a broker that does not permit it.
        """
        header = GetTopicStats(topic=queue.topic)
        what = f"the offsets of topic {queue.topic!r}"
        try:
            reply = self._ask(queue, request(header.code, to_ext(header)), what, replica=0)
        except BrokerError as error:
            if error.retriable or isinstance(error, TopicNotFound):
                raise
            return {}
        return decode_topic_stats(reply.body)

    def search_offset(self, queue: MessageQueue, moment: float) -> int:
        """The offset of the first message stored at or after `moment`; past the end: the maximum.

        Args:
            queue: which queue.
            moment: seconds since the epoch. The broker counts in milliseconds; the rest is cut
                off, since a later one would skip messages.
        """
        header = SearchOffset(**of_queue(queue), timestamp=int(moment * 1000))
        return self._offset(queue, header, "the offset at a time")

    def _offset(self, queue: MessageQueue, header: OffsetQuestion, what: str) -> int:
        command = request(header.code, to_ext(header))
        reply = self._ask(queue, command, f"{what} of {queue}")
        return from_ext(OffsetReply, reply.ext).offset

    # --- members -------------------------------------------------------------------------------

    def consumer_ids(self, group: str, topic: str) -> tuple[str, ...]:
        """The client ids of the group's members, sorted, as a broker of the topic sees them.

        The topic's brokers are asked one after another until one knows members; last of all one
        that did not answer before. Empty: none of those that answered does; no reason to believe
        to be alone.

        Raises:
            OrderlyError: no broker answered.
        """
        failure: OrderlyError | None = None
        answered = False
        brokers = self._routes.get(topic).brokers
        for broker in sorted(brokers, key=lambda broker: broker.broker_name in self._silent):
            try:
                ids = self._ids_at(topic, broker.broker_name, group)
            except OrderlyError as error:
                failure = error
                if isinstance(error, RemotingError):
                    self._silent.add(broker.broker_name)
                continue
            self._silent.discard(broker.broker_name)
            if ids:
                return tuple(sorted(ids))
            answered = True
        if answered:
            return ()
        raise failure or RouteError(
            f"topic {topic!r} has no broker at the moment; wait until one is back"
        )

    def _ids_at(self, topic: str, broker_name: str, group: str) -> tuple[str, ...]:
        header = GetConsumerList(consumer_group=group)
        reply = self._ask(
            MessageQueue(topic, broker_name, 0),
            request(header.code, to_ext(header)),
            f"the members of group {group!r}",
            accept=_SOME_OR_NONE,  # "no consumer for this group" has no code of its own
            replica=0,
        )
        return decode_consumer_ids(reply.body) if reply.code == ResponseCode.SUCCESS else ()

    # --- messages ------------------------------------------------------------------------------

    def pull(
        self,
        query: PullQuery,
        on_result: Callable[[PullResult | OrderlyError], None],
        *,
        may_connect: bool = True,
    ) -> bool:
        """Ask for messages and return; the broker may hold the request for `query.suspend` s.

        Args:
            query: what is asked.
            on_result: gets the result or an error, exactly once if True is returned, on a reader
                thread (where messages are decoded, too); must not block.
            may_connect: False on threads that must not block.

        Returns:
            False if it would have had to connect or to ask a name server, and must not.

        Raises:
            OrderlyError: nothing was sent; `on_result` is not called.
        """
        sent = self._submit(
            query.queue,
            pull_command(query),
            partial(read_pull_reply, query),
            on_result,
            timeout=query.suspend + _PULL_PATIENCE,
            may_connect=may_connect,
            replica=query.broker_id,
        )
        return sent is not None

    def pull_now(self, query: PullQuery, *, master: bool = False) -> PullResult:
        """Ask for messages and wait for the reply, `query.suspend` seconds and some at most.

        Where the reply would be too large it is asked for fewer.

        Args:
            query: what is asked.
            master: ask nobody else: a slave may lag.
        """
        try:
            reply = self._ask(
                query.queue,
                pull_command(query),
                f"messages of {query.queue} for group {query.group!r}",
                timeout=query.suspend + _PULL_PATIENCE,
                accept=PULL_ANSWERS,
                replica=None if master else query.broker_id,
            )
        except ReplyTooLarge as error:
            if query.max_messages > 1:
                return self.pull_now(query.for_fewer(), master=master)
            raise query.too_large(error) from error
        return read_pull_reply(query, reply)

    def with_id(
        self, query: PullQuery, message_id: str, *, since: float, until: float
    ) -> Iterator[ReceivedMessage]:
        """The messages of a queue that have this id, as its broker's index knows them.

        A message can be there and not in the index: see `QueryMessage`. Their bodies are unpacked
        one at a time.

        Args:
            query: of a pull; its queue, and its replica, are asked.
            message_id: the sender's (UNIQ_KEY).
            since: when they were stored at the earliest (seconds since the epoch).
            until: and at the latest.
        """
        queue = query.queue
        header = QueryMessage(
            topic=queue.topic,
            key=message_id,
            begin_timestamp=max(0, int(since * 1000)),
            end_timestamp=int(until * 1000),
        )
        reply = self._ask(
            queue,
            request(header.code, to_ext(header)),
            f"the messages of {queue} with id {message_id!r}",
            accept=_FOUND_OR_NONE,
            replica=query.broker_id,
        )
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return
        for message in decode_each(reply.body, queue.broker_name):
            if message.queue == queue and message.message_id == message_id:
                yield message

    def send(
        self,
        queue: MessageQueue,
        command: RemotingCommand,
        timeout: float,
        on_result: Callable[[Stored | OrderlyError], None],
        *,
        may_connect: bool = True,
        attended: bool = False,
    ) -> Attend | None:
        """Send messages to a queue's master and return.

        The broker reorders sends of one connection that overlap: have one in flight per queue.
        After the loss of a connection the first waits for what was written to it to be read.

        Args:
            queue: where to.
            command: SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE.
            timeout: seconds for the reply.
            on_result: gets where it was stored, or an error, exactly once if the request went
                out, on a reader thread (a time-out: on a timer thread); must not block.
            may_connect: False on threads that must not block.
            attended: the caller waits, and calls what is returned; see `Connection.submit`.

        Returns:
            What reads the reply on the calling thread. None if it would have had to connect, to
            wait, or to ask a name server, and must not.

        Raises:
            OrderlyError: nothing was sent and nothing is stored; `on_result` is not called.
        """
        return self._submit(
            queue,
            command,
            partial(read_send_reply, queue),
            on_result,
            timeout=timeout,
            may_connect=may_connect,
            attended=attended,
            in_order=True,
        )

    def send_now(self, queue: MessageQueue, command: RemotingCommand) -> Stored:
        """Send one message to a queue's master and wait until it is stored.

        The header's topic may be another one than the queue's: a dead letter is written where
        the message came from.
        """
        reply = self._ask(
            queue, command, f"a send to the broker of {queue}", accept=frozenset(SEND_STATUS)
        )
        return read_send_reply(queue, reply, "")

    # --- which broker is asked --------------------------------------------------------------------

    def _ask(
        self,
        queue: MessageQueue,
        command: RemotingCommand,
        what: str,
        *,
        timeout: float | None = None,
        accept: Collection[int] = ONLY_SUCCESS,
        replica: int | None = None,
    ) -> RemotingCommand:
        """Ask the broker of `queue`; arguments and errors as `Calls.ask`, or a RouteError.

        `replica`: as for `address_in`.
        """
        try:
            if replica is None:
                address = self._routes.master(queue)
            else:
                route = self._routes.get(queue.topic)
                address = address_in(route, queue.broker_name, replica=replica)
            return self._ask_at(address, command, what, timeout=timeout, accept=accept)
        except OrderlyError as error:
            self._note(queue.topic, error)
            raise

    def _ask_at(
        self,
        address: str,
        command: RemotingCommand,
        what: str,
        *,
        timeout: float | None,
        accept: Collection[int] = ONLY_SUCCESS,
    ) -> RemotingCommand:
        try:
            return self._calls.ask(address, command, what, timeout=timeout, accept=accept)
        except TopicNotFound as error:
            _check_meant(error)
            raise

    def _submit(
        self,
        queue: MessageQueue,
        command: RemotingCommand,
        read: Callable[[RemotingCommand, str], R],
        on_result: Callable[[R | OrderlyError], None],
        *,
        timeout: float,
        may_connect: bool,
        attended: bool = False,
        in_order: bool = False,
        replica: int | None = None,
    ) -> Attend | None:
        """Send to the broker of `queue` and return; arguments and errors as `Calls.submit`.

        If it may not connect, it does not fetch a route either, and returns None without one.
        `in_order`: behind all that was written to connections that were lost.
        """
        topic = queue.topic

        def heard(result: R | OrderlyError) -> None:
            if isinstance(result, OrderlyError):
                self._note(topic, result)
            on_result(result)

        def understood(reply: RemotingCommand, address: str) -> R:
            try:
                return read(reply, address)
            except TopicNotFound as error:
                _check_meant(error)
                raise

        try:
            route = self._routes.get(topic) if may_connect else self._routes.cached(topic)
            if route is None:
                return None
            address = address_in(route, queue.broker_name, replica=replica)
            if in_order and not self._lost.are_read(address, timeout if may_connect else None):
                return None
            return self._calls.submit(
                address,
                command,
                understood,
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


_NO_ROUTE = "No topic route info in name server"


def _check_meant(error: TopicNotFound) -> None:
    """Raise what a proxy means that says of a broker what sounds as if it were about the topic.

    It finds a broker by a topic of the broker's name. Where its name server has none, since the
    broker is away, it says so of that topic; of ours only the broker itself can say it, in other
    words. Taken for a topic that is gone, it would let an offset be saved without its record.
    """
    if _NO_ROUTE in error.remark:
        raise BrokerUnavailable(
            f"a proxy finds no such broker; try again when it is back ({error})",
            code=error.code,
            remark=error.remark,
            address=error.address,
        ) from error
