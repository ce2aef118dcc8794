"""The audit's judgement in Spark is what brute force says, over hundreds of logs at once."""

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
import pytest

from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.spark.columns import arrow_schema
from orderly.spark.jobs.audit.judging import judge, merged, message_columns
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.progress import silent
from orderly.spark.offsets import Loss
from orderly.spark.summary import SCHEMA, needed, summarize

# Logs of messages with anything wrong in them, and what an audit must find, by brute force.


BEGIN = datetime(2026, 5, 1, tzinfo=UTC)
NAMES = tuple(dict.fromkeys((*message_columns(by_seq=True), *needed("seq"), *needed(""))))
NUMBERS = [*range(9), 2**18 - 1, 2**18, 2**18 + 1, 2**62, -(2**62), None]


def log(topic, draw, size):
    """A log of two keys in up to three queues; the numbers mostly rise.

    Offsets, times and numbers lie so far apart that blocks of `with_before` end between them.
    """
    at, rising = BEGIN, defaultdict(int)
    offsets, places, rows = defaultdict(int), defaultdict(int), []
    for number in range(size):
        key = draw.choice("xxy") if draw.random() < 0.95 else None
        rising[key] += 1
        seq = rising[key] if draw.random() < 0.7 else draw.choice(NUMBERS)
        broker, queue = draw.choice((("a", 0),) * draw.choice((1, 9)) + (("a", 1), ("b", 0)))
        at += timedelta(milliseconds=draw.choice((0, 1, 40_000)))
        born = at - timedelta(milliseconds=draw.choice((0, 0, 5, 50_000)))
        offsets[broker, queue] += draw.choice((1, 1, 100_000))
        places[broker] += 100
        rows.append(
            {
                "topic": topic, "broker": broker, "queue_id": queue,
                "queue_offset": offsets[broker, queue], "sharding_key": key, "seq": seq,
                "msg_id": f"m{number}", "uniq_key": draw.choice(["u1", "u2", "u3", None]),
                "born_ts": born, "store_ts": at, "commitlog_offset": places[broker],
            }
        )  # fmt: skip
    return rows


def logs(scenarios, seed=1):
    """Many, each a topic of its own."""
    draw = random.Random(seed)
    return [row for n in range(scenarios) for row in log(f"t{n}", draw, draw.randint(1, 14))]


def table(rows):
    """The messages as the source reads them."""
    return pa.Table.from_pylist(rows, schema=arrow_schema(NAMES))


def summaries(rows, seq_property="seq", chunk=3, seed=2):
    """Their summaries in any order, of chunks of so many messages of a queue."""
    queues = defaultdict(list)
    for row in rows:
        queues[MessageQueue(row["topic"], row["broker"], row["queue_id"])].append(row)
    found = [
        summary
        for queue, mine in queues.items()
        for summary in summarize(
            queue, table(mine).to_batches(max_chunksize=1), seq_property=seq_property, chunk=chunk
        )
    ]
    random.Random(seed).shuffle(found)
    return pa.Table.from_batches(found, schema=SCHEMA)


def wrong(rows, *, gaps=True):
    """All evidence: {(kind, topic, key, message id, id before, distance, same id, adjacent)}."""
    keys = defaultdict(list)
    for row in rows:
        if row["sharding_key"] is not None and row["seq"] is not None:
            keys[row["topic"], row["sharding_key"]].append(row)
    return {line for mine in keys.values() for line in _of_key(mine, gaps=gaps)}


def _stored(row):
    return (row["store_ts"], row["broker"], row["commitlog_offset"])


def _queue(row):
    return row["broker"], row["queue_id"]


def _of_key(mine, *, gaps):
    originals, once = {}, []
    for row in sorted(mine, key=_stored):
        if row["seq"] in originals:
            yield _line("repeat", row, originals[row["seq"]], None, *_kind_of_repeat(row, mine,
                        originals[row["seq"]]))  # fmt: skip
        else:
            originals[row["seq"]] = row
            once.append(row)
    for queue in {_queue(row) for row in once}:
        here = sorted((r for r in once if _queue(r) == queue), key=lambda r: r["queue_offset"])
        for before, after in pairwise(here):
            if after["seq"] < before["seq"]:
                yield _line("inversion", after, before, before["seq"] - after["seq"])
    for before, after in pairwise(once):
        later = after["broker"] == before["broker"] or after["store_ts"] > before["store_ts"]
        if _queue(after) != _queue(before) and after["seq"] < before["seq"] and later:
            yield _line("across", after, before, before["seq"] - after["seq"])
    for low, high in pairwise(sorted(once, key=lambda row: row["seq"])):
        if gaps and high["seq"] - low["seq"] > 1:
            yield _line("gap", high, low, high["seq"] - low["seq"] - 1)


def _kind_of_repeat(row, mine, original):
    here = sorted((r for r in mine if _queue(r) == _queue(row)), key=lambda r: r["queue_offset"])
    place = here.index(row)
    adjacent = place > 0 and here[place - 1]["seq"] == row["seq"]
    return row["uniq_key"] is not None and row["uniq_key"] == original["uniq_key"], adjacent


def _line(kind, after, before, distance, same_id=None, adjacent=None):
    names = (kind, after["topic"], after["sharding_key"], after["msg_id"], before["msg_id"])
    return (*names, distance and min(distance, 2**63 - 1), same_id, adjacent)


def lines(evidence):
    """Spark's evidence in the same form, as a list."""
    return [
        (row.kind, row.topic, row.key, row.message.msg_id, row.before.msg_id, row.distance,
         row.same_id, row.adjacent)
        for row in evidence.collect()
    ]  # fmt: skip


BY_SEQ = AuditSettings({}, "seq")
ROWS = logs(250)


def judged(spark, rows, settings=BY_SEQ):
    parts = merged(
        spark.createDataFrame(summaries(rows, settings.seq_property)), by_seq=settings.by_seq
    )
    return judge(parts, lambda *_: spark.createDataFrame(table(rows)), settings, silent)


@pytest.fixture(scope="module")
def found(spark):
    return judged(spark, ROWS)


def test_everything_wrong_is_found_exactly_and_nothing_else(found):
    told = lines(found.tables.evidence)
    assert Counter(told) == Counter(wrong(ROWS))
    assert {line[0] for line in told} == {"inversion", "across", "repeat", "gap"}


def test_each_key_and_queue_is_told_what_is_wrong_with_it(found):
    names = {"inversions": "inversion", "across": "across", "repeats": "repeat", "gaps": "gap"}
    by_key = Counter((line[0], line[1], line[2]) for line in wrong(ROWS))
    for row in found.tables.keys.collect():
        for name, kind in names.items():
            assert row[name] == by_key[kind, row.topic, row.key]
        assert row.exact
    queues = found.tables.queues.collect()
    assert sum(row.messages for row in queues) == len(ROWS) == found.figures.messages
    assert sum(row[name] for row in queues for name in names) == by_key.total()
    assert found.figures.keyless == sum(row["sharding_key"] is None for row in ROWS)
    assert found.figures.verdict is Verdict.CRITICAL


def test_the_sum_in_spark_does_not_depend_on_the_chunks(spark):
    cut, whole = (
        merged(spark.createDataFrame(summaries(ROWS, chunk=chunk)), by_seq=True).collect()
        for chunk in (1, len(ROWS))
    )
    assert sorted(cut, key=repr) == sorted(whole, key=repr)


def test_suspects_over_the_cap_are_said_and_counted_by_their_summaries(spark):
    found = judged(spark, ROWS, AuditSettings({}, "seq", look_at=10))
    rough = found.tables.keys.where("not exact")
    assert found.figures.inexact == rough.count() > 100
    assert len({line[1:3] for line in lines(found.tables.evidence)}) == 10
    assert found.figures.wrong > 100
    assert rough.where("wrong").count() == rough.where("inversions + across + repeats + gaps > 0"
                                                       " or mixed").count()  # fmt: skip


def test_messages_that_are_gone_at_the_second_look_are_said(spark):
    gone = {f"t{n}" for n in range(0, 250, 2)}
    left = [row for row in ROWS if row["topic"] not in gone]
    parts = merged(spark.createDataFrame(summaries(ROWS)), by_seq=True)
    found = judge(parts, lambda *_: spark.createDataFrame(table(left)), BY_SEQ, silent)
    inexact = {row.topic for row in found.tables.keys.where("not exact").collect()}
    assert inexact
    assert inexact <= gone


def test_without_gaps_numbers_may_leap(spark):
    settings = AuditSettings({}, "seq", gaps=False)
    found = judged(spark, ROWS, settings)
    assert Counter(lines(found.tables.evidence)) == Counter(wrong(ROWS, gaps=False))
    assert found.figures.gaps == found.figures.missing == 0


def test_losses_are_told_and_leave_no_verdict_of_order(spark):
    queue = MessageQueue("t", "a", 0)
    gone = [Loss(queue, 5, 9, "expired")]
    rows = [{**ROWS[0], "topic": "t", "broker": "a", "queue_id": 0, "queue_offset": 9,
             "sharding_key": "x", "seq": 1}]  # fmt: skip
    pieces = list(summarize(queue, table(rows).to_batches(), seq_property="seq", losses=gone))
    parts = merged(spark.createDataFrame(pa.Table.from_batches(pieces)), by_seq=True)
    found = judge(parts, lambda *_: None, BY_SEQ, silent)
    assert [row.asDict() for row in found.tables.losses.collect()] == [
        {"topic": "t", "broker": "a", "queue_id": 0, "first_offset": 5, "last_offset": 8, "lost": 4}
    ]
    assert (found.figures.judged, found.figures.lost) == (1, 4)
    assert found.figures.verdict is Verdict.UNKNOWN
