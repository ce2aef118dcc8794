"""Decoding alone: a block of messages in bulk, and by the loop that knows every message."""

from functools import partial

from benchmarks.rounds import Part, interleaved
from benchmarks.spark.processes import own_cpu
from benchmarks.spark.topics import BODY, SEQ_PROPERTY
from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol.stored_message import decode_messages, encode_stored_message
from orderly.spark.columns import COLUMNS, DEFAULT_COLUMNS
from orderly.spark.decoding import WantedColumns, decode

QUEUE = MessageQueue("orders", "broker-a", 0)
MESSAGES = 4_000  # about 1 MiB
_REPEATED = 20
NARROW = ("queue_id", "queue_offset", "sharding_key", "seq")


def decoding(rounds):
    """Narrow and full rows, and the loop."""
    block = b"".join(encode_stored_message(_message(n)) for n in range(MESSAGES))
    columns = {
        "narrow": NARROW,
        "default columns": DEFAULT_COLUMNS,
        "all columns, with the map": tuple(COLUMNS),
    }
    sides = {
        name: _side(partial(decode, block, QUEUE, WantedColumns(names, SEQ_PROPERTY)))
        for name, names in columns.items()
    }
    sides["loop, to objects"] = _side(lambda: decode_messages(block, "broker-a"))
    ratios = {"decode_loop_vs_bulk": ("loop, to objects", "all columns, with the map")}
    title = f"decoding of {MESSAGES:,} messages of {len(block) // MESSAGES} bytes"
    unit = "CPU microseconds a row"
    return Part("decode", title, unit, interleaved("decode", sides, rounds), ratios)


def _side(work):
    def measure():
        work()
        before = own_cpu()
        for _ in range(_REPEATED):
            work()
        return (own_cpu() - before) / (_REPEATED * MESSAGES) * 1e6

    return measure


def _message(n):
    properties = {
        "UNIQ_KEY": f"{n:032X}",
        "__SHARDINGKEY": f"key-{n % 997}",
        SEQ_PROPERTY: str(n),
        "TAGS": "created",
        "WAIT": "true",
    }
    return ReceivedMessage(
        queue=QUEUE,
        queue_offset=n,
        body=BODY,
        properties=properties,
        message_id="",
        offset_message_id="",
        born_time=1_700_000_000 + n / 1000,
        store_time=1_700_000_000 + n / 1000,
        born_host="127.0.0.1:50000",
        store_host="127.0.0.1:10911",
        reconsume_times=0,
        flag=0,
        sys_flag=0,
        physical_offset=257 * n,
        stored_size=0,
    )
