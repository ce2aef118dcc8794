"""What Spark asks of a writer: a plan on the driver, tasks on workers, an end on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from orderly.errors import ConfigError
from orderly.log import get_logger
from orderly.spark.encoding import scattered
from orderly.spark.options import parse_write
from orderly.spark.sending import TaskOutcome, send_partition
from orderly.spark.tracebacks import short_traceback
from orderly.spark.write_plan import WritePlan, make_plan

_log = get_logger("orderly.spark")


@dataclass
class Written(WriterCommitMessage):
    """A task's word that all its rows are stored."""

    outcome: TaskOutcome


def make_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Plan a batch write: check the options, the columns and the topic.

    Args:
        options: of the write, see `SINK_OPTIONS` in `orderly.spark.options`.
        schema: of the rows.
        overwrite: whether Spark is to replace what is there.

    Raises:
        ConfigError: the options do not fit, or `overwrite`.
        TopicNotFound, RouteError, NameServerUnavailable: the topic cannot be sent to.
    """
    if overwrite:
        raise ConfigError("a topic can only be appended to, not overwritten: use mode('append')")
    return BatchWriter(make_plan(parse_write(options), _types(schema)))


def make_stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> StreamWriter:
    """Plan the writes of a streaming query; as `make_writer`."""
    if overwrite:
        raise ConfigError(
            "a topic can only be appended to, not overwritten: use outputMode('append') or"
            " 'update', not 'complete'"
        )
    return StreamWriter(make_plan(parse_write(options), _types(schema)))


def _types(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame; made by `make_writer`."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    @short_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of one partition; on a worker."""
        return Written(send_partition(self._plan, _partition(), iterator))

    @short_traceback
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Look at what all tasks did; on the driver, once all have sent everything."""
        _conclude(self._plan, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002  pyspark's
        """Say what an aborted write leaves behind; on the driver."""
        _log_abort(self._plan, None)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query; made by `make_stream_writer`."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    @short_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of one partition of one batch; on a worker."""
        return Written(send_partition(self._plan, _partition(), iterator))

    @short_traceback
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  pyspark's
        """Look at what all tasks of a batch did; on the driver."""
        _conclude(self._plan, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  pyspark's
        """Say what an aborted batch leaves behind; on the driver."""
        _log_abort(self._plan, batchId)


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _conclude(plan: WritePlan, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Refuse to call a write done whose keys had no order.

    Raises:
        ConfigError: rows of a key were in several partitions.
    """
    outcomes = [message.outcome for message in messages if isinstance(message, Written)]
    count = scattered([outcome.keys for outcome in outcomes])
    if count:
        raise ConfigError(
            f"rows of a key were in several partitions ({count} keys at least). Partitions are"
            " sent in parallel, so all rows are stored, but not in order. Write with"
            " orderly.spark.sink.write_ordered (in a stream: ordered_batches), or repartition by"
            " the key first"
        )
    _log.info(
        "sink.written",
        topic=plan.topic,
        tasks=len(outcomes),
        messages=sum(outcome.sent.rows for outcome in outcomes),
        maybe_twice=sum(outcome.sent.doubtful for outcome in outcomes),
        weakly_stored=sum(outcome.sent.weak for outcome in outcomes),
    )


def _log_abort(plan: WritePlan, batch_id: int | None) -> None:
    _log.warning(
        "sink.aborted",
        topic=plan.topic,
        batch_id=batch_id,
        hint="acknowledged messages stay in the topic; after another write they are there"
        " twice, each with the same ORDERLY_ID",
    )
