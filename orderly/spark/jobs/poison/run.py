"""The poison job: what a group parked and gave up, by what failed alike, over time, for which keys.

It reads the topics beside the members: no commit, no lock, no message taken away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from orderly.client import Client
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.namespace import DEAD_PREFIX
from orderly.spark.connecting import access_of
from orderly.spark.discovering import pin
from orderly.spark.jobs.origin import origin
from orderly.spark.jobs.output import Output
from orderly.spark.jobs.poison import cases, originals, tables
from orderly.spark.jobs.poison.asking import Holdings, consumed, holdings
from orderly.spark.jobs.poison.commands import script
from orderly.spark.jobs.poison.report import report
from orderly.spark.jobs.poison.result import Cluster, KeyRow, PoisonResult, Totals
from orderly.spark.jobs.progress import Progress, silent
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.options.parsing import parse
from orderly.spark.source import read

_MOST_CLUSTERS, _MOST_KEYS, _MOST_COMMANDS, _PIECES = 1000, 200, 20_000, 96
_HOUR, _DAY = 3600, 86400
_FEW_KEYS = 500


@dataclass(frozen=True, slots=True)
class PoisonSettings:
    """What to look at.

    Args:
        group: the consumer group, as the broker names it.
        access: options of the source that say how to reach the brokers.
        search: whether to look in the source topics for what dead letters were, and what their
            keys did since; that reads these topics once.
        bodies: whether to keep a body of each cluster, for the report.
        redact: whether results show hashes instead of keys; samples and commands are left out.
    """

    group: str
    access: Mapping[str, str]
    search: bool = True
    bodies: bool = False
    redact: bool = False


def run(
    spark: SparkSession,
    settings: PoisonSettings,
    output: Output | None = None,
    progress: Progress = silent,
) -> PoisonResult:
    """Look at what a group has set aside.

    Args:
        spark: the session.
        settings: which group.
        output: for the tables, the report, and the commands that replay what waits.
        progress: told of each step.

    Raises:
        OrderlyError: no name server answers, or dead letters may not be read.
    """
    access = access_of(parse({**settings.access, "topic": DEAD_PREFIX + settings.group}))
    with closing(access.client()) as client:
        with progress("asking the brokers"):
            held = holdings(client, settings.group)
            pinned = _pin(settings, held, client)
        if any(span.messages for span in pinned):
            messages, unreadable = _messages(spark, settings, held, pinned, progress)
            messages = _with_originals(settings, messages, client, progress)
            if settings.redact:
                messages = tables.redacted(messages)
            with progress("searching originals and adding up"):
                result = _result(settings, held, pinned, messages, unreadable)
        else:
            totals = Totals(parked_keys=held.parked_keys)
            result = PoisonResult(settings.group, totals, unknown=_unknown(held), pinned=pinned)
    options = {**settings.access, "group": settings.group, "search": settings.search}
    made_from = origin("poison", result.pinned, options)
    document = made_from.document(result.verdict, result.figures())
    if output is not None:
        with progress("writing"):
            _leave(result, output)
            output.finish(document, report(made_from, result))
    return replace(result, document=document)


def _pin(settings: PoisonSettings, held: Holdings, client: Client) -> tuple[QueueRange, ...]:
    if not held.topics:
        return ()
    return pin({**settings.access, "topics": ",".join(held.topics)}, client)


# --- reading -------------------------------------------------------------------------------------


def _messages(
    spark: SparkSession,
    settings: PoisonSettings,
    held: Holdings,
    pinned: Sequence[QueueRange],
    progress: Progress,
) -> tuple[DataFrame, int]:
    """One row a message, kept in memory; and how many stored ones could not be read."""
    group, bodies = settings.group, settings.bodies

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return cases.cases(batches, group, bodies=bodies)

    spans = [span for span in pinned if span.messages]
    stored = read(spark, spans, columns=cases.COLUMNS, **settings.access)
    read_once = stored.mapInArrow(decode, from_arrow_schema(cases.SCHEMA)).persist(
        StorageLevel.MEMORY_AND_DISK
    )
    with progress("reading what is parked and dead"):
        unreadable = read_once.where(f"kind = '{cases.CaseKind.UNREADABLE}'").count()
    unknown = [queue for queue, _ in held.unknown]
    return tables.judged(tables.once(read_once), held.parked, unknown), unreadable


def _with_originals(
    settings: PoisonSettings, messages: DataFrame, client: Client, progress: Progress
) -> DataFrame:
    if not settings.search:
        return originals.without_originals(messages)
    letters = messages.where("kind = 'dead' AND key IS NOT NULL AND topic IS NOT NULL")
    keys = letters.select("topic", "key").distinct()
    few = keys.limit(_FEW_KEYS + 1).collect()
    found = few if len(few) <= _FEW_KEYS else keys.select("topic").distinct().collect()
    present = sorted({row.topic for row in found} & set(client.admin.topics()))
    if not present:
        return originals.without_originals(messages)
    spans = pin({**settings.access, "topics": ",".join(present)}, client)
    spans = tuple(span for span in spans if span.messages)
    if not spans:
        return originals.without_originals(messages)
    with progress("asking what was consumed"):
        committed = consumed(client, settings.group, present)
    # What expires while it is searched is no matter: then it is not found.
    options = {**settings.access, "failOnDataLoss": "false", "pushdown": "true"}
    sources = read(messages.sparkSession, spans, columns=originals.COLUMNS, **options)
    if len(few) <= _FEW_KEYS:  # workers look for so many themselves
        sources = sources.where(sf.col("sharding_key").isin([row.key for row in few]))
    return originals.with_originals(messages, sources, committed)


# --- adding up -----------------------------------------------------------------------------------


def _result(
    settings: PoisonSettings,
    held: Holdings,
    pinned: tuple[QueueRange, ...],
    messages: DataFrame,
    unreadable: int,
) -> PoisonResult:
    messages = messages.persist(StorageLevel.MEMORY_AND_DISK)
    row = messages.agg(*_sums()).first()
    assert row is not None
    sums = row.asDict()
    piece = piece_of(sums.pop("first"), sums.pop("last"))
    found = {
        "clusters": tables.clusters(messages),
        "trend": tables.trend(messages, piece),
        "keys": tables.keys(messages),
        "replay_list": tables.replay_list(messages),
    }
    keys = found["keys"]
    of_keys = keys.agg(
        sf.count("*").alias("keys"),
        sf.count_if(sf.col("went_on") > 0).alias("went_on_keys"),
    ).first()
    assert of_keys is not None
    totals = Totals(**sums, **of_keys.asDict(), parked_keys=held.parked_keys, unreadable=unreadable)
    return PoisonResult(
        settings.group,
        totals,
        tuple(map(_cluster, found["clusters"].limit(_MOST_CLUSTERS).collect())),
        tuple(map(_key, keys.limit(_MOST_KEYS).collect())),
        _trend(found["trend"]),
        piece,
        "" if settings.redact else _script(settings.group, found["replay_list"], totals),
        _unknown(held),
        pinned,
        found,
    )


def piece_of(first: int | None, last: int | None) -> int:
    """Seconds of one point of the trend, from the first case to the last; None: there is none."""
    if first is None or last is None or last - first <= _PIECES * _HOUR:
        return _HOUR
    return _DAY


def _sums() -> list[Any]:
    behind, dead = sf.col("kind") == "behind", sf.col("kind") == "dead"
    return [
        sf.min(sf.unix_seconds("at")).alias("first"),
        sf.max(sf.unix_seconds("at")).alias("last"),
        sf.count_if(~behind).alias("failed"),
        sf.count_if(behind).alias("behind"),
        sf.count_if(sf.col("status") == tables.WAITING).alias("waiting"),
        sf.count_if(dead).alias("dead"),
        sf.count_if(dead & sf.col("later").isNull()).alias("unplaced"),
        sf.count_distinct("cluster").alias("ways"),
    ]


def _cluster(row: Row) -> Cluster:
    told = row.asDict()
    return Cluster(id=told.pop("cluster"), **_timed(told))


def _key(row: Row) -> KeyRow:
    told = row.asDict()
    told.pop("next")
    return KeyRow(**_timed(told))


def _timed(fields: dict[str, Any]) -> dict[str, Any]:
    for name in ("first_at", "last_at"):
        fields[name] = None if fields[name] is None else fields[name].timestamp()
    return fields


def _trend(counts: DataFrame) -> dict[str, tuple[tuple[float, int], ...]]:
    found: dict[str, list[tuple[float, int]]] = {}
    for row in counts.collect():
        found.setdefault(row.cluster, []).append((row["at"].timestamp(), row.messages))
    return {cluster: tuple(points) for cluster, points in found.items()}


def _script(group: str, due: DataFrame, totals: Totals) -> str:
    rows = due.orderBy("at", "stored_offset").limit(_MOST_COMMANDS).collect()
    waiting = [row for row in rows if row.status == tables.WAITING]
    parked = list(dict.fromkeys((row.topic, row.key, row.key_is_int) for row in waiting))
    letters = [row.message_id for row in rows if row.status == tables.GIVEN_UP]
    left_out = (totals.parked_keys - len(parked), totals.dead - len(letters))
    return script(group, parked, letters, *left_out)


def _unknown(held: Holdings) -> tuple[tuple[str, str], ...]:
    def told(pair: tuple[MessageQueue, OrderlyError]) -> tuple[str, str]:
        return str(pair[0]), str(pair[1])

    return tuple(map(told, held.unknown))


def _leave(result: PoisonResult, output: Output) -> None:
    for name, frame in result.tables.items():
        output.table(name, frame)
    if result.script:
        output.text("commands.sh", result.script)
