"""Stored messages as bytes, field by field: also such as no encoder of ours would write."""

import struct
from zlib import crc32

from orderly.protocol.stored_message import MAGIC_V1, SysFlag


def stored(
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
        0,
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
