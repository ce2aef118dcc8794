"""Which messages of the table have their copy in a topic, told by the id that each carries.

So a replay that broke off goes on exactly where it stopped, whatever it had sent: the topic itself
is the record. It must still hold what was sent; what expired meanwhile would be sent again.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from orderly.model import MessageQueue
from orderly.spark.discovering import pin
from orderly.spark.jobs.replay.selection import PLACE
from orderly.spark.offsets.text import dumps
from orderly.spark.source import read
from orderly.spark.stamps import ID


def copies(
    spark: SparkSession,
    access: Mapping[str, str],
    topic: str,
    starts: Mapping[MessageQueue, int],
) -> DataFrame:
    """The copies in a topic that were stored since it ended at `starts`: `place` and `copies`.

    Args:
        spark: the session.
        access: options of the source that say how to reach the brokers.
        topic: which one.
        starts: by queue.

    Raises:
        DataLost: they have expired: what was sent cannot be told any more.
    """
    options = {**access, "topic": topic, "startingOffsets": dumps(starts)}
    found = [span for span in pin(options) if span.messages]
    if not found:
        return spark.createDataFrame([], f"{PLACE} string, copies bigint")
    stored = read(spark, found, columns=("properties",), **access)
    ids = stored.select(sf.col("properties")[ID].alias(PLACE)).where(sf.col(PLACE).isNotNull())
    return ids.groupBy(PLACE).agg(sf.count("*").alias("copies"))
