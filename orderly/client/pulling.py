"""A pull: what is asked of a broker and what its reply means. No I/O here; see `broker`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache

from orderly.client.replies import failure
from orderly.errors import ReplyTooLarge
from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.headers import PullFlag, PullMessage, PullReply, from_ext, to_ext
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.stored_message import decode_pull

MAX_SUSPEND = 15.0  # seconds (Java: brokerSuspendMaxTimeMillis)
_READERS_ROOM = 64 * 1024 * 1024  # bytes, for who has no cache to fill


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
            64 MiB for who has no cache. What does not fit is left for the next pull.
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
    """

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    address: str = ""


def pull_command(query: PullQuery) -> RemotingCommand:
    """Write the request for `query`."""
    ext = _header(query.group, query.queue, query.max_messages, query.subscription, query.suspend)
    return request(PullMessage.code, {**ext, "queueOffset": str(query.offset)})


@lru_cache(maxsize=4096)
def _header(
    group: str, queue: MessageQueue, max_messages: int, subscription: Subscription, suspend: float
) -> Mapping[str, str]:
    """All of a pull's header but its offset: the same from pull to pull."""
    flags = PullFlag.SUBSCRIPTION
    if suspend > 0:
        flags |= PullFlag.SUSPEND
    return to_ext(
        PullMessage(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=0,
            max_msg_nums=max_messages,
            sys_flag=int(flags),
            suspend_timeout_millis=round(suspend * 1000),
            subscription=subscription.expression,
            sub_version=subscription.version,
            expression_type=subscription.expression_type,
        )
    )


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
    if status is PullStatus.FOUND:
        messages, left_at = decode_pull(
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
    )
