"""Summaries of chunks become one row for each key and queue. The same sum as `summary.combining`.

Only summaries are sorted here, never messages: a key with half of all messages has a row for
each chunk, and costs no more than any other.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

_BEFORE = """
    last_value(CASE WHEN judged > 0 THEN struct(last_seq AS seq, last_uniq AS uniq) END)
        IGNORE NULLS OVER earlier AS before"""

SAME_SEQ = "first_seq = before.seq"
SAME_UNIQ = "first_uniq = before.uniq"
JUMP = "CASE WHEN first_seq > before.seq THEN first_seq - 1 > before.seq END"  # -1 can't run over

_MERGED = f"""
WITH chunks AS (
  SELECT *, {_BEFORE}
  FROM {{summaries}}
  WINDOW earlier AS (
    PARTITION BY topic, broker, queue_id, key, lost > 0 ORDER BY first_offset
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT
  topic, broker, queue_id, key,
  sum(n) AS n,
  sum(judged) AS judged,
  min(first_offset) AS first_offset,
  max(last_offset) AS last_offset,
  min_by(first_store_ts, first_offset) AS first_store_ts,
  max_by(last_store_ts, last_offset) AS last_store_ts,
  min_by(first_seq, first_offset) FILTER (WHERE judged > 0) AS first_seq,
  max_by(last_seq, last_offset) FILTER (WHERE judged > 0) AS last_seq,
  min(min_seq) AS min_seq,
  max(max_seq) AS max_seq,
  sum(falls) + count_if(first_seq < before.seq) AS falls,
  sum(repeats) + count_if({{same}}) AS repeats,
  sum(jumps) + count_if({{jump}}) AS jumps,
  min_by(first_uniq, first_offset) FILTER (WHERE judged > 0) AS first_uniq,
  max_by(last_uniq, last_offset) FILTER (WHERE judged > 0) AS last_uniq,
  sum(lost) AS lost
FROM chunks
GROUP BY topic, broker, queue_id, key, lost > 0
"""  # noqa: S608  no text from outside


def merged(summaries: DataFrame, *, by_seq: bool) -> DataFrame:
    """Fold summaries: one row for each key and queue, and one for each queue's losses.

    Args:
        summaries: columns of summary.SCHEMA; no two of a key and queue overlap.
        by_seq: whether numbers were judged, so that equal ones are the same message.

    Returns:
        Rows with the same columns.
    """
    query = _MERGED.format(
        summaries="{summaries}",
        same=SAME_SEQ if by_seq else SAME_UNIQ,
        jump=JUMP if by_seq else "false",
    )
    return summaries.sparkSession.sql(query, summaries=summaries)
