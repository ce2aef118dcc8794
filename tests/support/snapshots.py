"""Scans and snapshots without a broker, for tests of what reads or shows them.

row(QueueState.BLOCKED, queue_id=3, backlog=7)       one queue, everything else as if healthy
snapshot(row(), row(queue_id=1), group("billing"))   sums and groups follow from the rows
scan(at=10, topics={"orders": [(0, 50)]}, committed={"shipping": {"orders": [40]}})
"""

from collections import Counter
from itertools import groupby

from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import NOT_READ, BrokerReading, Scan, TopicReading
from orderly.monitoring.backlog.snapshot import (
    GroupStatus,
    QueueStatus,
    Snapshot,
    Sums,
    TopicStatus,
)
from orderly.monitoring.backlog.states import QueueState

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
