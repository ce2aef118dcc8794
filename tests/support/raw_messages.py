"""Messages as a careless sender stores them: any body, any flags. Brokers look at neither."""

import time

from orderly.protocol import properties as names
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.headers import SendMessage

ZLIB = 0x301  # of a message's flags: compressed, by zlib
GARBAGE = b"no zlib stream"


def send_raw(client, queue, body=GARBAGE, *, key=None, sys_flag=ZLIB, **properties):
    """Store a message; returns its offset."""
    told = {names.UNIQ_KEY: f"raw-{time.monotonic_ns()}"} | properties
    if key is not None:
        told[names.SHARDING_KEY] = key
    header = SendMessage(
        producer_group="careless",
        topic=queue.topic,
        queue_id=queue.queue_id,
        sys_flag=sys_flag,
        born_timestamp=int(time.time() * 1000),
        properties=names.encode_properties(told),
        broker_name=queue.broker_name,
    )
    return client.brokers.send_now(queue, request(header.code, to_ext(header), body)).queue_offset
