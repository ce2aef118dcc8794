"""A batch of new summaries, folded into the state on disk: by bucket, and once however often."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody does

from orderly.spark.jobs.audit.keys import keys_of
from orderly.spark.jobs.audit.merging import merged
from orderly.spark.jobs.audit.reading import shown
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.audit.state import (
    BUCKETS,
    CHECKPOINT,
    PARTS,
    State,
    check_not_lost,
    check_same,
    judged,
    load,
    save,
    sweep,
)
from orderly.spark.jobs.files import Files


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that counts now.

    Attributes:
        number: of the batch.
        messages: in it.
        suspects: keys with something wrong, as far as summaries tell; of the buckets that the
            batch touched, so maybe from earlier batches.
    """

    number: int
    messages: int
    suspects: int


@dataclass(frozen=True, slots=True)
class Folding:
    """Takes the batches of one query.

    Attributes:
        files: of the directory.
        settings: of the audit.
        watch: called with each batch that counts; None: nobody is, which spares reading the state
            once more for it.
    """

    files: Files
    settings: AuditSettings
    watch: Callable[[Batch], None] | None

    def take(self, new: DataFrame, batch: int) -> None:
        """Fold a batch in, unless it counts already.

        Args:
            new: summaries.
            batch: Spark's number of it; a batch that is run again has the same.

        Raises:
            ConfigError: the directory holds the state of something else, or has lost its own.
        """
        query = query_of(self.files)
        state = load(self.files)
        if state is None:
            check_not_lost(self.files, batch)
            state = State(query, judged(self.settings))
        check_same(self.files, state, query, self.settings)
        if state.batch >= batch:
            return
        rows = shown(new, "key", self.settings).withColumn("bucket", _bucket()).persist()
        try:
            self._fold(rows, state, batch)
        finally:
            rows.unpersist()

    def _fold(self, rows: DataFrame, state: State, batch: int) -> None:
        counts = rows.groupBy("bucket").agg(F.sum("n").alias("n")).collect()
        if not counts:
            return
        touched = sorted(row.bucket for row in counts)
        after = state.after(batch, touched)
        self._write(rows.drop("bucket"), touched, state, after)
        save(self.files, after)
        sweep(self.files, after)
        if self.watch is not None:
            self.watch(self._seen(rows.sparkSession, after, touched, sum(row.n for row in counts)))

    def _write(self, new: DataFrame, touched: Sequence[int], state: State, after: State) -> None:
        """Write these buckets with the new rows folded in."""
        known = [bucket for bucket in touched if bucket in state.buckets]
        if known:
            new = new.unionByName(rows_of(new.sparkSession, self.files, state, known))
        folded = merged(new, by_seq=self.settings.by_seq).withColumn("bucket", _bucket())
        by_bucket = folded.repartition(len(touched), "bucket")
        folder = f"{self.files.root}/{PARTS}/batch={after.batch}"
        by_bucket.write.mode("overwrite").partitionBy("bucket").parquet(folder)

    def _seen(
        self, spark: SparkSession, state: State, touched: Sequence[int], messages: int
    ) -> Batch:
        parts = rows_of(spark, self.files, state, touched)
        gaps = self.settings.judges_gaps
        keys = keys_of(parts, by_seq=self.settings.by_seq, gaps=gaps)
        suspects = keys.where("suspect").count()
        return Batch(state.batch, messages, suspects)


def known(files: Files, settings: AuditSettings) -> State | None:
    """The state in a directory; None: there is none yet.

    Raises:
        ConfigError: it is the state of something else.
    """
    state = load(files)
    if state is not None:
        check_same(files, state, query_of(files), settings)
    return state


def query_of(files: Files) -> str:
    """The id that Spark gave the checkpoint; "" before the first run."""
    text = files.read(f"{CHECKPOINT}/metadata")
    return str(json.loads(text)["id"]) if text else ""


def rows_of(spark: SparkSession, files: Files, state: State, buckets: Sequence[int]) -> DataFrame:
    """What the state knows, in these buckets."""
    return spark.read.parquet(*(f"{files.root}/{state.folder(bucket)}" for bucket in buckets))


def _bucket() -> Column:
    return F.pmod(F.xxhash64("topic", "key"), F.lit(BUCKETS)).cast("int")
