"""Made messages: for pure code, as a careless sender stores them, and as stored bytes."""

import struct
import time
from zlib import crc32

from orderly.errors import BrokerError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol import properties as names
from orderly.protocol.codes import ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.send import SendBatch, SendMessage, encode_batch
from orderly.protocol.stored_message import MAGIC_V1, SysFlag

# --- messages -------------------------------------------------------------------------------------
# Made messages for tests of pure code.


QUEUE = MessageQueue("orders", "broker-a", 0)


def message(offset: int, key: str | None = None, queue: MessageQueue = QUEUE) -> ReceivedMessage:
    properties = {} if key is None else {"__SHARDINGKEY": key}
    return ReceivedMessage(
        queue=queue,
        queue_offset=offset,
        body=b"body",
        properties=properties,
        message_id=f"id-{offset}",
        offset_message_id=f"offset-id-{offset}",
        born_time=1.0,
        store_time=2.0,
        born_host="127.0.0.1:1",
        store_host="127.0.0.1:2",
        reconsume_times=0,
        flag=0,
        sys_flag=0,
        physical_offset=offset * 100,
        stored_size=70,
        held_size=100,
    )


# --- raw messages ---------------------------------------------------------------------------------
# Messages as a careless sender stores them: any body, any flags. Brokers look at neither.


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


def send_raw(
    client, queue, body=GARBAGE, *, key=None, sys_flag=ZLIB, flag=0, born=None, tries=None,
    batch=False, **properties,
):  # fmt: skip
    """Store a message; returns its offset. `born` is in milliseconds since the epoch."""
    told = {names.UNIQ_KEY: f"raw-{time.monotonic_ns()}"} | properties
    if key is not None:
        told[names.SHARDING_KEY] = key
    header = (SendBatch if batch else SendMessage)(
        producer_group="careless",
        topic=queue.topic,
        queue_id=queue.queue_id,
        sys_flag=sys_flag,
        flag=flag,
        born_timestamp=int(time.time() * 1000) if born is None else born,
        reconsume_times=tries,
        properties=names.encode_properties(told),
        broker_name=queue.broker_name,
    )
    return client.brokers.send_now(queue, request(header.code, to_ext(header), body)).queue_offset


# --- stored bytes ---------------------------------------------------------------------------------
# Stored messages as bytes, field by field: also such as no encoder of ours would write.


def stored_bytes(
    *,
    body=b"body",
    properties=b"",
    topic=b"orders",
    offset=0,
    queue_id=3,
    magic=MAGIC_V1,
    sys_flag=0,
    born=1_700_000_000_123,
    at=1_700_000_000_456,
    physical=4096,
    reconsumed=0,
    flag=0,
    checksum=None,
):
    """One message, laid out as MessageDecoder does; the bits of `sys_flag` say which hosts."""
    born_host = bytes(range(20 if sys_flag & SysFlag.BORN_HOST_V6 else 8))
    store_host = bytes(range(100, 120 if sys_flag & SysFlag.STORE_HOST_V6 else 108))
    tail = b"".join(
        (
            struct.pack(">i", len(body)),
            body,
            struct.pack(">B" if magic == MAGIC_V1 else ">h", len(topic)),
            topic,
            struct.pack(">h", len(properties)),
            properties,
        )
    )
    head = struct.pack(
        f">IiiqqiQ{len(born_host)}sQ{len(store_host)}siq",
        crc32(body) & 0x7FFFFFFF if checksum is None else checksum,
        queue_id,
        flag,
        offset,
        physical,
        sys_flag,
        born % 2**64,
        born_host,
        at % 2**64,
        store_host,
        reconsumed,
        0,
    )
    return struct.pack(">iI", 8 + len(head) + len(tail), magic) + head + tail
