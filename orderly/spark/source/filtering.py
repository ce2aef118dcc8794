"""The reader of a batch that spares what the query's conditions rule out (option pushdown).

Spark refuses a reader that takes filters unless `spark.sql.python.filterPushdown.enabled` is
true, so this is a class of its own.
"""

# ruff: noqa: N802  Spark's names for its methods
from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from orderly.client import Client
from orderly.protocol.heartbeat import ALL_TAGS
from orderly.spark.discovering import offsets_since, pinned
from orderly.spark.offsets.narrowing import Condition, Narrowing, Op, narrow
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.reading import Scan
from orderly.spark.source.batch import BatchReader
from orderly.spark.told import told

_OPS: dict[type[Filter], Op] = {
    EqualTo: Op.IN,
    EqualNullSafe: Op.IN,
    In: Op.IN,
    GreaterThan: Op.ABOVE,
    GreaterThanOrEqual: Op.FROM,
    LessThan: Op.BELOW,
    LessThanOrEqual: Op.UP_TO,
    IsNotNull: Op.THERE,
}


class FilteringReader(BatchReader):
    """Reads less. Spark asks for the filters first, then for the parts."""

    _narrowing = Narrowing()

    @told
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the conditions of the query; those returned are checked by Spark, row by row."""
        left: list[Filter] = []
        for each in sorted(filters, key=lambda each: isinstance(each, IsNotNull)):
            condition = _condition(each)
            honoured = False
            if condition is not None:
                self._narrowing, honoured = narrow(self._narrowing, condition)
            if not honoured:
                left.append(each)
        self._reading = replace(self._reading, scan=self._tagged(), only=self._narrowing.texts())
        return left

    def _tagged(self) -> Scan:
        tags = self._narrowing.tags()
        scan = self._reading.scan
        return replace(scan, tags=tags) if scan.tags == ALL_TAGS else scan

    def _ranges(self) -> Sequence[QueueRange]:
        with closing(self._reading.access.client()) as client:
            ranges = self._narrowing.cut(pinned(client, self._options))
            return self._in_time(client, ranges)

    def _in_time(self, client: Client, ranges: list[QueueRange]) -> list[QueueRange]:
        """Ranges without messages that were stored too early or too late."""
        queues = [each.queue for each in ranges]
        since, until = self._narrowing.since, self._narrowing.until
        low = offsets_since(client, queues, since) if since is not None else {}
        high = offsets_since(client, queues, until) if until is not None else {}
        return [
            QueueRange(
                each.queue,
                max(each.start, low.get(each.queue, each.start)),
                min(each.end, high.get(each.queue, each.end)),
            )
            for each in ranges
        ]


def _condition(asked: Any) -> Condition | None:
    op = _OPS.get(type(asked))
    if op is None or len(asked.attribute) != 1:
        return None
    column = asked.attribute[0]
    if op is Op.THERE:
        return Condition(column, op)
    values = tuple(asked.value) if isinstance(asked, In) else (asked.value,)
    if None in values and not isinstance(asked, In):
        return None
    return Condition(column, op, values)
