"""Questions and orders to brokers about queues: locks, offsets, members, pulls, sends.

One method, one request. When to ask, and what to do with a "no", is the consumer's and the
producer's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from orderly.client.calls import Calls
from orderly.client.pulling import (
    PULL_ANSWERS,
    PullQuery,
    PullResult,
    pull_command,
    read_pull_reply,
)
from orderly.client.queue_requests import QueueRequests
from orderly.client.routes import Routes
from orderly.client.sending import SEND_STATUS, Stored, read_send_reply
from orderly.errors import OrderlyError, RemotingError, ReplyTooLarge, RouteError
from orderly.model import MessageQueue
from orderly.protocol.bodies import decode_consumer_ids, decode_locked, lock_request
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.headers import (
    GetConsumerList,
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
    from_ext,
    to_ext,
)
from orderly.remoting.connection import Attend

OffsetQuestion = GetMaxOffset | GetMinOffset | SearchOffset

LOCK_TIMEOUT = 1.0  # seconds, as in Java
_PULL_PATIENCE = 15.0  # seconds beyond `suspend`: the broker looks for expired pulls every 5 s
_FOUND_OR_NONE = frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND})
_SOME_OR_NONE = frozenset({ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR})


class BrokerCalls:
    """Requests about queues, sent to the brokers that have them. Thread-safe.

    Blocking methods raise a RemotingError when there is no answer, a BrokerError when the answer
    says no and a RouteError when the broker cannot be addressed. A failure that makes the route
    suspect has it fetched again in the background.
    """

    def __init__(self, calls: Calls, routes: Routes, client_id: str) -> None:
        self._requests = QueueRequests(calls, routes)
        self._routes = routes
        self._client_id = client_id
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
        reply = self._requests.ask(_on(broker_name, wanted), command, what, timeout=timeout)
        return decode_locked(reply.body) & wanted

    def unlock_queues(
        self,
        group: str,
        broker_name: str,
        queues: Iterable[MessageQueue],
        timeout: float = LOCK_TIMEOUT,
    ) -> None:
        """Give back the locks of queues of one broker; those not held are passed over."""
        wanted = frozenset(queues)
        if not wanted:
            return
        command = self._lock_command(RequestCode.UNLOCK_BATCH_MQ, group, wanted)
        what = f"the unlock of {len(wanted)} queues of group {group!r}"
        self._requests.ask(_on(broker_name, wanted), command, what, timeout=timeout)

    def _lock_command(
        self, code: RequestCode, group: str, queues: frozenset[MessageQueue]
    ) -> RemotingCommand:
        return request(code, body=lock_request(group, self._client_id, sorted(queues)))

    # --- offsets -------------------------------------------------------------------------------

    def query_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The group's committed offset; None only if the broker says that it has none."""
        header = QueryConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
        )
        reply = self._requests.ask(
            queue,
            request(header.code, to_ext(header)),
            f"the offset of group {group!r} in {queue}",
            accept=_FOUND_OR_NONE,
        )
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return from_ext(OffsetReply, reply.ext).offset

    def update_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit the group's offset and wait for the acknowledgement.

        The broker takes any value from anybody: have one commit of a queue in flight, and only
        while its lock is held.
        """
        header = UpdateConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        what = f"the commit of offset {offset} of group {group!r} in {queue}"
        self._requests.ask(queue, request(header.code, to_ext(header)), what)

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset the queue's next message will get; 0 also for a queue that does not exist."""
        header = GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id)
        return self._offset(queue, header, "the maximum offset")

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message still there; 0 also for a queue that does not exist."""
        header = GetMinOffset(topic=queue.topic, queue_id=queue.queue_id)
        return self._offset(queue, header, "the minimum offset")

    def search_offset(self, queue: MessageQueue, moment: float) -> int:
        """The offset of the first message stored at or after `moment`; past the end: the maximum.

        Args:
            queue: which queue.
            moment: seconds since the epoch. The broker counts in milliseconds; the rest is cut
                off, since a later one would skip messages.
        """
        header = SearchOffset(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=int(moment * 1000)
        )
        return self._offset(queue, header, "the offset at a time")

    def _offset(self, queue: MessageQueue, header: OffsetQuestion, what: str) -> int:
        command = request(header.code, to_ext(header))
        reply = self._requests.ask(queue, command, f"{what} of {queue}")
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
        reply = self._requests.ask(
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
        sent = self._requests.submit(
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
            reply = self._requests.ask(
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

        Args:
            queue: where to.
            command: SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE.
            timeout: seconds for the reply.
            on_result: gets where it was stored, or an error, exactly once if the request went
                out, on a reader thread (a time-out: on a timer thread); must not block.
            may_connect: False on threads that must not block.
            attended: the caller waits, and calls what is returned; see `Connection.submit`.

        Returns:
            What reads the reply on the calling thread. None if it would have had to connect or to
            ask a name server, and must not.

        Raises:
            OrderlyError: nothing was sent and nothing is stored; `on_result` is not called.
        """
        return self._requests.submit(
            queue,
            command,
            partial(read_send_reply, queue),
            on_result,
            timeout=timeout,
            may_connect=may_connect,
            attended=attended,
        )

    def send_now(self, queue: MessageQueue, command: RemotingCommand) -> Stored:
        """Send one message to a queue's master and wait until it is stored.

        The header's topic may be another one than the queue's: a dead letter is written where
        the message came from.
        """
        reply = self._requests.ask(
            queue, command, f"a send to the broker of {queue}", accept=frozenset(SEND_STATUS)
        )
        return read_send_reply(queue, reply, "")


def _on(broker_name: str, queues: frozenset[MessageQueue]) -> MessageQueue:
    """Say whom to ask about `queues`: any queue of theirs on that broker will do."""
    return MessageQueue(min(queues).topic, broker_name, 0)
