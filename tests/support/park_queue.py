"""Messages of a park queue as a broker gives them back: stored, with its own properties added."""

from dataclasses import replace

from orderly.protocol.park_record import ParkDetails, park_message
from orderly.protocol.properties import decode_properties, encode_properties
from orderly.protocol.stored_message import decode_messages, encode_stored_message
from tests.support.messages import message
from tests.support.state_queue import PARK_QUEUE

_OF_THE_BROKER = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def stored(content, position=0, store_time=5.0):
    """What is pulled from the park queue after `content` was sent to it."""
    sent = decode_properties(encode_properties(content.properties).encode())
    kept = replace(
        message(position, queue=PARK_QUEUE),
        body=content.body,
        properties=sent | _OF_THE_BROKER,
        sys_flag=content.sys_flag,
        flag=content.flag,
        store_time=store_time,
    )
    (pulled,) = decode_messages(encode_stored_message(kept), PARK_QUEUE.broker_name)
    return pulled


def parked_message(key, offset, position, attempts=0):
    """A parked message of `key`, pulled from `position`."""
    details = ParkDetails(key=key, reason="why", attempts=attempts, parked_at=9.0, token=1)
    return stored(park_message(message(offset), details), position)
