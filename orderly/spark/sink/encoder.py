"""A partition's rows, batch after batch, into pieces of requests; checked on the way.

Nothing is sent here. Not pure: UNIQ_KEYs take their time and address from this process.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orderly.errors import InvalidMessage
from orderly.producer.message_ids import MessageIds
from orderly.selectors import KEYED
from orderly.spark.placing import NUMBERS, PLACES, places, round_robin
from orderly.spark.sink.batches import Piece, members, pieces
from orderly.spark.sink.checking import check_rows
from orderly.spark.sink.key_order import Fall, KeyOrder
from orderly.spark.sink.options import ROUND_ROBIN
from orderly.spark.sink.plan import Plan
from orderly.spark.sink.property_texts import property_texts
from orderly.spark.sink.recognition import recognition_ids, unique_keys
from orderly.spark.sink.rows import Rows, chunks, read_rows

_COUNTER_DIGITS = 4


class Encoder:
    """Encodes the rows of one partition. One thread at a time.

    Args:
        plan: of the write.
        partition: its number.
        queues: how many the topic has.
        ids: makes UNIQ_KEYs.
    """

    def __init__(self, plan: Plan, partition: int, queues: int, ids: MessageIds) -> None:
        self._plan = plan
        self._partition = partition
        self._queues = queues
        self._ids = ids
        self._order = KeyOrder(unique=plan.roles.id is None)
        self._keyed = plan.selector in KEYED
        self.rows = 0

    @property
    def keys(self) -> list[object]:
        """The keys seen so far; where all rows are in one order, one that stands for all."""
        return self._order.keys

    def encode(self, batch: pa.RecordBatch) -> Iterator[Piece]:
        """Encode the partition's next rows.

        Raises:
            InvalidMessage: a row that cannot be sent, or comes behind a later one of its key.
        """
        for chunk in chunks(batch):
            rows = read_rows(chunk, self._plan.roles, self._partition, self.rows)
            yield from self._encode(rows)
            self.rows += len(rows)

    def _encode(self, rows: Rows) -> Iterator[Piece]:
        unique = unique_keys(self._ids.next()[:-_COUNTER_DIGITS], self.rows, len(rows))
        texts = property_texts(rows, recognition_ids(rows), unique)
        check_rows(rows, texts, self._plan.topic, key_needed=self._keyed)
        where = self._places(rows)
        return pieces(members(rows.body, texts), where, self._queues, self._plan.max_batch_bytes)

    def _places(self, rows: Rows) -> npt.NDArray[np.int64]:
        """The place of each row's queue, once the order of the keys was found to be right."""
        if self._plan.selector == ROUND_ROBIN:
            return places(round_robin(len(rows), self.rows), self._queues)
        if not self._keyed:
            here = np.zeros(len(rows), np.int64)
            self._check_order(rows, [None], here)
            return here
        assert rows.key is not None
        encoded = rows.key.dictionary_encode()
        codes = np.asarray(encoded.indices, np.int64)
        distinct = encoded.dictionary
        self._check_order(rows, distinct.to_numpy(zero_copy_only=False).tolist(), codes)
        numbers = NUMBERS[self._plan.selector](distinct)
        return PLACES[self._plan.selector](numbers, self._queues)[codes]

    def _check_order(self, rows: Rows, keys: list[object], codes: npt.NDArray[np.int64]) -> None:
        assert rows.order is not None
        fall = self._order.check(keys, codes, rows.order)
        if fall is not None:
            key = keys[codes[fall.row]]
            raise InvalidMessage(f"{rows.where(fall.row)}: {_what_fell(fall, key, self._plan)}")


def _what_fell(fall: Fall, key: object, plan: Plan) -> str:
    keyed, order = plan.selector in KEYED, plan.roles.order
    if fall.number == fall.before:
        return (
            f"{f'key {key!r} has' if keyed else 'the rows have'} {order} {fall.number} twice."
            f" Without an idColumn a message is recognised by its key, {order} and body: name a"
            " column that is unique, or order by something that does not repeat within a key"
        )
    return (
        f"{f'key {key!r} goes' if keyed else 'the rows go'} back from {order} {fall.before} to"
        f" {fall.number}: let orderly.spark.sink.write_ordered do the writing, or repartition by"
        f" the key and sort within partitions by {order}"
    )
