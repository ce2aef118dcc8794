"""The request that appends a message to a park queue."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.command import RemotingCommand
from orderly.protocol.compression import decompress
from orderly.protocol.frame import request
from orderly.protocol.headers import SendMessage, to_ext
from orderly.protocol.properties import encode_properties
from orderly.protocol.seal import Seal
from orderly.protocol.stored_message import MAX_BODY, SysFlag


@dataclass(frozen=True, slots=True)
class ParkMessage:
    """What is to be sent to a park queue.

    Attributes:
        sys_flag: says whether the body is compressed.
        flag: the user's, which is kept.
    """

    properties: dict[str, str]
    body: bytes
    sys_flag: int = 0
    flag: int = 0


def park_request(
    group: str,
    park_queue: MessageQueue,
    content: ParkMessage,
    now: float,
    *,
    seal: Seal | None = None,
    newest: int | None = None,
) -> RemotingCommand:
    """Write the request that appends to a park queue; send it to that queue's master.

    Args:
        group: the consumer group.
        park_queue: where to.
        content: what.
        now: seconds since the epoch.
        seal: put on it; None: none is.
        newest: of a line, the highest position of the park queue by now.

    Raises:
        InvalidMessage: the properties with those of a parked message are too long to be sent.
    """
    properties = content.properties
    if seal is not None and seal.signs:
        properties = seal.put_on(park_queue, properties, _as_read(content), newest)
    header = SendMessage(
        producer_group=group,
        topic=park_queue.topic,
        queue_id=park_queue.queue_id,
        sys_flag=content.sys_flag,
        born_timestamp=int(now * 1000),
        flag=content.flag,
        properties=encode_properties(properties),
        broker_name=park_queue.broker_name,
    )
    return request(header.code, to_ext(header), content.body)


def _as_read(content: ParkMessage) -> bytes:
    """The body as it will be read; as it is sent, if it cannot be."""
    if not content.sys_flag & SysFlag.COMPRESSED:
        return content.body
    try:
        return decompress(content.sys_flag >> 8 & 7, content.body, MAX_BODY)
    except ProtocolError:
        return content.body
