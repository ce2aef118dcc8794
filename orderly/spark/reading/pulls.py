"""A pull for the pipeline: its request, and what the reply means. Bodies stay bytes. No I/O.

Unlike a consumer's (`orderly.client.pulling`) it never waits for new messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from orderly.client.replies import failure
from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.codes import ResponseCode
from orderly.protocol.ext import from_ext, to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.headers import PullFlag, PullMessage, PullReply
from orderly.spark.offsets.losses import Span

_GOES_ON = (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
_NOT_THERE = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED)


@dataclass(frozen=True, slots=True)
class Pulled:
    """Messages, or none where none has a wanted tag.

    Attributes:
        next: the offset to go on with.
        body: stored messages, one after the other.
    """

    next: int
    body: bytes


class Requests:
    """The pulls of one queue: equal but for offset and number. Immutable."""

    def __init__(self, queue: MessageQueue, group: str, tags: str) -> None:
        self._what = f"messages of {queue}"
        header = PullMessage(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=0,
            sys_flag=int(PullFlag.SUBSCRIPTION),
            subscription=tags,
            expression_type="TAG",
        )
        self._ext = to_ext(header)

    def pull(self, offset: int, count: int) -> RemotingCommand:
        """Ask for `count` messages from `offset` on."""
        numbers = {"queueOffset": str(offset), "maxMsgNums": str(count)}
        return request(PullMessage.code, {**self._ext, **numbers})

    def answer(self, reply: RemotingCommand, address: str) -> Pulled | Span:
        """Read a reply of the broker at `address`.

        Returns:
            Messages, or what the queue holds where that does not include the offset.

        Raises:
            BrokerError: it says no.
            ProtocolError: a header that cannot be read.
        """
        if reply.code in _NOT_THERE:
            header = from_ext(PullReply, reply.ext)
            return Span(header.min_offset, header.max_offset)
        if reply.code not in _GOES_ON:
            raise failure(reply, address, self._what)
        return Pulled(_next(reply), reply.body if reply.code == ResponseCode.SUCCESS else b"")


def _next(reply: RemotingCommand) -> int:
    # Not `from_ext`: with 32 messages a pull, reading all of the header is felt.
    try:
        return int(reply.ext["nextBeginOffset"])
    except (KeyError, ValueError) as error:
        raise ProtocolError("a reply to a pull does not say where to go on") from error
