"""A data source without a broker: rows like a topic's, made by numpy as fast as they are taken.

What it costs to have rows through Spark, the broker and the decoder left out. Of each
`FAULT_EVERY` messages of a queue two of one key have changed places: the faults to be found.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from orderly.model import MessageQueue
from orderly.spark.columns import COLUMNS
from orderly.spark.summary import SCHEMA, needed, summarize

PARTS = 8
BATCH = 16_384  # rows; larger ones are no faster, smaller ones are slower
KEYS = 10_000  # of a queue
FAULT_EVERY = 100_003
HOT_PARTS = PARTS // 2  # all of one key, so that half of all messages are of it
EIGHT = (
    "queue_id", "queue_offset", "uniq_key", "tag", "sharding_key", "seq", "store_ts", "body",
)  # fmt: skip

_HEX = np.frombuffer("".join(f"{byte:02X}" for byte in range(256)).encode(), np.uint16)
_TIME = 1_700_000_000_000_000  # microseconds


class SyntheticSource(DataSource):
    """Options: rows (in all), columns, hot (true: one key has half), emit, keys (no others)."""

    @classmethod
    def name(cls):
        return "synthetic"

    def schema(self):
        return from_arrow_schema(_schema(self.options))

    def reader(self, schema):
        return _Reader(self.options)


def _schema(options):
    if options.get("emit") == "summary":
        return SCHEMA
    names = options["columns"].split(",")
    return pa.schema([pa.field(name, COLUMNS[name].arrow) for name in names])


class _Reader(DataSourceReader):
    def __init__(self, options):
        self._options = options
        self._rows = int(options["rows"]) // PARTS
        self._hot = options.get("hot") == "true"

    def partitions(self):
        return [InputPartition(part) for part in range(PARTS)]

    def read(self, partition):
        """A part: a queue, or one of the ranges of the hot key's queue."""
        hot = self._hot and partition.value < HOT_PARTS
        queue_id = 0 if hot else partition.value
        first = partition.value * self._rows if hot else 0
        make = Maker(queue_id, hot)
        if self._options.get("emit") == "summary":
            names = needed("seq")
            batches = self._batches(make, first, names)
            yield from summarize(
                MessageQueue("orders", "broker-a", queue_id), batches, seq_property="seq"
            )
            return
        yield from self._batches(make, first, self._options["columns"].split(","))

    def _batches(self, make, first, names):
        schema = _schema({"columns": ",".join(names)})
        keys = self._options.get("keys")
        only = pa.array(keys.split(",")) if keys else None
        for start in range(first, first + self._rows, BATCH):
            offsets = np.arange(start, min(start + BATCH, first + self._rows))
            batch = pa.RecordBatch.from_arrays(
                [make(name, offsets) for name in names], schema=schema
            )
            if only is not None:
                batch = batch.filter(pc.is_in(batch.column("sharding_key"), only))
            yield batch


class Maker:
    """Makes columns of one queue."""

    def __init__(self, queue_id, hot):
        self.queue_id = queue_id
        self.keys = 1 if hot else KEYS
        self.pool = pa.array([f"key-{queue_id}-{n}" for n in range(self.keys)])

    def __call__(self, name, offsets):
        """A column for these offsets."""
        return _COLUMNS[name](self, offsets)

    def seq(self, offsets):
        """Numbers of each key, from 0 on, but for the two of each fault that changed places."""
        late = offsets - self.keys
        up = (offsets % FAULT_EVERY == 0) & (offsets > 0)
        down = (late % FAULT_EVERY == 0) & (late > 0)
        return pa.array(offsets // self.keys + up - down)

    def ids(self, offsets):
        """32 hexadecimal digits."""
        numbers = np.zeros((len(offsets), 2), ">i8")
        numbers[:, 0], numbers[:, 1] = self.queue_id, offsets
        digits = _HEX[numbers.view(np.uint8)]
        cuts = np.arange(0, 32 * len(offsets) + 1, 32, dtype=np.int32)
        buffers = [None, pa.py_buffer(cuts), pa.py_buffer(digits)]
        return pa.Array.from_buffers(pa.string(), len(offsets), buffers)

    def times(self, offsets):
        """Ten microseconds apart."""
        return pa.array(_TIME + 10 * offsets).view(COLUMNS["store_ts"].arrow)


_COLUMNS = {
    "topic": lambda maker, offsets: pa.repeat("orders", len(offsets)),
    "broker": lambda maker, offsets: pa.repeat("broker-a", len(offsets)),
    "queue_id": lambda maker, offsets: pa.array(np.full(len(offsets), maker.queue_id, np.int32)),
    "queue_offset": lambda maker, offsets: pa.array(offsets),
    "commitlog_offset": lambda maker, offsets: pa.array(offsets * PARTS + maker.queue_id),
    "msg_id": Maker.ids,
    "uniq_key": Maker.ids,
    "tag": lambda maker, offsets: pa.repeat("created", len(offsets)),
    "sharding_key": lambda maker, offsets: maker.pool.take(pa.array(offsets % maker.keys)),
    "seq": Maker.seq,
    "born_ts": Maker.times,
    "store_ts": Maker.times,
    "body": lambda maker, offsets: pa.repeat(b"x" * 64, len(offsets)),
    "attempt": lambda maker, offsets: pa.nulls(len(offsets), pa.int32()),
    "body_sum": lambda maker, offsets: pa.array(offsets),
}
