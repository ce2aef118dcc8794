"""The columns of a summary, and the columns of messages that it is made of.

The number judged is called `seq`: the event's number (option `seqProperty`), or without one the
time at which the message was born, in milliseconds since the epoch.
"""

from __future__ import annotations

import pyarrow as pa

_TIME = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("broker", pa.string(), nullable=False),
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("key", pa.string()),  # null: messages without a key, never judged
        pa.field("n", pa.int64(), nullable=False),  # messages
        pa.field("judged", pa.int64(), nullable=False),  # of these, with a number
        pa.field("first_offset", pa.int64(), nullable=False),
        pa.field("last_offset", pa.int64(), nullable=False),
        pa.field("first_store_ts", _TIME),  # of the messages at the two offsets
        pa.field("last_store_ts", _TIME),
        pa.field("first_seq", pa.int64()),  # null: none was judged
        pa.field("last_seq", pa.int64()),
        pa.field("min_seq", pa.int64()),
        pa.field("max_seq", pa.int64()),
        pa.field("falls", pa.int64(), nullable=False),  # neighbours, the later number lower
        pa.field("repeats", pa.int64(), nullable=False),  # neighbours that are the same again
        pa.field("jumps", pa.int64(), nullable=False),  # neighbours with numbers left out between
        pa.field("first_uniq", pa.string()),  # null where numbers tell what is the same
        pa.field("last_uniq", pa.string()),
        pa.field("lost", pa.int64(), nullable=False),  # offsets gone; then there are no messages
    ]
)


def needed(seq_property: str) -> tuple[str, ...]:
    """The columns of messages that summaries are made of.

    Args:
        seq_property: the property with the event's number; "": born times are judged.
    """
    judged = ("seq",) if seq_property else ("born_ts", "uniq_key")
    return ("sharding_key", "queue_offset", "store_ts", *judged)
