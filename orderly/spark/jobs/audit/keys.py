"""One row for each key, from its rows for each queue; and which keys need a second look.

A key whose numbers rise one by one in each of its queues, and from queue to queue in the order of
storing, is in order: that is certain without looking at its messages. All others are suspects.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody does

from orderly.spark.jobs.audit.merging import JUMP, SAME_SEQ, SAME_UNIQ

_KEYS = """
WITH placed AS (
  SELECT *,
    max(last_store_ts) OVER earlier AS left_at,
    last_value(CASE WHEN judged > 0 THEN struct(last_seq AS seq, last_uniq AS uniq) END)
        IGNORE NULLS OVER earlier AS before
  FROM {parts}
  WHERE key IS NOT NULL
  WINDOW earlier AS (
    PARTITION BY topic, key ORDER BY first_store_ts, last_store_ts, broker, queue_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT
  topic, key,
  sum(n) AS messages,
  sum(judged) AS judged,
  count(*) AS queues,
  coalesce(bool_or(first_store_ts < left_at), false) AS mixed,
  coalesce(bool_or(first_store_ts = left_at), false) AS tied,
  min(first_store_ts) AS first_store_ts,
  max(last_store_ts) AS last_store_ts,
  min(min_seq) AS min_seq,
  max(max_seq) AS max_seq,
  sum(falls) AS falls,
  count_if(first_seq < before.seq) AS falls_between,
  sum(repeats) + count_if(<same>) AS same,
  sum(jumps) + count_if(<jump>) AS jumps
FROM placed
GROUP BY topic, key
"""


def keys_of(parts: DataFrame, *, by_seq: bool, gaps: bool) -> DataFrame:
    """Judge each key by its summaries.

    Args:
        parts: of `merged`.
        by_seq: as there.
        gaps: whether numbers that are left out count.

    Returns:
        A row for each key: messages, judged, queues, mixed (it was in one queue, then in another,
        then in the first again), falls (neighbours in a queue, the later number lower),
        falls_between (from one queue to the next), same (neighbours that are the same), jumps,
        suspect (whether its messages must be looked at).
    """
    query = _KEYS.replace("<same>", SAME_SEQ if by_seq else SAME_UNIQ)
    query = query.replace("<jump>", JUMP if by_seq else "false")
    keys = parts.sparkSession.sql(query, parts=parts)
    wrong = F.col("falls") + F.col("falls_between") + F.col("same")
    counted = wrong + F.col("jumps") if gaps else wrong
    # Of equal times the summaries can't tell which came first.
    suspect = F.col("mixed") | F.col("tied") | (counted > 0)
    return keys.withColumn("suspect", suspect).drop("tied")


def worst(keys: DataFrame, most: int, messages: int) -> DataFrame:
    """The suspects to look at: (topic, key), those with the most falls first.

    Args:
        keys: of `keys_of`.
        most: how many.
        messages: keys with more are left out.
    """
    order = (
        (F.col("falls") + F.col("falls_between")).desc(),
        (F.col("same") + F.col("jumps")).desc(),
        F.col("messages").desc(),
        "topic",
        "key",
    )
    return (
        keys.where("suspect")
        .where(F.col("messages") <= messages)
        .orderBy(*order)
        .limit(most)
        .select("topic", "key")
    )
