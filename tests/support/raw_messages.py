"""Messages as a careless sender stores them: any body, any flags. Brokers look at neither."""

import time

from orderly.errors import BrokerError
from orderly.protocol import properties as names
from orderly.protocol.codes import ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.headers import SendBatch, SendMessage
from orderly.protocol.outgoing import encode_batch

ZLIB = 0x301  # of a message's flags: compressed, by zlib
INNER_BATCH = 0xC0  # of a message's flags: it is a batch, to be unwrapped by who reads it
GARBAGE = b"no zlib stream"


def inner_batch(bodies):
    """The body of a batch; its messages have no properties."""
    return encode_batch([(body, "", 0) for body in bodies])


def forge(client, queue, bodies, says, *, key=None, sys_flag=INNER_BATCH):
    """Send a message that says it is a batch; returns its offset, None if the broker refuses it."""
    told = {} if says is None else {names.INNER_NUM: str(says)}
    body = inner_batch(bodies)
    try:
        return send_raw(client, queue, body, key=key, sys_flag=sys_flag, **told)
    except BrokerError as error:
        if error.code == ResponseCode.MESSAGE_ILLEGAL:
            return None
        raise


def send_raw(client, queue, body=GARBAGE, *, key=None, sys_flag=ZLIB, batch=False, **properties):
    """Store a message; returns its offset."""
    told = {names.UNIQ_KEY: f"raw-{time.monotonic_ns()}"} | properties
    if key is not None:
        told[names.SHARDING_KEY] = key
    header = (SendBatch if batch else SendMessage)(
        producer_group="careless",
        topic=queue.topic,
        queue_id=queue.queue_id,
        sys_flag=sys_flag,
        born_timestamp=int(time.time() * 1000),
        properties=names.encode_properties(told),
        broker_name=queue.broker_name,
    )
    return client.brokers.send_now(queue, request(header.code, to_ext(header), body)).queue_offset
