"""Where dead letters came from, and what of their keys was consumed behind them.

A dead letter keeps its sender's id and not its place. So the source topic is searched for the id;
from there on its key's later messages are counted. What has expired there is not known.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from orderly.model import MessageQueue

COLUMNS = ("topic", "broker", "queue_id", "queue_offset", "sharding_key", "uniq_key", "store_ts")
"""Of the source topics, which are needed."""
_LETTER = ("topic", "key", "message_id")
_PLACE = ("broker", "queue_id", "queue_offset", "origin_ts")


def with_originals(
    messages: DataFrame, sources: DataFrame, committed: Mapping[MessageQueue, int]
) -> DataFrame:
    """Give dead letters their place, `later` and `went_on`; null: not known.

    Args:
        messages: one row each; of dead letters the place is not known yet.
        sources: the messages of the source topics, with COLUMNS.
        committed: what the group has committed there.

    Returns:
        The same rows. `later`: messages of the key behind it in its queue; `went_on`: those of
        them that the group has consumed, so that the key's order is broken.
    """
    letters = messages.where(_is_letter()).select(*_LETTER)
    keys = letters.select("topic", "key").distinct()
    of_keys = sources.withColumnRenamed("sharding_key", "key").join(
        sf.broadcast(keys), ["topic", "key"], "left_semi"
    )
    of_keys = of_keys.persist(StorageLevel.MEMORY_AND_DISK)  # the topics are read once
    origins = _originals(of_keys, letters)
    found = origins.join(_behind(of_keys, origins, committed), [*_LETTER], "left")
    told = [sf.col(name).alias(f"_{name}") for name in _PLACE]
    joined = messages.join(found.select(*_LETTER, *told, "later", "went_on"), [*_LETTER], "left")
    places = {
        name: sf.when(_is_letter(), sf.col(f"_{name}")).otherwise(sf.col(name)) for name in _PLACE
    }
    counts = {
        name: sf.when(
            _is_letter() & sf.col("_queue_offset").isNotNull(), sf.coalesce(name, sf.lit(0))
        )
        for name in ("later", "went_on")
    }
    return joined.withColumns({**places, **counts}).drop(*(f"_{name}" for name in _PLACE))


def without_originals(messages: DataFrame) -> DataFrame:
    """The same columns where no source topic is searched."""
    nothing = sf.lit(None).cast("bigint")
    return messages.withColumns({"later": nothing, "went_on": nothing})


def _is_letter() -> Column:
    return (sf.col("kind") == "dead") & sf.col("key").isNotNull()


def _originals(of_keys: DataFrame, letters: DataFrame) -> DataFrame:
    """The first stored copy of each: a send that was tried again may have left two."""
    place = sf.struct(sf.col("store_ts").alias("origin_ts"), "broker", "queue_id", "queue_offset")
    named = of_keys.withColumnRenamed("uniq_key", "message_id")
    copies = named.join(sf.broadcast(letters), [*_LETTER])
    return copies.groupBy(*_LETTER).agg(sf.min(place).alias("at")).select(*_LETTER, "at.*")


def _behind(
    of_keys: DataFrame, origins: DataFrame, committed: Mapping[MessageQueue, int]
) -> DataFrame:
    firsts = origins.select(*_LETTER, "broker", "queue_id", sf.col("queue_offset").alias("origin"))
    behind = (
        of_keys.join(sf.broadcast(firsts), ["topic", "key", "broker", "queue_id"])
        .where(sf.col("queue_offset") > sf.col("origin"))
        .where(sf.col("uniq_key").isNull() | (sf.col("uniq_key") != sf.col("message_id")))
    )
    return behind.groupBy(*_LETTER).agg(
        sf.count("*").alias("later"),
        sf.count_if(sf.col("queue_offset") < _committed(committed)).alias("went_on"),
    )


def _committed(offsets: Mapping[MessageQueue, int]) -> Column:
    """Of a row's queue; 0: nothing."""
    pairs = [sf.lit(part) for queue, at in offsets.items() for part in (str(queue), at)]
    if not pairs:
        return sf.lit(0)
    queue = sf.concat_ws("/", "topic", "broker", "queue_id")
    return sf.coalesce(sf.create_map(*pairs)[queue], sf.lit(0))
