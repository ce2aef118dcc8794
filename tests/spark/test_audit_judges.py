"""The audit's judgement in Spark is what brute force says, over hundreds of logs at once."""

from collections import Counter

import pyarrow as pa
import pytest

from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.spark.jobs.audit.judging import judge
from orderly.spark.jobs.audit.merging import merged
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.progress import silent
from orderly.spark.offsets.losses import Loss
from orderly.spark.summary import SCHEMA, summarize
from orderly.spark.summary.combining import combine
from tests.support.order_logs import lines, logs, summaries, table, wrong

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


def test_the_sum_in_spark_is_the_sum_of_summaries(spark):
    rows = [row for row in ROWS if row["topic"] in {"t0", "t1", "t2", "t3", "t4"}]
    pieces = summaries(rows)
    in_spark = merged(spark.createDataFrame(pieces), by_seq=True).toArrow().to_pylist()
    expected = []
    for queue in {(p["topic"], p["broker"], p["queue_id"]) for p in pieces.to_pylist()}:
        mine = [p for p in pieces.to_pylist() if (p["topic"], p["broker"], p["queue_id"]) == queue]
        mine.sort(key=lambda piece: piece["first_offset"])
        batches = summary_batches(mine)
        expected += combine(batches, by_seq=True).to_pylist()
    assert sorted(in_spark, key=repr) == sorted(expected, key=repr)


def summary_batches(rows):
    return pa.Table.from_pylist(rows, schema=SCHEMA).to_batches()


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
