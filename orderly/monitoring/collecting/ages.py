"""How old the first unfinished message of each queue is, and the oldest dead letter.

By the broker's clock alone: one request answers for all queues of a topic on a broker
(QUERY_CONSUME_TIME_SPAN).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from orderly.client.pipeline import Question
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import (
    NOT_READ,
    DeadLetters,
    GroupReading,
    Head,
    Scan,
    TopicReading,
)
from orderly.monitoring.collecting.budgets import Budgets, longest_waiting, within
from orderly.monitoring.collecting.heads import lagging_brokers
from orderly.monitoring.collecting.questions import Asking
from orderly.namespace import DEAD_PREFIX
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.statistics import GetTimeSpans, TimeSpan, decode_time_spans


@dataclass(frozen=True, slots=True)
class AgesAsked:
    """One question: the ages in a group's topic on a broker."""

    group: str
    topic: str
    broker: str


@dataclass(frozen=True, slots=True)
class TimeSpans:
    """Its answer.

    Attributes:
        spans: by queue.
        at: the moment they are true for, seconds since the epoch by this process's clock; wrong
            by no more than half the time that the questions took.
    """

    spans: Mapping[MessageQueue, TimeSpan]
    at: float


def ask_ages(asking: Asking, asked: Iterable[AgesAsked]) -> dict[AgesAsked, TimeSpans]:
    """Ask for ages; who did not answer is not in it."""
    wanted, began = list(asked), time.time()

    def read(reply: RemotingCommand) -> TimeSpans:
        return TimeSpans(decode_time_spans(reply.body), (began + time.time()) / 2)

    answers = asking.ask([(one.broker, _question(one, read)) for one in wanted])
    return {
        one: answer
        for one, answer in zip(wanted, answers, strict=True)
        if not isinstance(answer, OrderlyError)
    }


def _question(
    asked: AgesAsked, read: Callable[[RemotingCommand], TimeSpans]
) -> Question[TimeSpans]:
    header = GetTimeSpans(topic=asked.topic, group=asked.group)
    what = f"the ages of what group {asked.group!r} has not finished in topic {asked.topic!r}"
    return Question(request(header.code, to_ext(header)), read, what)


class Ages:
    """The ages of what waits, as far as they were asked for. One thread at a time.

    Args:
        budgets: of a scan.
        asked: groups that come first.
    """

    def __init__(self, budgets: Budgets, asked: Collection[str]) -> None:
        self._budgets = budgets
        self._asked = asked
        self._known: dict[str, tuple[float, dict[MessageQueue, float]]] = {}

    def ask(
        self, asking: Asking, scan: Scan, lagging: Mapping[str, Collection[str]]
    ) -> dict[AgesAsked, TimeSpans]:
        """Ask for the ages in those groups whose turn it is; forget those that do not lag.

        Args:
            asking: of the scan.
            scan: its offsets.
            lagging: by group, the topics in which something waits.

        Returns:
            All answers of this scan.
        """
        self._known = {group: self._of(group) for group in lagging}
        due = longest_waiting(
            lagging,
            lambda group: self._of(group)[0],
            time.time(),
            every=self._budgets.every,
            first=self._asked,
        )
        wholes = (_questions(scan, group, lagging[group]) for group in due)
        chosen = list(within(self._budgets.delays, wholes))
        now = time.time()
        answers = ask_ages(asking, [one for whole in chosen for one in whole])
        for whole in chosen:
            spans = [answers[one].spans for one in whole if one in answers]
            self._known[whole[0].group] = now, _delays(spans)
        return answers

    def with_delays(self, reading: GroupReading) -> GroupReading:
        """A reading with the delays last read of its group."""
        at, delays = self._of(reading.group)
        return replace(reading, delays=delays, delays_at=at)

    def _of(self, group: str) -> tuple[float, dict[MessageQueue, float]]:
        return self._known.get(group) or (0.0, {})


def _questions(scan: Scan, group: str, topics: Iterable[str]) -> list[AgesAsked]:
    return [
        AgesAsked(group, topic, broker)
        for topic in topics
        for broker in lagging_brokers(scan.topics[topic], scan.committed[group, topic])
    ]


def _delays(answers: Iterable[Mapping[MessageQueue, TimeSpan]]) -> dict[MessageQueue, float]:
    return {
        queue: span.delay
        for spans in answers
        for queue, span in spans.items()
        if span.delay is not None
    }


# --- how far the brokers' clocks are from ours ----------------------------------------------------
# Worked out from answers that are there anyway: when a message that waits was stored, and for how
# long it has waited by the broker's clock, say what time it is there.


_LEAST = 0.001  # seconds; the broker says 0 where nothing waits


def clock_offsets(
    answers: Mapping[AgesAsked, TimeSpans], heads: Mapping[tuple[str, MessageQueue], Head]
) -> dict[str, float]:
    """Each broker's clock minus ours, seconds.

    Args:
        answers: of the scan before.
        heads: by group and queue, those that still are heads in this scan: so they were when the
            questions were asked, and the delays are theirs. Should one not have been (an offset
            went forth and back), the broker's time comes out too early, never too late: so the
            latest of several counts.
    """
    found: dict[str, float] = {}
    for asked, answer in answers.items():
        for queue, span in answer.spans.items():
            head = heads.get((asked.group, queue))
            if head is None or span.delay is None or span.delay < _LEAST:
                continue
            offset = head.stored_at + span.delay - answer.at
            found[asked.broker] = max(found.get(asked.broker, offset), offset)
    return found


# --- a group's dead letters: how many are stored, and when the oldest was -------------------------


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
    """Whether it is certain that a group has no dead letters: every broker listed its topics."""
    silent = any(broker.error for broker in scan.brokers.values())
    return not silent and DEAD_PREFIX + group not in scan.topics


def oldest_of(reading: TopicReading) -> Oldest:
    """The oldest dead letter of each queue."""
    rows = zip(reading.queues, reading.minimum, reading.maximum, strict=True)
    return frozenset((queue, start) for queue, start, end in rows if start < end)


def questions_of(group: str, oldest: Oldest) -> list[AgesAsked]:
    """What to ask to know how old they are."""
    brokers = sorted({queue.broker_name for queue, _ in oldest})
    return [AgesAsked(group, DEAD_PREFIX + group, broker) for broker in brokers]


def oldest_at(
    oldest: Oldest, asked: list[AgesAsked], answers: Mapping[AgesAsked, TimeSpans]
) -> float | None:
    """When the oldest was stored; None: not every queue's age is known."""
    spans = {queue: span for one in asked if one in answers for queue, span in
             answers[one].spans.items()}  # fmt: skip
    moments = [spans[queue].oldest_at if queue in spans else None for queue, _ in oldest]
    known = [moment for moment in moments if moment is not None]
    return min(known) if known and len(known) == len(moments) else None


def dead_letters(reading: TopicReading, at: float | None) -> DeadLetters:
    """What a group's reading has of them.

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
