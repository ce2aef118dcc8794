"""From Spark's tables to the few figures and rows that a verdict and a report are made of."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody does

from orderly.spark.jobs.audit.figures import Figures

_KINDS = {"inversion": "inversions", "across": "across", "repeat": "repeats", "gap": "gaps"}
# What the summaries count of a suspect that was not looked at.
_INEXACT = {"inversions": "falls", "across": "falls_between", "repeats": "same", "gaps": "jumps"}


@dataclass(frozen=True, slots=True)
class Tables:
    """What an audit found, as DataFrames.

    Attributes:
        keys: a row for each key.
        evidence: a row for each thing that is wrong; see `evidence.evidence`.
        queues: a row for each queue with messages.
        losses: a row for each queue with offsets that were gone.
    """

    keys: DataFrame
    evidence: DataFrame
    queues: DataFrame
    losses: DataFrame


def judged_keys(
    keys: DataFrame, looked_at: DataFrame, found: DataFrame, *, gaps: bool
) -> DataFrame:
    """Each key with what is wrong with it.

    Args:
        keys: of `keys_of`.
        looked_at: (topic, key) of the suspects that `found` covers.
        found: evidence.
        gaps: whether gaps are looked for.

    Returns:
        Rows of `keys`, and for each: inversions, across, repeats, resent, gaps, missing, exact
        (False: a suspect that was not looked at), wrong.
    """
    by = ("topic", "key")
    counts = found.groupBy(*by).agg(
        *(F.count_if(F.col("kind") == kind).alias(name) for kind, name in _KINDS.items()),
        F.count_if("same_id").alias("resent"),
        _bounded(F.sum(F.when(F.col("kind") == "gap", _wide("distance")))).alias("missing"),
    )
    looked_at = looked_at.withColumn("_looked_at", F.lit(True))
    rows = keys.join(F.broadcast(looked_at), [*by], "left").join(F.broadcast(counts), [*by], "left")
    exact = ~F.col("suspect") | F.coalesce("_looked_at", F.lit(False))
    rows = rows.withColumn("exact", exact)
    rows = rows.withColumns(
        {name: _counted(name, gaps=gaps) for name in _INEXACT}
        | {name: F.coalesce(F.col(name).cast("bigint"), F.lit(0)) for name in ("resent", "missing")}
    )
    wrong = sum((F.col(name) for name in _INEXACT), F.lit(0)) > 0
    return rows.withColumn("wrong", wrong | F.col("mixed")).drop("_looked_at", "suspect")


def _wide(name: str) -> Column:
    """A number of which a sum can't run over."""
    return F.col(name).cast("decimal(38,0)")


def _bounded(number: Column) -> Column:
    """The number, or the greatest there is; 0 for null, which `least` would pass over."""
    most = F.lit(2**63 - 1).cast("decimal(38,0)")
    return F.least(F.coalesce(number, F.lit(0)), most).cast("bigint")


def _counted(name: str, *, gaps: bool) -> Column:
    """The evidence's count; of a suspect that was not looked at the summaries'."""
    rough = F.lit(0) if name == "gaps" and not gaps else F.col(_INEXACT[name])
    return F.when(F.col("exact"), F.coalesce(F.col(name), F.lit(0))).otherwise(rough)


def by_queue(parts: DataFrame, found: DataFrame) -> DataFrame:
    """A row for each queue: messages, keyless, unnumbered, keys, and evidence by kind."""
    by = ("topic", "broker", "queue_id")
    keyed = F.col("key").isNotNull()
    counts = (
        parts.where("lost = 0")
        .groupBy(*by)
        .agg(
            F.sum("n").alias("messages"),
            F.sum(F.when(keyed, 0).otherwise(F.col("n"))).alias("keyless"),
            F.sum(F.when(keyed, F.col("n") - F.col("judged")).otherwise(0)).alias("unnumbered"),
            F.count_if(keyed).alias("keys"),
        )
    )
    place = found.select("topic", "kind", "message.broker", "message.queue_id")
    kinds = place.groupBy(*by).agg(
        *(F.count_if(F.col("kind") == kind).alias(name) for kind, name in _KINDS.items())
    )
    return counts.join(F.broadcast(kinds), [*by], "left").fillna(0, [*_KINDS.values()])


def losses_of(parts: DataFrame) -> DataFrame:
    """A row for each queue of which offsets were gone."""
    lost = parts.where("lost > 0")
    return lost.select("topic", "broker", "queue_id", "first_offset", "last_offset", "lost")


def figures_of(tables: Tables) -> Figures:
    """Add up the tables."""
    queues = _one(
        tables.queues, messages="sum(messages)", keyless="sum(keyless)",
        unnumbered="sum(unnumbered)",
    )  # fmt: skip
    keys = _one(
        tables.keys, keys="count(*)", judged="sum(judged)", moved="count_if(queues > 1)",
        mixed="count_if(mixed)", wrong="count_if(wrong)", inversions="sum(inversions)",
        across="sum(across)", repeats="sum(repeats)", resent="sum(resent)", gaps="sum(gaps)",
        missing="sum(cast(missing AS decimal(38, 0)))", leaping="count_if(jumps > 0)",
        inexact="count_if(not exact)",
    )  # fmt: skip
    lost = _one(tables.losses, lost="sum(lost)")
    return Figures(**queues, **keys, **lost)


def _one(rows: DataFrame, **sums: str) -> dict[str, int]:
    (row,) = rows.select(*(F.expr(text).alias(name) for name, text in sums.items())).collect()
    return {name: int(value or 0) for name, value in row.asDict().items()}
