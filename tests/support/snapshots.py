"""Scans and snapshots without a broker, for tests of what reads or shows them.

row(QueueState.BLOCKED, queue_id=3, backlog=7)       one queue, everything else as if healthy
snapshot(row(), row(queue_id=1), group("billing"))   sums and groups follow from the rows
scan(at=10, topics={"orders": [(0, 50)]}, committed={"shipping": {"orders": [40]}})
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby

from orderly import Message
from orderly.client.pipeline import RequestLimits
from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import (
    NOT_READ,
    BrokerReading,
    GroupReading,
    Scan,
    TopicReading,
)
from orderly.monitoring.backlog.snapshot import (
    GroupStatus,
    QueueStatus,
    Snapshot,
    Sums,
    TopicStatus,
)
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.backlog.thresholds import Thresholds, judge
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.scan import ScanSettings
from orderly.monitoring.collecting.selection import Selection
from orderly.monitoring.collecting.survey import survey
from orderly.monitoring.exporter import LostCounter, ServedSnapshot
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import ConsumerData, Heartbeat, Subscription, encode_heartbeat
from tests.support.waiting import PATIENCE, eventually

AT = 1_800_000_000.0  # seconds since the epoch
UNMEASURED = {
    QueueState.UNKNOWN, QueueState.NOT_APPLICABLE, QueueState.NEW, QueueState.AHEAD,
}  # fmt: skip


def queues_of(topic, count, broker="broker-a"):
    """The first queues of a topic on one broker."""
    return tuple(MessageQueue(topic, broker, queue_id) for queue_id in range(count))


# --- scans ---------------------------------------------------------------------------------------


def topic_reading(topic, spans, broker="broker-a", unread=()):
    """A topic whose queues have these (minimum, maximum); None: not read."""
    queues = queues_of(topic, len(spans), broker)
    spans = [(NOT_READ, NOT_READ) if span is None else span for span in spans]
    return TopicReading(
        topic,
        queues,
        tuple(low for low, _ in spans),
        tuple(high for _, high in spans),
        (0.0,) * len(spans),
        frozenset(queues[n] for n in unread),
    )


def scan(at=AT, topics=None, committed=None, groups=None, brokers=None, **fields):
    """One scan of one broker.

    Args:
        at: when.
        topics: spans by topic, as `topic_reading` takes them, or a TopicReading.
        committed: offsets by topic, by group: {"shipping": {"orders": (4, 5)}}.
        groups: GroupReading by name.
        brokers: BrokerReading by name; default: broker-a, well, which keeps messages 3 days.
    """
    topics = {"orders": [(0, 10)]} if topics is None else topics
    return Scan(
        at=at,
        seconds=0.1,
        cluster="DefaultCluster",
        brokers=brokers or {"broker-a": BrokerReading("broker-a", retention=259_200.0)},
        topics={
            name: spans if isinstance(spans, TopicReading) else topic_reading(name, spans)
            for name, spans in topics.items()
        },
        committed={
            (group, topic): tuple(offsets)
            for group, by_topic in (committed or {}).items()
            for topic, offsets in by_topic.items()
        },
        groups=groups or {},
        **fields,
    )


# --- snapshots -----------------------------------------------------------------------------------


def row(
    state=QueueState.OK, group="shipping", topic="orders", broker="broker-a", queue_id=0, **fields
):
    """One queue; offsets that fit the state unless they are given.

    A measured queue has `backlog` messages (default 0 if OK, else 7) before 100.
    """
    queue = MessageQueue(topic, broker, queue_id)
    if state in UNMEASURED:
        offsets = {"minimum": 0, "maximum": 100} if state is not QueueState.UNKNOWN else {}
        return QueueStatus(group, queue, state, **({"cause": _cause(state)} | offsets | fields))
    backlog = fields.pop("backlog", 0 if state is QueueState.OK else 7)
    known = {
        "cause": _cause(state),
        "minimum": 0,
        "committed": None if backlog is None else 100 - backlog,
        "maximum": 100,
        "span": backlog,
        "backlog": backlog,
        "head_age": None if backlog is None else 60.0 if backlog else 0.0,
        "in_rate": 1.0,
        "out_rate": 2.0,
        "drain_eta": None if backlog is None else float(backlog),
        "retention_eta": 259_140.0 if backlog else float("inf"),
        "owner": "client-1",
        "lost": 3 if state is QueueState.LOST else 0,
    }
    return QueueStatus(group, queue, state, **(known | fields))


def _cause(state):
    return "" if state is QueueState.OK else f"it is {state.value}"


def sums(rows):
    """The sums of rows, the plain way (an oracle for the evaluator's)."""
    rows = list(rows)
    measured = [found.backlog for found in rows if found.backlog is not None]
    return Sums(
        queues=len(rows),
        unknown=len(rows) - len(measured),
        states=dict(Counter(found.state for found in rows)),
        backlog=sum(measured) if measured else None,
        lost=sum(found.lost for found in rows),
        head_age=_worst(max, rows, "head_age", 0.0),
        in_rate=_of(sum, rows, "in_rate"),
        out_rate=_of(sum, rows, "out_rate"),
        drain_eta=_worst(max, rows, "drain_eta", 0.0),
        retention_eta=_worst(min, rows, "retention_eta", float("inf")),
        parked_keys=_of(sum, [len(r.parked) for r in rows if r.parked is not None]),
        parked_messages=_of(sum, rows, "parked_messages"),
        parked_age=_of(max, rows, "parked_age"),
    )


def _of(together, rows, name=None):
    values = [found if name is None else getattr(found, name) for found in rows]
    known = [value for value in values if value is not None]
    return together(known) if known else None


def _worst(together, rows, name, idle):
    """The worst that is known; that there is nothing is only certain if all is known."""
    value = _of(together, rows, name)
    vague = any(getattr(found, name) is None for found in rows)
    return None if vague and value == idle else value


def topic_status(rows, skew=None):
    """The rows of one topic in one group."""
    rows = sorted(rows, key=lambda found: found.queue)
    return TopicStatus(rows[0].group, rows[0].queue.topic, sums(rows), skew, lambda: iter(rows))


def group(name="shipping", rows=(), **fields):
    """One group; its topics and sums follow from its rows."""
    rows = sorted(rows, key=lambda found: found.queue)
    topics = {
        topic: topic_status(part) for topic, part in groupby(rows, key=lambda r: r.queue.topic)
    }
    return GroupStatus(name, topics, sums(rows), **fields)


def snapshot(*parts, at=AT, **fields):
    """A snapshot of groups (`group(...)`) and of single rows, which make groups."""
    groups = {part.group: part for part in parts if isinstance(part, GroupStatus)}
    rows = sorted(
        (part for part in parts if isinstance(part, QueueStatus)), key=lambda found: found.group
    )
    groups |= {name: group(name, part) for name, part in groupby(rows, key=lambda r: r.group)}
    known = {
        "scan_seconds": 0.1,
        "window": 300.0,
        "cluster": "DefaultCluster",
        "brokers": {"broker-a": BrokerReading("broker-a", requests=5, seconds=0.1)},
        "groups": dict(sorted(groups.items())),
    }
    return Snapshot(at=at, **(known | fields))


def every_state():
    """A snapshot with one queue in each state, of the group "shipping"."""
    return snapshot(*(row(state, queue_id=n) for n, state in enumerate(QueueState)))


# --- scans ----------------------------------------------------------------------------------------
# Scans made by hand: queues of one broker, rows of (minimum, committed, maximum).


BROKER = "broker-a"


def queue(number=0, topic="orders", broker=BROKER):
    return MessageQueue(topic, broker, number)


def scan_of(pairs, at=1000.0, groups=(), **topics):
    """Of rows by (group, topic); further topics by spans. Two groups of a topic share its spans."""
    readings = {
        topic: topic_reading(topic, [(start, end) for start, _, end in rows])
        for (_, topic), rows in pairs.items()
    }
    readings |= {name: topic_reading(name, spans) for name, spans in topics.items()}
    committed = {pair: tuple(at for _, at, _ in rows) for pair, rows in pairs.items()}
    names = {group for group, _ in pairs} | set(groups)
    return Scan(at, 0.1, "c", {}, readings, committed, {name: GroupReading(name) for name in names})


# --- exporting ------------------------------------------------------------------------------------
# A monitor that does not scan, for what exports its snapshots.


@dataclass
class Monitored:
    """What is asked of a monitor; tests set what it says."""

    interval: float = 15.0
    failures: int = 0
    last_success: float | None = None
    last_error: str | None = None
    points: list = field(default_factory=list)

    def status(self):
        return self

    def history(self, group, topic=None):
        return self.points


@dataclass
class Clock:
    """Shows the time it is set to."""

    now: float = AT

    def __call__(self):
        return self.now


class Exporting:
    """All that is needed to serve snapshots: `take` them, set the `clock`, ask `exported`."""

    def __init__(self, *snapshots, **options):
        self.monitor, self.totals, self.clock = Monitored(), LostCounter(), Clock()
        self.exported = ServedSnapshot(self.monitor, self.totals, clock=self.clock, **options)
        self.take(*snapshots)

    def take(self, *snapshots):
        for snapshot in snapshots:
            self.totals.take(snapshot)


# --- surveying ------------------------------------------------------------------------------------
# Surveys of a real broker: what is said of one group, and offsets that somebody committed.


ALWAYS = Budgets(every=0.0)
PATIENT = ScanSettings(deadline=2 * PATIENCE, limits=RequestLimits(patience=PATIENCE))


class Surveyed:
    """A group, and a topic that it consumes; `status()` surveys it anew."""

    def __init__(self, client, group, topic):
        self.client, self.group, self.topic = client, group, topic

    def queue(self, number, broker="broker-a"):
        return MessageQueue(self.topic, broker, number)

    def commit(self, *offsets):
        """Commit an offset in each of the first queues; None: in this one none."""
        self.client.groups.group_config(self.group, "broker-a")  # makes the group
        for number, offset in enumerate(offsets):
            if offset is not None:
                self.client.brokers.update_offset(self.group, self.queue(number), offset)

    def send(self, producer, number, count, topic=None, tags=None):
        """Send to a queue of the topic, or of another one, and wait until all can be seen."""
        message = Message(topic or self.topic, b"x", tags=tags)
        for _ in range(count):
            stored = producer.send(message, selector=lambda queues, _, n: queues[n], arg=number)
        end = stored.queue_offset + 1
        eventually(lambda: self.client.brokers.max_offset(stored.queue) >= end)

    def join(self, client_id, broker="broker-a"):
        """Make somebody a member of the group, as far as one broker knows; it answers nothing."""
        data = (Subscription.from_expression(self.topic, "*", 1),)
        beat = Heartbeat(client_id, consumers=(ConsumerData(self.group, data),))
        command = request(RequestCode.HEART_BEAT, body=encode_heartbeat(beat))
        address = self.client.routes.address(self.queue(0, broker))
        assert self.client.connections.get(address).call(command, PATIENCE).code == 0

    def snapshot(self, **options):
        chosen = Selection(groups=(self.group,))
        return survey(self.client, chosen, **{"budgets": ALWAYS, "settings": PATIENT} | options)

    def status(self, **options):
        return self.snapshot(**options).groups[self.group]

    def rows(self, topic=None):
        """Of the group's queues of one topic, in their order."""
        return tuple(self.status().topics[topic or self.topic].rows())


def verdict_of(status, **crit):
    """What a check without options says; `crit` are thresholds by measure."""
    return judge([status], Thresholds.parse({}, crit)).verdict.name


def states_of(rows):
    """In words."""
    return [row.state.name for row in rows]
