"""The request that makes a message a dead letter, as the Java client writes it.

It is an ordinary send to `%RETRY%<group>`; the broker turns it into `%DLQ%<group>` because the
count is over the limit (SendMessageProcessor.handleRetryAndDLQ). Administration tools then show it
as they show Java's. Sent to another broker than the message's own it could land in the retry topic
and come back out of order: the caller sends it to the queue's own master.
"""

from __future__ import annotations

from orderly.model import ReceivedMessage, UndecodableMessage
from orderly.namespace import RETRY_PREFIX, first_topic
from orderly.protocol import properties as names
from orderly.protocol.command import RemotingCommand
from orderly.protocol.compression import sent_body
from orderly.protocol.frame import request
from orderly.protocol.headers import SendMessage, to_ext

INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
_DELAY_OF_FIRST = 3  # Java: 3 + reconsume times; without effect on a dead letter
_TRANSACTION = "TRAN_MSG"


def dead_letter_request(
    group: str, message: ReceivedMessage, broker_name: str, now: float
) -> RemotingCommand:
    """Write the send that ends in `%DLQ%<group>`.

    The limit sent is the message's own count and the count sent is one more: brokers that compare
    with "over" and those that compare with "at or over" agree (apache/rocketmq issue 6163).

    Args:
        group: the consumer group.
        message: as it was received; body, flag and properties are kept.
        broker_name: of the message's own queue.
        now: seconds since the epoch, the dead letter's born time.

    Raises:
        InvalidMessage: its properties with those of a dead letter are too long to be sent.
    """
    count = message.reconsume_times
    body, sys_flag = sent_body(message)
    header = SendMessage(
        producer_group=INNER_PRODUCER,
        topic=RETRY_PREFIX + group,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=int(now * 1000),
        flag=message.flag,
        properties=names.encode_properties(_properties(message)),
        reconsume_times=count + 1,
        max_reconsume_times=count,
        broker_name=broker_name,
    )
    return request(header.code, to_ext(header), body)


def _properties(message: ReceivedMessage) -> dict[str, str]:
    kept = {k: v for k, v in message.properties.items() if k != _TRANSACTION and v}
    origin = message.properties.get(names.ORIGIN_MESSAGE_ID) or message.message_id
    if isinstance(message, UndecodableMessage):
        kept[names.UNREAD] = str(message.sys_flag)
    return kept | {
        names.RETRY_TOPIC: first_topic(
            message.queue.topic, message.properties.get(names.RETRY_TOPIC)
        ),
        names.ORIGIN_MESSAGE_ID: origin,
        names.RECONSUME_TIME: str(message.reconsume_times + 1),
        names.MAX_RECONSUME_TIMES: str(message.reconsume_times),
        names.DELAY: str(_DELAY_OF_FIRST + message.reconsume_times),
    }
