"""Records of the state topic and messages of the park topic: tools show them like others.

What has no seal where it needs one is read as damaged; the rules for that hold.
"""

from __future__ import annotations

import time

from orderly.client.broker import BrokerCalls
from orderly.client.pulling import PullQuery
from orderly.log import get_logger, where
from orderly.model import ReceivedMessage
from orderly.ordering.calls import AppendRecord, ParkedRead, ReadParked, ReadRecords, RecordsRead
from orderly.ordering.state.history import BLOCK
from orderly.protocol import properties as names
from orderly.protocol.command import request
from orderly.protocol.headers import SendMessage, to_ext
from orderly.protocol.heartbeat import ALL_TAGS, Subscription
from orderly.protocol.park_record import PARKED
from orderly.protocol.seal import Seal, without_content
from orderly.protocol.state_record import record_kind

_log = get_logger("orderly.consumer")
_WAIT = 5.0  # seconds the broker may wait for a record; it usually comes within milliseconds


def append_record(brokers: BrokerCalls, group: str, seal: Seal, call: AppendRecord) -> int:
    """Store a record on the queue's master; returns its queue offset.

    Its tag is its kind and its key the group, so that it can be found with any tool. A message
    with weaker durability (its disk or its slave was slow) is stored, as for a producer.

    Raises:
        OrderlyError: no answer, or one that says no. It may be stored without an answer.
    """
    properties = {names.TAGS: record_kind(call.body), names.KEYS: group, names.WAIT: "true"}
    properties = seal.put_on(call.queue, properties, call.body)
    header = SendMessage(
        producer_group=group,
        topic=call.queue.topic,
        queue_id=call.queue.queue_id,
        born_timestamp=int(time.time() * 1000),
        properties=names.encode_properties(properties),
        broker_name=call.queue.broker_name,
    )
    command = request(header.code, to_ext(header), call.body)
    return brokers.send_now(call.queue, command).queue_offset


def read_records(brokers: BrokerCalls, group: str, seal: Seal, call: ReadRecords) -> RecordsRead:
    """Read one block of records from the queue's master.

    One whose body cannot be read is none: what is not understood is damaged.

    Raises:
        OrderlyError: no answer, one that says no, or messages that break the format.
    """
    result = brokers.pull_now(_query(group, call, Subscription(call.queue.topic)))
    believed = [_believed(seal, call, message) for message in result.messages]
    records = tuple((message.queue_offset, message.raw_body) for message in believed)
    stored_at = max((round(message.store_time * 1000) for message in result.messages), default=0)
    return RecordsRead(records, result.next_offset, result.min_offset, stored_at)


def read_parked(brokers: BrokerCalls, group: str, seal: Seal, call: ReadParked) -> ParkedRead:
    """Read one block of messages from the park queue's master.

    Raises:
        OrderlyError: no answer, one that says no, or messages that break the format.
    """
    wanted = Subscription.from_expression(call.queue.topic, call.tag or ALL_TAGS, 0)
    result = brokers.pull_now(_query(group, call, wanted))
    found = [message for message in result.messages if wanted.matches(message.tags)]
    messages = tuple(_believed(seal, call, message) for message in found)
    unsealed = sum(
        PARKED in one.properties and PARKED not in other.properties
        for one, other in zip(found, messages, strict=True)
    )
    return ParkedRead(messages, result.next_offset, result.min_offset, unsealed)


def _believed(
    seal: Seal, call: ReadRecords | ReadParked, message: ReceivedMessage
) -> ReceivedMessage:
    if seal.accepts(call.queue, message):
        return message
    at = where(seal.group, call.queue) | {"offset": message.queue_offset}
    _log.warning("record.not_believed", **at)
    return without_content(message)


def _query(group: str, call: ReadRecords | ReadParked, wanted: Subscription) -> PullQuery:
    return PullQuery(
        group=group,
        queue=call.queue,
        offset=call.offset,
        max_messages=BLOCK,
        subscription=wanted,
        suspend=_WAIT if call.wait else 0.0,
    )
