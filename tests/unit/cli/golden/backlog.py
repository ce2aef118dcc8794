"""`orderly backlog check|describe|explain|ls|watch`: verdicts, lines, and what was not measured."""

from contextlib import ExitStack, contextmanager
from unittest import mock

from orderly.errors import (
    BrokerError,
    NameServerUnavailable,
    NoPermission,
    ProtocolError,
    RequestTimeout,
)
from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters, Head
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.collecting import survey as module
from orderly.monitoring.collecting.survey import Observer
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import AT, group, row, scan, snapshot
from tests.unit.cli.golden.transcript import Table, client_is

REFUSED = BrokerReading("broker-a", error="no permission\x1b[31m for code 43 (16)")
SILENT = BrokerReading("broker-a", error="nothing listens at 10.0.0.1:10911")
WELL = BrokerReading("broker-b")
HEAD = Head(93, "=cmd|' /C calc'!A0\x1b[31m", "", AT - 60, AT - 61, 0, 10, attempts=4)
USUAL = (1, 5.0, 10.0)  # samples, seconds between two, seconds that each may take
PAID = {"committed": 766, "maximum": 2000}
CLUSTER = snapshot(
    group("billing", [row(group="billing", topic="paid", backlog=1234, **PAID)], members=()),
    group(
        "shipping",
        [
            row(QueueState.SUSPENDED, head=HEAD),
            row(queue_id=1),
            row(QueueState.NEW, queue_id=2),
        ],
        members=("a", "b"),
        dead=DeadLetters(2, None, 2),
    ),
)
ALL = group(
    "shipping",
    [
        row(
            QueueState.SUSPENDED,
            parked=(ParkedKey("order-7", 12, 3, 14),),
            parked_age=3600.0,
            head=Head(93, "order\n8", "paid", AT - 60, AT - 61, 0, 10, 4, "ValueError: x"),
            owner=None,
            drain_eta=float("inf"),
        ),
        row(QueueState.UNKNOWN, queue_id=1),
        row(topic="%RETRY%shipping"),
    ],
    members=("c1", "c2"),
    idle=("c2",),
    order="key",
    model="CLUSTERING",
    dead=DeadLetters(3, AT - 120, 3),
    findings=("subscriptions differ\x1b[31m",),
)
JANE = snapshot(
    row(
        QueueState.SUSPENDED,
        head=Head(93, "jane", "", AT, AT, 0, 1),
        parked=(ParkedKey("jane", 1, 1, 2),),
    )
)


@contextmanager
def world(found=CLUSTER, looks=()):
    """What a survey finds or raises, or else what its looks do; tells what was surveyed."""
    asked, coming = [], iter(looks)

    def survey(_client, selection, *, settings, samples, interval, **_):
        names = f"{','.join(selection.groups) or '*'} of {','.join(selection.topics) or '*'}"
        pace = (samples, interval, settings.deadline)
        asked.append(
            names if pace == USUAL else "{}: {} times every {} s within {} s".format(names, *pace)
        )
        return told(found)

    def look(_self, _last):
        return told(next(coming, KeyboardInterrupt()))

    with ExitStack() as stack:
        stack.enter_context(client_is(mock.Mock()))
        if looks:
            stack.enter_context(mock.patch.object(Observer, "look", look))
        else:
            stack.enter_context(mock.patch.object(module, "survey", survey))
        yield asked


def told(found):
    if isinstance(found, BaseException):
        raise found
    return found() if callable(found) else found


def of(*parts, **fields):
    """Such a snapshot is found."""
    return {"found": snapshot(*parts, **fields)}


def half(rest):
    """One of two brokers is silent."""
    rows = (row(QueueState.UNKNOWN), row(rest, broker="broker-b"))
    return of(*rows, brokers={"broker-a": SILENT, "broker-b": WELL})


def watched(*backlogs):
    """Scans of a queue with these backlogs, a second apart; an exception is raised."""
    return [
        each
        if isinstance(each, Exception)
        else scan(AT + at, {"orders": [(0, 50)]}, {"shipping": {"orders": (50 - each,)}})
        for at, each in enumerate(backlogs)
    ]


TABLE = Table(__file__, world, {
    **{f"one is {state}": of(row(), row(state, queue_id=1)) for state in QueueState},
    "10 wait": of(row(backlog=10)),
    "7 will wait for ever": of(row(QueueState.OFFLINE, drain_eta=float("inf"))),
    "dead letters": of(group("shipping", [row()], dead=DeadLetters(2, None, 2))),
    "a parked key": of(row(parked=(ParkedKey("k", 1, 1, 2),))),
    "of Jane": {"found": JANE},
    "all of it": of(ALL),
    "new": of(row(QueueState.NEW)),
    "in order": of(row()),
    "two in order": of(row(), row(group="b")),
    "no group": of(),
    "no queue": of(group("shipping")),
    "silent": of(brokers={"broker-a": SILENT}),
    "refused": of(brokers={"broker-a": REFUSED}),
    "silent, and what it had": of(row(QueueState.UNKNOWN), brokers={"broker-a": SILENT}),
    "silent, another is not": of(brokers={"broker-a": SILENT, "broker-b": WELL}),
    "half of it": half(QueueState.OK),
    "half of it, the rest OFFLINE": half(QueueState.OFFLINE),
    "no name server": {"found": NameServerUnavailable("no name server answered")},
    "no reply": {"found": RequestTimeout("no reply within 3 s")},
    "not allowed": {"found": NoPermission("not allowed\nhere", code=16)},
    "a system error": {"found": BrokerError("code 1: system error\x1b[2J", code=1)},
    "nonsense": {"found": ProtocolError("not such an answer")},
    "a bug": {"found": ZeroDivisionError("oops")},
    "no file's error": {"found": TimeoutError()},
    "5, 7, 6": {"looks": watched(5, 7, 6)},
    "5, no reply, 6": {"looks": watched(5, RequestTimeout("no\nreply"), 6)},
    "at first no reply": {"looks": watched(RequestTimeout("no reply"), 5)},
})  # fmt: skip
