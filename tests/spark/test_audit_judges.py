"""The audit's judgement, parts of it made by Spark's tasks, is what brute force says."""

from collections import Counter

import pyarrow as pa
import pytest

from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.spark.jobs.audit.evidence import message_columns
from orderly.spark.jobs.audit.judging import judge
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.progress import silent
from orderly.spark.offsets import Loss
from orderly.spark.summary import summarize
from tests.support.logs import lines, logs, summaries, table, wrong

BY_SEQ = AuditSettings({}, "seq")
ROWS = logs(250)


def judged(spark, rows, settings=BY_SEQ, left=None):
    """`left`: the messages that are still there at the second look."""
    again = table(rows if left is None else left).select(message_columns(by_seq=True))
    found = spark.createDataFrame(summaries(rows, settings.seq_property))
    return judge(found, lambda *_: spark.createDataFrame(again), settings, silent)


@pytest.fixture(scope="module")
def found(spark):
    return judged(spark, ROWS)


def test_everything_wrong_is_found_exactly_and_nothing_else(found):
    assert Counter(lines(found.tables.evidence.toArrow())) == Counter(wrong(ROWS))


def test_each_key_and_queue_is_told_what_is_wrong_with_it(found):
    names = {"inversions": "inversion", "across": "across", "repeats": "repeat", "gaps": "gap"}
    by_key = Counter((line[0], line[1], line[2]) for line in wrong(ROWS))
    for row in found.tables.keys.collect():
        for name, kind in names.items():
            assert row[name] == by_key[kind, row.topic, row.key]
        assert row.exact
    queues = found.tables.queues.to_pylist()
    assert sum(row["messages"] for row in queues) == len(ROWS) == found.figures.messages
    assert sum(row[name] for row in queues for name in names) == by_key.total()
    assert found.figures.keyless == sum(row["sharding_key"] is None for row in ROWS)
    assert found.figures.verdict is Verdict.CRITICAL


def test_suspects_over_the_cap_are_said_and_counted_by_their_summaries(spark):
    found = judged(spark, ROWS, AuditSettings({}, "seq", look_at=10))
    rough = found.tables.keys.where("not exact")
    assert found.figures.inexact == rough.count() > 100
    assert len({line[1:3] for line in lines(found.tables.evidence.toArrow())}) == 10
    assert found.figures.wrong == found.tables.keys.where("wrong").count() > 100
    sums = "sum(inversions) inversions, sum(across) across, sum(repeats) repeats, sum(gaps) gaps"
    (row,) = found.tables.keys.selectExpr(*sums.split(", ")).collect()
    assert row.asDict() == {name: getattr(found.figures, name) for name in row.asDict()}
    assert rough.where("wrong").count() == rough.where("inversions + across + repeats + gaps > 0"
                                                       " or mixed").count()  # fmt: skip


def test_messages_that_are_gone_at_the_second_look_are_said(spark):
    gone = {f"t{n}" for n in range(0, 250, 2)}
    left = [row for row in ROWS if row["topic"] not in gone]
    found = judged(spark, ROWS, left=left)
    inexact = {row.topic for row in found.tables.keys.where("not exact").collect()}
    assert inexact
    assert inexact <= gone


def test_losses_are_told_and_leave_no_verdict_of_order(spark):
    queue = MessageQueue("t", "a", 0)
    gone = [Loss(queue, 5, 9, "expired")]
    rows = [{**ROWS[0], "topic": "t", "broker": "a", "queue_id": 0, "queue_offset": 9,
             "sharding_key": "x", "seq": 1}]  # fmt: skip
    pieces = list(summarize(queue, table(rows).to_batches(), seq_property="seq", losses=gone))
    found = judge(
        spark.createDataFrame(pa.Table.from_batches(pieces)), lambda *_: None, BY_SEQ, silent
    )
    assert found.tables.losses.to_pylist() == [
        {"topic": "t", "broker": "a", "queue_id": 0, "first_offset": 5, "last_offset": 8, "lost": 4}
    ]
    assert (found.figures.judged, found.figures.lost) == (1, 4)
    assert found.figures.verdict is Verdict.UNKNOWN
