"""Scans made by hand: queues of one broker, rows of (minimum, committed, maximum)."""

from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import GroupReading, Scan, TopicReading

BROKER = "broker-a"


def queue(number=0, topic="orders", broker=BROKER):
    return MessageQueue(topic, broker, number)


def topic_reading(name, spans, broker=BROKER):
    """Of (minimum, maximum) a queue."""
    return TopicReading(
        name,
        tuple(queue(number, name, broker) for number in range(len(spans))),
        tuple(start for start, _ in spans),
        tuple(end for _, end in spans),
        (0.0,) * len(spans),
    )


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
