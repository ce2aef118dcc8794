"""A group's dead letters: how many are stored, and when the oldest was."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import (
    NOT_READ,
    DeadLetters,
    GroupReading,
    Scan,
    TopicReading,
)
from orderly.monitoring.collecting.ages import Asked, Spans, ask_ages
from orderly.monitoring.collecting.asking import Asking
from orderly.namespace import DEAD_PREFIX

Oldest = frozenset[tuple[MessageQueue, int]]
"""The oldest message of each queue that has one: while it stays the same, so does its age."""


_NONE = DeadLetters(0, None, 0)


def dead_topic(scan: Scan, group: str) -> TopicReading | None:
    """Where a group's dead letters are; None: it has none, or not all of it could be read."""
    reading = scan.topics.get(DEAD_PREFIX + group)
    if reading is None or NOT_READ in (*reading.minimum, *reading.maximum):
        return None
    return reading


def has_none(scan: Scan, group: str) -> bool:
    """Whether it is certain that a group has no dead letters: every broker told its topics."""
    silent = any(broker.error for broker in scan.brokers.values())
    return not silent and DEAD_PREFIX + group not in scan.topics


def oldest_of(reading: TopicReading) -> Oldest:
    """The oldest dead letter of each queue."""
    rows = zip(reading.queues, reading.minimum, reading.maximum, strict=True)
    return frozenset((queue, start) for queue, start, end in rows if start < end)


def questions_of(group: str, oldest: Oldest) -> list[Asked]:
    """What to ask to know how old they are."""
    brokers = sorted({queue.broker_name for queue, _ in oldest})
    return [Asked(group, DEAD_PREFIX + group, broker) for broker in brokers]


def oldest_at(oldest: Oldest, asked: list[Asked], answers: Mapping[Asked, Spans]) -> float | None:
    """When the oldest was stored; None: not every queue's age is known."""
    spans = {queue: span for one in asked if one in answers for queue, span in
             answers[one].spans.items()}  # fmt: skip
    moments = [spans[queue].oldest_at if queue in spans else None for queue, _ in oldest]
    known = [moment for moment in moments if moment is not None]
    return min(known) if known and len(known) == len(moments) else None


def dead_letters(reading: TopicReading, at: float | None) -> DeadLetters:
    """What is told of them.

    Args:
        reading: see `dead_topic`.
        at: when the oldest was stored (seconds since the epoch); None: not known.
    """
    stored = sum(reading.maximum) - sum(reading.minimum)
    return DeadLetters(stored, at if stored else None, sum(reading.maximum))


class DeadAges:
    """When each group's oldest dead letter was stored. One thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Oldest, float | None]] = {}

    def ask(self, asking: Asking, scan: Scan, groups: Collection[str], most: int) -> None:
        """Ask about groups whose oldest dead letter is another than before.

        Args:
            asking: of the scan.
            scan: its offsets.
            groups: all of the scan; others are forgotten.
            most: groups to ask about now.
        """
        readings = {group: dead_topic(scan, group) for group in groups}
        oldest = {group: oldest_of(reading) for group, reading in readings.items() if reading}
        self._known = {g: known for g, known in self._known.items() if oldest.get(g) == known[0]}
        wanted = [group for group in oldest if group not in self._known and oldest[group]][:most]
        questions = {group: questions_of(group, oldest[group]) for group in wanted}
        answers = ask_ages(asking, [one for asked in questions.values() for one in asked])
        for group, asked in questions.items():
            at = oldest_at(oldest[group], asked, answers)
            if at is not None:
                self._known[group] = oldest[group], at

    def with_dead(self, reading: GroupReading, scan: Scan) -> GroupReading:
        """A reading with its group's dead letters."""
        topic = dead_topic(scan, reading.group)
        if topic is None:
            return replace(reading, dead=_NONE) if has_none(scan, reading.group) else reading
        _, at = self._known.get(reading.group, (None, None))
        return replace(reading, dead=dead_letters(topic, at))
