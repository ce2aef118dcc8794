"""What a broker's reply to a send means. The request itself is the producer's to make."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.client.replies import failure
from orderly.model import MessageQueue
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.headers import SendReply, from_ext

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
