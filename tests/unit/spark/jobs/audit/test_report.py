"""The report of an audit: it says what was found, and nothing of what was not."""

from datetime import UTC, datetime, timedelta

import pytest

from orderly.model import MessageQueue
from orderly.report.page import html
from orderly.spark.jobs.audit.figures import AuditFigures
from orderly.spark.jobs.audit.report import KeyPicture, ShownMessage, ShownRows, report
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.origin import Origin
from orderly.spark.offsets import QueueRange
from tests.support.programs import Document

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)
SETTINGS = AuditSettings({"topic": "flights"}, "n")
MADE_FROM = Origin("audit", AT.timestamp(), (QueueRange(MessageQueue("flights", "a", 0), 0, 9),))
CLEAN = AuditFigures(messages=90, judged=90, keys=4)
WRONG = AuditFigures(
    messages=90, judged=88, keyless=2, keys=4, moved=2, mixed=1, wrong=3, inversions=3, across=1,
    repeats=3, resent=2, repeated_sends=1, gaps=1, missing=4, leaping=3,
)  # fmt: skip


def place(queue, offset, seq, *, wrong=False):
    return ShownMessage(f"queue {queue}", offset, seq, AT.timestamp() + offset, wrong)


def message(seq, offset, queue=0):
    return {
        "broker": "broker-a", "queue_id": queue, "queue_offset": offset, "seq": seq,
        "msg_id": f"id-{offset}", "uniq_key": None, "store_ts": AT + timedelta(seconds=offset),
    }  # fmt: skip


def line(kind, after, before, **fields):
    known = {"kind": kind, "topic": "flights", "key": "N328AA", "message": after, "before": before}
    return (
        known
        | {"distance": None, "same_id": None, "repeated_send": None, "adjacent": None}
        | fields
    )


def shown():
    key = {
        "key": "N328AA", "messages": 40, "queues": 2, "inversions": 3, "across": 1, "gaps": 1,
        "missing": 4, "repeats": 2, "min_seq": 1, "max_seq": 1_234, "mixed": True,
    }  # fmt: skip
    queue = {
        "broker": "broker-a", "queue_id": 0, "messages": 50, "keys": 3, "keyless": 2,
        "unnumbered": 0, "inversions": 3, "across": 1, "gaps": 1, "repeats": 2,
    }  # fmt: skip
    at = AT.timestamp()
    return ShownRows(
        keys=(key,),
        evidence=(
            line("inversion", message(5, 7), message(6, 6), distance=1),
            line("across", message(8, 3, queue=1), message(9, 8), distance=1),
            line("gap", message(14, 12), message(9, 8), distance=4),
            line("repeat", message(2, 9), message(2, 1), same_id=True),
            line("repeat", message(3, 10), message(3, 2), same_id=False),
            line("repeat", message(4, 11), message(4, 3), same_id=True, repeated_send=True),
        ),
        queues=(queue,),
        times=((at, "inversion", 3), (at, "gap", 1), (at + 30, "repeat", 2)),
        span=10.0,
        pictures=(
            KeyPicture("N328AA", (place(0, 5, 1), place(1, 6, 3), place(0, 7, 2, wrong=True))),
            KeyPicture("N1", tuple(place(queue, queue, queue) for queue in range(9))),
        ),
    )


@pytest.fixture(scope="module")
def told():
    return Document(html(report(WRONG, shown(), SETTINGS, MADE_FROM)))


@pytest.mark.parametrize(
    "said",
    [
        "CRITICAL 3 inversions, 1 inversion across queues, 1 gap, 2 repeats",
        "N328AA 40 2 3 1 1 4 2 1 1234",
        "2 keys more left out.",
        "Key N328AA",
        "inversion N328AA 5 broker-a 0 7 id-7 2026-05-01T12:00:07Z 6 6",
        "inversion across queues N328AA 8 broker-a 1 3 id-3 2026-05-01T12:00:03Z 9 8 of queue 0",
        "gap: 4 missing N328AA 14",
        "repeat, same id N328AA 2",
        "repeat, another id N328AA 3",
        "repeated send N328AA 4",
        "for each 10s",
        "broker-a 0 50 3 2 0 3 1 1 2",
        "The number in the property 'n' must rise",
        "1 of them came back to a queue",
        "Most keys leave out numbers.",
    ],
)
def test_it_says(told, said):
    assert said in told.text


def test_more_queues_than_colours_are_one_series(told):
    assert "others" in told.text


def test_a_clean_topic_has_a_short_report():
    page = report(CLEAN, ShownRows(), SETTINGS, MADE_FROM)
    assert [section.title for section in page.sections] == ["What was judged", "What was read"]
    text = Document(html(page)).text
    assert "All 90 messages of 4 keys are in order." in text
    assert "Most keys" not in text


def test_without_numbers_it_says_what_times_can_tell():
    born = report(WRONG, shown(), AuditSettings({}), MADE_FROM)
    text = Document(html(born)).text
    assert "judges their time of birth" in text
    assert "A gap is" not in text


def test_queues_that_find_no_room_are_counted_and_the_worst_of_them_is_drawn():
    (queue,) = shown().queues
    gone = {"broker": "a", "queue_id": 0, "first_offset": 0, "last_offset": 4, "lost": 5}
    fine = queue | {"inversions": 0, "across": 0, "gaps": 0, "repeats": 0}
    queues = (*(fine | {"queue_id": n} for n in range(299)), queue | {"queue_id": 777})
    rows = ShownRows(queues=queues, losses=(gone,) * 201)
    page = html(report(CLEAN, rows, SETTINGS, MADE_FROM))
    assert "100 queues more left out" in page
    assert "1 queue more left out" in page
    assert "broker-a 777" in page
