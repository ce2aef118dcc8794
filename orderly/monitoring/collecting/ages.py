"""How old the first unfinished message of each queue is, by the broker's clock alone.

One request answers for all queues of a topic on a broker (QUERY_CONSUME_TIME_SPAN). The same one
tells how old the oldest dead letter is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from orderly.client.pipeline import Question
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import GroupReading, Scan
from orderly.monitoring.collecting.asking import Asking
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.lagging import lagging_brokers
from orderly.monitoring.collecting.turns import longest_waiting, within
from orderly.protocol.backlog_bodies import TimeSpan, decode_time_spans
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.query_headers import GetTimeSpans


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: the ages in a group's topic on a broker."""

    group: str
    topic: str
    broker: str


@dataclass(frozen=True, slots=True)
class Spans:
    """Its answer.

    Attributes:
        spans: by queue.
        at: the moment they are true for, seconds since the epoch by this process's clock; wrong
            by no more than half the time that the questions took.
    """

    spans: Mapping[MessageQueue, TimeSpan]
    at: float


def ask_ages(asking: Asking, asked: Iterable[Asked]) -> dict[Asked, Spans]:
    """Ask for ages; who did not answer is not in it."""
    wanted, began = list(asked), time.time()

    def read(reply: RemotingCommand) -> Spans:
        return Spans(decode_time_spans(reply.body), (began + time.time()) / 2)

    answers = asking.ask([(one.broker, _question(one, read)) for one in wanted])
    return {
        one: answer
        for one, answer in zip(wanted, answers, strict=True)
        if not isinstance(answer, OrderlyError)
    }


def _question(asked: Asked, read: Callable[[RemotingCommand], Spans]) -> Question[Spans]:
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
    ) -> dict[Asked, Spans]:
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
            told = [answers[one].spans for one in whole if one in answers]
            self._known[whole[0].group] = now, _delays(told)
        return answers

    def with_delays(self, reading: GroupReading) -> GroupReading:
        """A reading with the delays last told of its group."""
        at, delays = self._of(reading.group)
        return replace(reading, delays=delays, delays_at=at)

    def _of(self, group: str) -> tuple[float, dict[MessageQueue, float]]:
        return self._known.get(group) or (0.0, {})


def _questions(scan: Scan, group: str, topics: Iterable[str]) -> list[Asked]:
    return [
        Asked(group, topic, broker)
        for topic in topics
        for broker in lagging_brokers(scan.topics[topic], scan.committed[group, topic])
    ]


def _delays(told: Iterable[Mapping[MessageQueue, TimeSpan]]) -> dict[MessageQueue, float]:
    return {
        queue: span.delay
        for spans in told
        for queue, span in spans.items()
        if span.delay is not None
    }
