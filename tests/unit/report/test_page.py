"""A page of any report: one file, and nothing hostile becomes markup."""

import re
from dataclasses import replace

import pytest

from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import Column, ColumnKind
from orderly.report.charts import Bar, Dot, Stick, bars, columns, lines, order_picture
from orderly.report.contents import Fact, Plot, Report, Section, StateCell, Table
from orderly.report.page import html
from orderly.report.words import NOT_KNOWN
from orderly.spark.jobs.origin import Origin
from orderly.spark.offsets import QueueRange
from tests.support.programs import Document

# A job's report with one of everything.


AT = 1_800_000_000.0  # 2027-01-15T08:00:00Z


def origin(**fields):
    read = tuple(
        QueueRange(MessageQueue("flights", "broker-a", queue), 10, 1234 + queue)
        for queue in range(4)
    )
    known = {
        "read": read,
        "options": {"seqProperty": "seq", "topic": "flights"},
        "versions": {"orderly": "0.1.0", "pyspark": "4.3.0"},
    }
    return Origin("audit", AT, **(known | fields))


def report(text="N328AA"):
    """Of an audit that found something; `text` stands wherever a text from elsewhere may."""
    made_from = origin(options={"topic": text, text: "x"})
    return Report(
        title=f"Order of {text}",
        verdict=Verdict.CRITICAL,
        headline=f"2 inversions in 1 of 4,037 keys: {text}",
        at=made_from.at,
        made_by=made_from.made_by,
        facts=(
            Fact("messages", "336,776", "in 4 queues"),
            Fact("keys", "4,037", text),
            Fact("inversions", "2", "in 1 key"),
            Fact("gaps", "0", "numbers never seen"),
            Fact("repeats", "3", "stored twice"),
            Fact("lost", NOT_KNOWN, "not known"),
        ),
        sections=(
            Section(
                "Keys out of order",
                "Worst first.\n\nA key is out of order where a number is below the one before it.",
                (
                    Plot(f"Order of {text}", order(text), "Ringed: out of order."),
                    Plot("Inversions by key", worst(text)),
                ),
                [keys(text)],
            ),
            Section("Over time", "", over_time(text)),
            made_from.section(),
        ),
    )


def order(text):
    dots = [Dot(x, x + 10 * (x == 12), "queue 1", x == 12) for x in range(10, 30)]
    return order_picture("order", [*dots, Dot(22, 8, text)], "offset in its queue", "sequence")


def worst(text):
    shown = [Bar(text, 9, "9", Verdict.CRITICAL), Bar("N12", 4.5, "4", None), Bar("N13", 0, "0")]
    return bars("worst", shown)


def over_time(text):
    days = [(AT + 86_400 * day, None if day == 9 else 1000 + 90 * day) for day in range(30)]
    sticks = [Stick(f"{text}{n}", 10 + n if n != 3 else None) for n in range(12)]
    return (
        Plot("Backlog", lines("lines", {text: days, "other": days[:20]})),
        Plot("Queues", columns("queues", sticks, f"queue of {text}")),
    )


def keys(text):
    kinds = ((ColumnKind.KEY, "Key"), (ColumnKind.TEXT, "Queue"), (ColumnKind.COUNT, "Messages"))
    kinds += (
        (ColumnKind.RATIO, "Mean"),
        (ColumnKind.SHARE, "Share"),
        (ColumnKind.SECONDS, "Late by"),
    )
    kinds += ((ColumnKind.TIME, "First"), (ColumnKind.TEXT, "State"))
    rows = [
        (text, text, 12345, 1234.567, 0.25, 61.0, AT, StateCell(Verdict.CRITICAL)),
        ("N12", "broker-a/1", 0, None, 0.00001, None, None, StateCell(Verdict.OK)),
    ]
    return Table([Column(heading, kind) for kind, heading in kinds], rows, 1234, "key")


MARKUP = "</text></style><script>alert('&')</script>"
EVIL = f"{MARKUP}\u202e\x1b[31m\ud800$\\frac{{"
ESCAPED = MARKUP + r"\u202e\x1b[31m\ud800$\frac{"


@pytest.fixture(scope="module")
def told():
    return Document(html(report()))


@pytest.mark.parametrize(
    "said",
    [
        "CRITICAL 2 inversions in 1 of 4,037 keys: N328AA",
        "Order of N328AA 2027-01-15T08:00:00Z",
        "messages 336,776 in 4 queues",
        "Worst first. A key is out of order",
        "N328AA N328AA 12,345 1,234.57 25 % 1m1s 2027-01-15T08:00:00Z CRITICAL",
        f"N12 broker-a/1 0 {NOT_KNOWN} <0.1 % {NOT_KNOWN} {NOT_KNOWN} OK",
        "1,234 keys more left out.",
        "flights : 4,902 offsets of 4 queues",
        "broker-a/3 10 1,237 1,227",
        "Made by orderly spark audit: orderly 0.1.0, pyspark 4.3.0.",
        "Ringed: out of order.",
    ],
)
def test_it_says(told, said):
    assert said in told.text


def test_nothing_hostile_becomes_markup(told):
    document = Document(html(report(EVIL)))
    assert document.tags <= told.tags
    assert "script" not in document.tags
    assert document.text.count(ESCAPED) > 8
    assert not re.search("[\u202e\x1b\ud800]", document.source)


def test_it_is_one_file_that_loads_and_runs_nothing(told):
    for tag, attrs in told.elements:
        assert tag not in {"script", "link", "img", "iframe", "object", "image"}
        assert not [name for name in attrs if name.startswith("on") or name == "src"]
        target = attrs.get("xlink:href") or attrs.get("href") or "#"
        assert target.startswith("#")
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)", told.source))
    assert "default-src &#39;none&#39;" in told.source or "default-src 'none'" in told.source


def test_no_two_elements_have_the_same_id(told):
    assert told.ids
    assert len(told.ids) == len(set(told.ids))


def test_equal_contents_give_equal_bytes():
    assert html(report()) == html(report())


def test_what_was_read_is_not_said_of_a_job_that_read_no_topic():
    text = Document(html(replace(report(), sections=[origin(read=()).section()]))).text
    assert "offsets of" not in text
    assert "seqProperty seq" in text
