"""The judgement: every key by its summaries, suspects by their messages, and all of it counted.

Spark brings together what belongs to a key, and each part is judged at once (`merging`,
`evidence`): few jobs, for each costs as much as a hundred thousand messages. What is small comes
to the driver as notes, pickled tables beside the rows of a part.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody does
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StructType

from orderly.model import MessageQueue
from orderly.spark.columns import arrow_schema
from orderly.spark.jobs.audit.evidence import EVIDENCE, KINDS, Spans, look_at, message_columns
from orderly.spark.jobs.audit.figures import AuditFigures
from orderly.spark.jobs.audit.merging import KEYS, add_up, merge, spans_of, worst
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.progress import Progress
from orderly.spark.offsets import QueueRange
from orderly.spark.summary import SCHEMA

Messages = Callable[[pa.Table, Sequence[QueueRange]], DataFrame]
"""Reads messages again, columns `message_columns`: those of the suspects (topic, key) at least,
which lie in these ranges."""

_Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
SPANS = 40  # of the time that suspects have messages of
_KEPT = pyspark.StorageLevel.MEMORY_AND_DISK
_AT_ONCE = 250_000  # rows of a part: what a worker's memory is sized for
_NOTED = 1_000  # suspects of a part that are noted; of more Spark makes a choice
_KEY = ("topic", "key")
_QUEUE = ("topic", "broker", "queue_id")


@dataclass(frozen=True, slots=True)
class AuditTables:
    """What an audit found.

    Attributes:
        keys: a DataFrame: each key (see KEYS in `merging`) with inversions, across, repeats,
            resent, repeated_sends, gaps, missing, exact (False: a suspect that was not looked at),
            wrong.
        evidence: a DataFrame: each thing that is wrong (EVIDENCE in `evidence`).
        queues: each queue with messages: messages, keyless, unnumbered, keys, evidence by kind.
        losses: each queue of which offsets were gone.
    """

    keys: DataFrame
    evidence: DataFrame
    queues: pa.Table
    losses: pa.Table


@dataclass(frozen=True, slots=True)
class AuditJudgement:
    """What was found.

    Attributes:
        figures: counted.
        tables: in full.
        times: start (milliseconds), kind, count of evidence; a row for each span with any.
        span: the length of a span, milliseconds.
        pictures: messages of keys that may be drawn, by part.
    """

    figures: AuditFigures
    tables: AuditTables
    times: pa.Table | None = None
    span: int = 1
    pictures: Sequence[pa.Table] = ()


def judge(
    summaries: DataFrame,
    messages: Messages,
    settings: AuditSettings,
    progress: Progress,
    expected: int = 0,
) -> AuditJudgement:
    """Find what is wrong.

    Args:
        summaries: columns of `orderly.spark.summary.SCHEMA`; no two of a key and queue overlap.
        messages: called once if there are suspects.
        settings: of the audit.
        progress: shows the steps.
        expected: how many messages there are, about; decides into how many parts keys are divided.
    """
    merging = partial(
        _merged_part,
        by_seq=settings.by_seq,
        gaps=settings.judges_gaps,
        look_at_messages=settings.look_at_messages,
    )
    merged = _parts_by_key(summaries, merging, KEYS, expected).persist(_KEPT)
    keys = merged.where("notes IS NULL").drop("notes")
    with progress("judging every key"):
        notes = _Notes(merged, merging)
        suspects = _suspects(notes, keys, settings)
    queues, losses = add_up(notes.table("queues")), spans_of(notes.tables("losses"))
    totals = _Totals.of(notes.table("totals"))
    ranges = _ranges(spans_of(notes.tables("ranges"))) if suspects.num_rows else []
    if not ranges:
        tables = AuditTables(
            _not_looked_at(keys, gaps=settings.judges_gaps),
            keys.sparkSession.createDataFrame([], from_arrow_schema(EVIDENCE)),
            _with_kinds(queues, None),
            losses,
        )
        rough = _of_suspects(totals, None, gaps=settings.judges_gaps)
        return AuditJudgement(_figures(tables, totals, rough), tables)
    spans = _spans(suspects)
    looking = partial(
        _looked_at_part,
        suspects=suspects.select(_KEY),
        spans=spans,
        by_seq=settings.by_seq,
        gaps=settings.judges_gaps,
    )
    again = messages(suspects.select(_KEY), ranges)
    size = _sum(suspects, "messages")
    found = _parts_by_key(again, looking, EVIDENCE, size, key="sharding_key").persist(_KEPT)
    with progress("looking at suspects"):
        seen = _Notes(found, looking)
    exact = _exact(seen.table("keys"), suspects)
    tables = AuditTables(
        _looked_at(keys, exact, gaps=settings.judges_gaps),
        found.where("notes IS NULL").drop("notes"),
        _with_kinds(queues, add_up(seen.table("queues"))),
        losses,
    )
    counts = _of_suspects(totals, (suspects, exact), gaps=settings.judges_gaps)
    figures = _figures(tables, totals, counts)
    times = add_up(seen.table("times"), ("start", "kind"))
    return AuditJudgement(figures, tables, times, spans.length, seen.tables("pictures"))


# --- parts: what belongs to some keys, judged by one task -----------------------------------------


def _parts_by_key(
    rows: DataFrame,
    work: _Work,
    schema: pa.Schema,
    expected: int,
    key: str = "key",
) -> DataFrame:
    """Rows of `schema` and notes: what `work` makes of all rows of some keys."""
    cores = rows.sparkSession.sparkContext.defaultParallelism
    parts = max(cores, -(-expected // _AT_ONCE))
    whole = StructType(from_arrow_schema(schema).fields).add("notes", BinaryType())
    return rows.repartition(parts, "topic", key).mapInArrow(work, whole)


def _merged_part(batches: Iterable[pa.RecordBatch], **how: Any) -> Iterator[pa.RecordBatch]:
    found = merge(_together(batches, SCHEMA), **how)
    suspects = found.keys.filter(found.keys["suspect"])
    notes = {
        "queues": found.queues,
        "losses": found.losses,
        "ranges": found.ranges,
        "totals": _totals(found.keys, gaps=how["gaps"]),
        "suspects": suspects if suspects.num_rows <= _NOTED else None,
    }
    yield from _with_notes(found.keys, notes)


def _looked_at_part(
    batches: Iterable[pa.RecordBatch], suspects: pa.Table, spans: Spans, **how: Any
) -> Iterator[pa.RecordBatch]:
    names = message_columns(by_seq=how["by_seq"])
    messages = _together(batches, arrow_schema(names)).rename_columns({"sharding_key": "key"})
    found = look_at(messages, suspects, spans, **how)
    notes = {name: getattr(found, name) for name in ("keys", "queues", "times", "pictures")}
    yield from _with_notes(found.lines, notes)


def _together(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The rows of a part, of none, too; types are Spark's, which knows other names of zones."""
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    tables = [pa.table(batch.columns, schema.names).cast(nullable) for batch in batches]
    return pa.concat_tables([*tables, nullable.empty_table()])


def _with_notes(rows: pa.Table, notes: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """The rows, and a row more that has only notes."""
    schema = rows.schema.append(pa.field("notes", pa.binary()))
    plain = rows.append_column(schema.field("notes"), pa.nulls(rows.num_rows, pa.binary()))
    yield from plain.to_batches()
    columns = [pa.nulls(1, field.type) for field in rows.schema]
    columns.append(pa.array([pickle.dumps(notes)], pa.binary()))
    yield pa.RecordBatch.from_arrays(columns, schema=schema)


class _Notes:
    """The notes of all parts, fetched; and of a part without rows, since there may be none."""

    def __init__(self, rows: DataFrame, work: _Work) -> None:
        found = [row.notes for row in rows.where("notes IS NOT NULL").select("notes").collect()]
        *_, empty = work([])
        found.append(empty["notes"][-1].as_py())
        self._parts = [pickle.loads(each) for each in found]  # noqa: S301  of our own tasks

    def tables(self, name: str) -> list[Any]:
        """The table of that name of each part."""
        return [part[name] for part in self._parts]

    def table(self, name: str) -> pa.Table:
        """Those of all parts, one after the other."""
        return pa.concat_tables(self.tables(name))


# --- suspects -------------------------------------------------------------------------------------


def _suspects(notes: _Notes, keys: DataFrame, settings: AuditSettings) -> pa.Table:
    """The suspects to look at: rows of KEYS."""
    noted = notes.tables("suspects")
    limits = (settings.look_at, settings.look_at_messages)
    if all(table is not None for table in noted):
        return worst(pa.concat_tables(noted), *limits)
    order = (
        (F.col("falls") + F.col("falls_between")).desc(),
        (F.col("same") + F.col("jumps")).desc(),
        F.col("messages").desc(),
        *_KEY,
    )
    fit = keys.where("suspect").where(F.col("messages") <= settings.look_at_messages)
    return fit.orderBy(*order).limit(settings.look_at).toArrow()


def _ranges(rows: pa.Table) -> list[QueueRange]:
    """Where suspects' messages are."""
    return [
        QueueRange(
            MessageQueue(*(row[name] for name in _QUEUE)),
            row["first_offset"],
            row["last_offset"] + 1,
        )
        for row in rows.to_pylist()
    ]


def _spans(suspects: pa.Table) -> Spans:
    first, last = pc.min(suspects["first_store_ts"]), pc.max(suspects["last_store_ts"])
    low, high = (each.cast(pa.timestamp("ms", "UTC"), safe=False).value for each in (first, last))
    return Spans(low, max((high - low) // SPANS + 1, 1))


def _exact(seen: pa.Table, suspects: pa.Table) -> pa.Table:
    """The counts of suspects all messages of which could be read again; of others some expired."""
    both = seen.join(suspects.select([*_KEY, "judged"]), [*_KEY], join_type="inner")
    return both.filter(pc.equal(both["seen"], both["judged"])).drop_columns(["seen", "judged"])


# --- tables ---------------------------------------------------------------------------------------


# What the summaries count of a suspect that was not looked at.
_INEXACT = {"inversions": "falls", "across": "falls_between", "repeats": "same", "gaps": "jumps"}
_EXACT_ONLY = ("resent", "repeated_sends", "missing")  # 0 of those
_COUNTS = ("inversions", "across", "repeats", "resent", "repeated_sends", "gaps", "missing")


def _rough(name: str, *, gaps: bool) -> str:
    return "0" if name == "gaps" and not gaps else _INEXACT[name]


def _not_looked_at(keys: DataFrame, *, gaps: bool) -> DataFrame:
    """Each key with what is wrong with it, where none was looked at."""
    counts = {name: f"IF(suspect, {_rough(name, gaps=gaps)}, 0)" for name in _INEXACT}
    columns = {name: F.expr(text) for name, text in counts.items()}
    nothing = {name: F.lit(0).cast("bigint") for name in _EXACT_ONLY}
    return _finished(keys.withColumns({**columns, **nothing, "exact": F.expr("NOT suspect")}))


def _looked_at(keys: DataFrame, exact: pa.Table, *, gaps: bool) -> DataFrame:
    """Each key with what is wrong with it; of suspects that were not looked at, roughly."""
    counts = keys.sparkSession.createDataFrame(exact).withColumn("_exact", F.lit(True))
    rows = keys.join(F.broadcast(counts), [*_KEY], "left")
    rows = rows.withColumn("exact", F.expr("NOT suspect OR coalesce(_exact, false)")).drop("_exact")
    found = {
        name: F.expr(f"IF(exact, coalesce({name}, 0), {_rough(name, gaps=gaps)})")
        for name in _INEXACT
    }
    sums = {name: F.expr(f"coalesce({name}, 0)") for name in _EXACT_ONLY}
    return _finished(rows.withColumns({**found, **sums}))


def _finished(rows: DataFrame) -> DataFrame:
    wrong = F.expr("mixed OR inversions + across + repeats + gaps > 0")
    kept = [name for name in KEYS.names if name != "suspect"]
    return rows.withColumn("wrong", wrong).select(*kept, *_COUNTS, "exact", "wrong")


def _with_kinds(queues: pa.Table, kinds: pa.Table | None) -> pa.Table:
    """Queues, and how much of each kind of evidence they have."""
    known = kinds.to_pylist() if kinds is not None else []
    counts = {tuple(row[name] for name in _QUEUE): row for row in known}
    places = [tuple(row[name] for name in _QUEUE) for row in queues.select(_QUEUE).to_pylist()]
    for name in KINDS.values():
        values = [counts.get(place, {}).get(name, 0) for place in places]
        queues = queues.append_column(name, pa.array(values, pa.int64()))
    return queues


# --- figures --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Totals:
    """Sums over keys.

    Attributes:
        keys, judged, moved, mixed, leaping: as in the figures.
        suspects: how many.
        rough_wrong, falls, falls_between, same, jumps: of suspects, by their summaries.
    """

    keys: int = 0
    judged: int = 0
    moved: int = 0
    mixed: int = 0
    leaping: int = 0
    suspects: int = 0
    rough_wrong: int = 0
    falls: int = 0
    falls_between: int = 0
    same: int = 0
    jumps: int = 0

    @classmethod
    def of(cls, table: pa.Table) -> _Totals:
        return cls(**{name: pc.sum(table[name]).as_py() or 0 for name in table.column_names})


def _totals(keys: pa.Table, *, gaps: bool) -> pa.Table:
    """One row of sums."""
    suspects = keys.filter(keys["suspect"])
    jumps = suspects["jumps"] if gaps else pa.nulls(suspects.num_rows, pa.int64()).fill_null(0)
    counts = [suspects["falls"], suspects["falls_between"], suspects["same"], jumps]
    rough: Any = 0
    for each in counts:
        rough = pc.add(rough, each)
    sums: dict[str, Any] = {
        "keys": keys.num_rows,
        "judged": pc.sum(keys["judged"]),
        "moved": pc.sum(pc.greater(keys["queues"], 1)),
        "mixed": pc.sum(keys["mixed"]),
        "leaping": pc.sum(pc.greater(keys["jumps"], 0)),
        "suspects": suspects.num_rows,
        "rough_wrong": pc.sum(pc.or_(suspects["mixed"], pc.greater(rough, 0))),
        **dict(zip(("falls", "falls_between", "same", "jumps"), map(pc.sum, counts), strict=True)),
    }
    values = {name: value.as_py() or 0 if isinstance(value, pa.Scalar) else value
              for name, value in sums.items()}  # fmt: skip
    return pa.table({name: pa.array([value], pa.int64()) for name, value in values.items()})


def _figures(tables: AuditTables, totals: _Totals, suspects: Mapping[str, int]) -> AuditFigures:
    """Add up the queues and the keys; of suspects it is said what was found."""
    return AuditFigures(
        messages=_sum(tables.queues, "messages"),
        keyless=_sum(tables.queues, "keyless"),
        unnumbered=_sum(tables.queues, "unnumbered"),
        lost=_sum(tables.losses, "lost"),
        judged=totals.judged,
        keys=totals.keys,
        moved=totals.moved,
        mixed=totals.mixed,
        leaping=totals.leaping,
        **suspects,
    )


def _of_suspects(
    totals: _Totals, looked: tuple[pa.Table, pa.Table] | None, *, gaps: bool
) -> dict[str, int]:
    """What was found of suspects, and roughly what is wrong with the others.

    Args:
        totals: of all keys.
        looked: the suspects chosen, and the counts of those that were looked at; None: none was.
        gaps: whether numbers left out count.
    """
    rough = {name: getattr(totals, source) for name, source in _INEXACT.items()}
    if looked is None:
        return {**rough, "wrong": totals.rough_wrong, "inexact": totals.suspects}
    suspects, exact = looked
    chosen = suspects.join(exact.select(_KEY), [*_KEY], join_type="inner")
    theirs = _Totals.of(_totals(chosen, gaps=gaps))
    counts = exact.join(chosen.select([*_KEY, "mixed"]), [*_KEY], join_type="inner")
    some = pc.add(
        pc.add(counts["inversions"], counts["across"]), pc.add(counts["repeats"], counts["gaps"])
    )
    wrong = pc.sum(pc.or_(counts["mixed"], pc.greater(some, 0))).as_py() or 0
    return {
        name: _sum(counts, name) + rough[name] - getattr(theirs, source)
        for name, source in _INEXACT.items()
    } | {
        **{name: _sum(counts, name) for name in _EXACT_ONLY},
        "wrong": wrong + totals.rough_wrong - theirs.rough_wrong,
        "inexact": totals.suspects - theirs.suspects,
    }


def _sum(table: pa.Table, name: str) -> int:
    return sum(table[name].to_pylist())  # pyarrow's would run over
