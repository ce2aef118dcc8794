"""Messages as a source reads them, and their summaries the slow way: one message after another."""

from collections import defaultdict
from itertools import pairwise

import pyarrow as pa

from orderly.model import MessageQueue
from orderly.spark.columns import arrow_schema
from orderly.spark.summary import SCHEMA, needed

QUEUE = MessageQueue("flights", "broker-a", 3)
COUNTS = ("n", "judged", "falls", "repeats", "jumps", "lost")


def messages(rows, seq_property="seq", start=0):
    """A batch as the source reads it.

    Args:
        rows: (key, number, id) of each; with a property the number is the sequence, else the
            millisecond of birth. Offsets and times of storing count up from `start`.
    """
    keys, numbers, ids = zip(*rows, strict=True) if rows else ((), (), ())
    offsets = list(range(start, start + len(rows)))
    columns = {
        "sharding_key": keys,
        "queue_offset": offsets,
        "store_ts": [offset * 1000 for offset in offsets],
        "seq": numbers,
        "born_ts": [number and number * 1000 for number in numbers],
        "uniq_key": ids,
    }
    names = needed(seq_property)
    schema = arrow_schema(names)
    fields = [field.with_nullable(True) for field in schema]  # a birth may be missing in tests
    arrays = [pa.array(columns[f.name], pa.int64()).cast(f.type) if f.type != pa.string()
              else pa.array(columns[f.name], f.type) for f in fields]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def in_batches(rows, sizes, seq_property="seq"):
    """The same messages in batches of these sizes; the last takes what is left."""
    start = 0
    for size in [*sizes, len(rows)]:
        yield messages(rows[start : start + size], seq_property, start)
        start = min(start + size, len(rows))


def one_by_one(rows, seq_property="seq"):
    """What the summary of each key must be, by reading its definition aloud."""
    places = defaultdict(list)
    for offset, row in enumerate(rows):
        places[row[0]].append((offset, *row[1:]))
    return {key: _of_key(key, mine, by_seq=bool(seq_property)) for key, mine in places.items()}


def _of_key(key, mine, *, by_seq):
    judged = [row for row in mine if row[1] is not None and key is not None]
    pairs = list(pairwise(judged))
    numbers = [row[1] for row in judged]
    same = 1 if by_seq else 2
    return {
        "n": len(mine),
        "judged": len(judged),
        "first_offset": mine[0][0],
        "last_offset": mine[-1][0],
        "first_seq": numbers[0] if numbers else None,
        "last_seq": numbers[-1] if numbers else None,
        "min_seq": min(numbers, default=None),
        "max_seq": max(numbers, default=None),
        "falls": sum(after[1] < before[1] for before, after in pairs),
        "repeats": sum(
            after[same] is not None and after[same] == before[same] for before, after in pairs
        ),
        "jumps": sum(after[1] > before[1] + 1 for before, after in pairs) if by_seq else 0,
        "lost": 0,
    }


def by_key(batches):
    """Summaries as `one_by_one` gives them; fails if a key has two."""
    found = {}
    for batch in batches:
        assert batch.schema == SCHEMA
        batch.validate(full=True)
        for row in batch.to_pylist():
            assert row["key"] not in found
            found[row["key"]] = row
    return found


def assert_same(found, expected):
    """Compare what `one_by_one` says; `found` may say more."""
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        assert {name: found[key][name] for name in row} == row
