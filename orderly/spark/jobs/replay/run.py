"""The replay job: part of a table goes into a topic, each key's messages in their old order.

Nothing is sent unless that is said. Each copy carries the place of its original as its
recognition id, so that a repeat is known as one, here and by consumers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from orderly.errors import ConfigError, ProtocolError
from orderly.foreign_text import hidden
from orderly.model import MessageQueue
from orderly.namespace import wrap
from orderly.protocol.body import OBJECT, TEXT, load_object
from orderly.spark.data_source import read, user_properties, write_ordered
from orderly.spark.discovering import pin
from orderly.spark.jobs.files import Files, exclusive, files_at
from orderly.spark.jobs.origin import origin
from orderly.spark.jobs.output import RESULT, Output
from orderly.spark.jobs.progress import Progress, silent
from orderly.spark.jobs.replay.guard import (
    LaterMessages,
    committed_on,
    elsewhere,
    objections,
    require_none,
)
from orderly.spark.jobs.replay.report import KeyRow, ReplayResult, report
from orderly.spark.jobs.replay.selection import (
    KEY,
    PLACE,
    SEQ,
    ReplaySelection,
    by_key,
    by_key_and_queue,
    extent,
    keys_as_numbers,
    later,
    load_table,
    numbered,
    place,
    queues_of,
    spans,
    up_to,
    without_holes,
)
from orderly.spark.offsets import QueueRange, dump_offsets, from_object, to_object
from orderly.spark.options import access_of, parse_read
from orderly.spark.stamps import ID

PLAN_FILE = "replay.json"
_MOST_KEYS = 100  # shown one by one
_LOOKS, _PAUSE = 5, 1.0  # seconds between two
_SENT = (KEY, "body", "tag", "keys", "properties", SEQ, PLACE)


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """What to send where.

    Args:
        table: path of a table with the columns of the source; it needs `selection.NEEDED`.
        topic: to send to; it must exist.
        access: options of the source and the sink that say how to reach the brokers.
        selection: which messages.
        directory: for the plan, the report and the result; needed to send.
        send: whether to send; if not, the job only reports what would be.
        after_consumed: send although groups have consumed later messages of these keys.
        skip_keyless: leave messages without a sharding key out; they have no order to keep.
        selector: which queue for a key.
        table_format: of the table: parquet or delta.
        overwrite: whether an earlier output in the directory may be replaced.
        redact: whether results show hashes instead of keys.
    """

    table: str
    topic: str
    access: Mapping[str, str]
    selection: ReplaySelection = field(default_factory=ReplaySelection)
    directory: str = ""
    send: bool = False
    after_consumed: bool = False
    skip_keyless: bool = False
    selector: str = "hash_mod"
    table_format: str = "parquet"
    overwrite: bool = False
    redact: bool = False


def run(spark: SparkSession, settings: ReplaySettings, progress: Progress = silent) -> ReplayResult:
    """Report what a replay would send, or send it.

    A replay that broke off is gone on with by calling it again with the same settings: its plan is
    in the directory, and what it sent is looked up in the topic.

    Args:
        spark: the session.
        settings: what, and where to.
        progress: shows each step.

    Raises:
        ConfigError: a table that cannot be read, messages without a key, groups that consumed later
            messages, other settings than those of the begun one, or another run in the directory.
        OrderlyError: a broker does not answer, or what was sent cannot be looked up any more.
    """
    if settings.send and not settings.directory:
        raise ConfigError(
            "sending needs a directory for the plan, so that it can continue after a crash"
        )
    files = files_at(spark, settings.directory) if settings.directory else None
    if files is None or not settings.send:
        return _run(spark, settings, files, progress)
    busy = ConfigError(f"another run sends by the plan in {files.root}; wait for its end")
    with exclusive(files, busy):  # two would each send what the other has not sent yet
        return _run(spark, settings, files, progress)


def _run(
    spark: SparkSession, settings: ReplaySettings, files: Files | None, progress: Progress
) -> ReplayResult:
    begun = _begun(settings, files) if files is not None and settings.send else None
    table = load_table(spark, settings.table, settings.table_format)
    if begun is not None:
        table = up_to(table, begun.ends)
    with progress("finding where the table's queues begin and end"):
        covered = spans(table)
    settings.selection.require_known(span.queue for span in covered)
    selected = settings.selection.of(table)
    found = _look(settings, selected, progress)
    if begun is None:
        found = _guarded(settings, table, selected, covered, found)
    if files is not None and settings.send:
        plan = begun or _begin(settings, covered, files)
        found = _send(settings, selected, plan, found, progress, is_begun=begun is not None)
    found = _reported(settings, covered, found)
    if files is not None and settings.send and not found.missing:
        files.remove(PLAN_FILE)
    return found


def _begun(settings: ReplaySettings, files: Files) -> TableReplayPlan | None:
    """The plan of a replay that broke off, if there is one."""
    text = files.read(PLAN_FILE)
    if text is not None:
        plan = plan_in(text)
        check_same_plan(plan, _wanted(settings))
        return plan
    if files.exists(RESULT) and not settings.overwrite:
        raise ConfigError(f"{files.root} holds a finished output: give another directory")
    return None


def _wanted(settings: ReplaySettings) -> dict[str, Any]:
    """What may not change between a replay and its going on."""
    chosen = settings.selection
    return {
        "table": settings.table,
        "topic": settings.topic,
        "selection": {
            "since": chosen.since,
            "until": chosen.until,
            "start": to_object(chosen.start),
            "end": to_object(chosen.end),
            "keys": [hidden(key) if settings.redact else key for key in chosen.keys],
            "places": chosen.places,
        },
        "skip_keyless": settings.skip_keyless,
        "selector": settings.selector,
    }


def _look(settings: ReplaySettings, selected: DataFrame, progress: Progress) -> ReplayResult:
    with progress("counting the selected messages"):
        parts = by_key_and_queue(selected).persist(StorageLevel.MEMORY_AND_DISK)
        keys = by_key(parts)
        amount = extent(keys)
        top = keys.orderBy(sf.desc("messages"), KEY).limit(_MOST_KEYS).collect()
        queues = queues_of(parts)
        parts.unpersist()
    if amount.keyless and not settings.skip_keyless and settings.send:
        raise ConfigError(
            f"{amount.keyless} of the selected messages have no sharding key, so nothing says which"
            " of them must stay in order: leave them out (--skip-keyless), or select by key"
        )
    skipped = amount.keyless if settings.skip_keyless else 0
    rows = tuple(_key_row(row, redact=settings.redact) for row in top)
    return ReplayResult(settings.topic, amount, (), rows, queues, skipped)


def _guarded(
    settings: ReplaySettings,
    table: DataFrame,
    selected: DataFrame,
    covered: Sequence[QueueRange],
    found: ReplayResult,
) -> ReplayResult:
    """Add what speaks against sending.

    Raises:
        ConfigError: something does, they are to be sent, and nobody said "all the same".
    """
    access = access_of(parse_read({**settings.access, "topic": settings.topic}))
    with closing(access.client()) as client:
        topic = wrap(client.config.namespace, settings.topic)
        if not covered or covered[0].queue.topic != topic:
            return found
        behind = later(table, selected)
        touched = {(broker, queue_id) for broker, queue_id, _ in found.queues} | behind.keys()
        needed = () if settings.after_consumed else {broker for broker, _ in touched}
        groups = committed_on(client, topic, brokers=needed)
    places = {it: (it.queue.broker_name, it.queue.queue_id) for it in without_holes(table, covered)}
    queues = [
        LaterMessages(it.queue, behind.get(at), it.end)
        for it, at in places.items()
        if at in touched
    ]
    against = objections(groups, [*queues, *elsewhere(groups, (it.queue for it in covered))])
    if settings.send and not settings.after_consumed:
        require_none(against)
    return replace(found, objections=against)


def _key_row(row: Row, *, redact: bool) -> KeyRow:
    fields = row.asDict()
    for name in ("first_stored", "last_stored"):
        fields[name] = fields[name].timestamp()
    key = fields.pop(KEY)
    return KeyRow(hidden(key) if redact and key is not None else key, **fields)


def _begin(
    settings: ReplaySettings, covered: Sequence[QueueRange], files: Files
) -> TableReplayPlan:
    """Write down from where on copies are to be looked for, before the first one is sent."""
    target = pin({**settings.access, "topic": settings.topic, "startingOffsets": "latest"})
    starts: dict[MessageQueue, int] = {span.queue: span.end for span in target}
    ends = {span.queue: span.end for span in covered}
    plan = TableReplayPlan(ends, settings.topic, _wanted(settings), starts)
    files.write(PLAN_FILE, plan_text(plan))
    return plan


def _send(
    settings: ReplaySettings,
    selected: DataFrame,
    plan: TableReplayPlan,
    found: ReplayResult,
    progress: Progress,
    *,
    is_begun: bool,
) -> ReplayResult:
    spark, options = selected.sparkSession, dict[str, Any](settings.access)
    keyed = selected.where(sf.col(KEY).isNotNull())
    rows = numbered(keyed).withColumn("properties", user_properties("properties")).select(*_SENT)
    rows = keys_as_numbers(rows) if settings.selector == "numeric_mod" else rows
    before = 0
    if is_begun:
        with progress("finding the messages that are sent already"):
            there = copies(spark, settings.access, plan.target, plan.starts)
            rows = rows.join(there, PLACE, "left_anti")
            before = there.join(keyed.select(place()), PLACE, "left_semi").count()
    if before < found.due:
        with progress("sending"):
            write_ordered(
                rows.select(*_SENT),
                topic=plan.target,
                order_by=SEQ,
                id_column=PLACE,
                selector=settings.selector,
                **options,
            )
    with progress("checking that everything is there"):
        known, stored = _stored(settings, plan, keyed, found.due)
    sent, missing = found.due - before, found.due - known
    return replace(found, before=before, sent=sent, repeated=stored - known, missing=missing)


def _stored(
    settings: ReplaySettings, plan: TableReplayPlan, keyed: DataFrame, due: int
) -> tuple[int, int]:
    """How many of the messages have a copy in the target, and how many copies there are."""
    wanted = keyed.select(place())
    known = stored = 0
    for _ in range(_LOOKS):  # what was acknowledged can be read a moment later
        there = copies(keyed.sparkSession, settings.access, plan.target, plan.starts)
        seen = there.join(wanted, PLACE, "left_semi")
        row = seen.agg(sf.count("*"), sf.coalesce(sf.sum("copies"), sf.lit(0))).first()
        assert row is not None
        known, stored = row
        if known >= due:
            break
        time.sleep(_PAUSE)
    return known, stored


def _reported(
    settings: ReplaySettings, covered: Sequence[QueueRange], result: ReplayResult
) -> ReplayResult:
    """Write the report, if there is a directory for it."""
    made_from = origin("replay", covered, {**settings.access, **_wanted(settings)})
    document = made_from.document(result.verdict, result.figures())
    if settings.directory:
        # What broke off may have left half of its report.
        with Output(settings.directory, overwrite=settings.send or settings.overwrite) as output:
            output.finish(document, report(made_from, result))
    return replace(result, document=document)


# --- the plan: what a replay sends, and from where on to look for its copies; kept, to go on with -


PLAN_SCHEMA = "orderly.spark.replay-plan/v1"


@dataclass(frozen=True, slots=True)
class TableReplayPlan:
    """A replay that has begun.

    Attributes:
        ends: where the table's queues ended when it began: what came later takes no part.
        target: the topic sent to.
        wanted: what was asked for; a plan is gone on with only by the same.
        starts: where the target's queues ended before the first message was sent: what was sent
            lies behind.
    """

    ends: Mapping[MessageQueue, int]
    target: str
    wanted: Mapping[str, Any]
    starts: Mapping[MessageQueue, int]


def plan_text(plan: TableReplayPlan) -> str:
    """Write it."""
    fields = {
        "schema": PLAN_SCHEMA,
        "ends": to_object(plan.ends),
        "target": plan.target,
        "wanted": dict(plan.wanted),
        "starts": to_object(plan.starts),
    }
    return json.dumps(fields, indent=1)


def plan_in(text: str) -> TableReplayPlan:
    """Read it.

    Raises:
        ConfigError: it is none, or a newer release's.
    """
    try:
        fields = load_object(text.encode())
        if TEXT.at(fields, "schema") != PLAN_SCHEMA:
            raise ConfigError(f"replay.json is not a {PLAN_SCHEMA}: give another directory")
        ends, starts = (from_object(OBJECT.at(fields, name), name) for name in ("ends", "starts"))
        return TableReplayPlan(ends, TEXT.at(fields, "target"), OBJECT.at(fields, "wanted"), starts)
    except ProtocolError as error:
        raise ConfigError(
            f"replay.json cannot be read ({error}): give another directory"
        ) from error


def check_same_plan(plan: TableReplayPlan, wanted: Mapping[str, Any]) -> None:
    """See that a begun replay is gone on with by those who began it.

    Raises:
        ConfigError: something else is asked for now.
    """
    asked = json.loads(json.dumps(wanted))
    differs = sorted(
        name
        for name in asked.keys() | plan.wanted.keys()
        if asked.get(name) != plan.wanted.get(name)
    )
    if differs:
        raise ConfigError(
            f"the directory holds a replay that began with another {', '.join(differs)}: use the"
            " same to continue it, or give another directory"
        )


# --- the copies: which messages of the table are in a topic, by the id that each carries ----------
# So a replay that broke off goes on exactly where it stopped: the topic
# itself is the record. It must still hold what was sent; what expired meanwhile would be sent
# again.


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
        DataLost: they have expired: what was sent is not known any more.
    """
    options = {**access, "topic": topic, "startingOffsets": dump_offsets(starts)}
    found = [span for span in pin(options) if span.messages]
    if not found:
        return spark.createDataFrame([], f"{PLACE} string, copies bigint")
    stored = read(spark, found, columns=("properties",), **access)
    ids = stored.select(sf.col("properties")[ID].alias(PLACE)).where(sf.col(PLACE).isNotNull())
    return ids.groupBy(PLACE).agg(sf.count("*").alias("copies"))
