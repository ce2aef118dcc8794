"""A job's report with one of everything."""

from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting.charts import Bar, Stick, bars, columns, lines
from orderly.monitoring.reporting.words import NOT_KNOWN
from orderly.spark.jobs.origin import Origin
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.reporting.contents import Column, Fact, Kind, Plot, Report, Section, Table
from orderly.spark.reporting.plots import Dot, order_picture

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
    return Report(
        title=f"Order of {text}",
        verdict=Verdict.CRITICAL,
        headline=f"2 inversions in 1 of 4,037 keys: {text}",
        origin=origin(options={"topic": text, text: "x"}),
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
                keys(text),
            ),
            Section("Over time", "", over_time(text)),
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
    kinds = ((Kind.KEY, "Key"), (Kind.TEXT, "Queue"), (Kind.COUNT, "Messages"))
    kinds += ((Kind.NUMBER, "Mean"), (Kind.SHARE, "Share"), (Kind.SECONDS, "Late by"))
    kinds += ((Kind.TIME, "First"), (Kind.STATE, "State"))
    rows = [
        (text, text, 12345, 1234.567, 0.25, 61.0, AT, Verdict.CRITICAL),
        ("N12", "broker-a/1", 0, None, 0.00001, None, None, Verdict.OK),
    ]
    return Table([Column(heading, kind) for kind, heading in kinds], rows, 1234, "key")
