"""What flows into one topic, read without a trace: offsets twice, and a sample of its messages.

No pull, no group, no subscription: see `heads`. Bounded in requests (about one a sampled message
and one for every few) and in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from orderly.client import Client
from orderly.client.pipeline import Pipeline, Question
from orderly.errors import OrderlyError, RemotingError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.collecting.asking import Asking
from orderly.monitoring.collecting.heads import Stretch, read_stretches
from orderly.monitoring.collecting.questions import topic_stats
from orderly.monitoring.collecting.round import Round
from orderly.monitoring.collecting.sample_plan import plan
from orderly.monitoring.skew.inflow import Basis, Inflow, Span, measured
from orderly.monitoring.skew.keys import KeySkew, KeyTally
from orderly.protocol.frame import request
from orderly.protocol.headers import OffsetReply, SearchOffset, from_ext, to_ext
from orderly.selectors import Layout, layout_of, queues_of

_AT_ONCE = 16  # stretches; a few hundred messages are in memory at a time
Tell = Callable[[int, int], object]
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSettings:
    """How a topic is looked at.

    Attributes:
        sample: messages to read, at most.
        interval: seconds between the two looks at the offsets.
        since: look at the messages of so many seconds instead, evenly over that time; None: count
            what comes, and read the last ones.
        timeout: seconds for the messages, and for each look at the offsets.
        what_if: other numbers of queues.
    """

    sample: int = 2000
    interval: float = 5.0
    since: float | None = None
    timeout: float = 30.0
    what_if: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class TopicSkew:
    """What was found.

    Attributes:
        topic: its name.
        layout: its queues now.
        inflow: into the queues.
        keys: of the sample.
        planned: how many messages were to be read; what was deleted meanwhile, or did not come in
            time, is missing in `keys`.
        errors: of brokers that did not answer, by name.
    """

    topic: str
    layout: Layout
    inflow: Inflow
    keys: KeySkew
    planned: int
    errors: Mapping[str, str] = field(default_factory=dict)


def look_at_topic(
    client: Client, topic: str, settings: SampleSettings, tell: Tell = lambda _, __: None
) -> TopicSkew:
    """Measure a topic's skew. Blocks.

    Args:
        client: need not be started.
        topic: as the brokers name it.
        settings: see their class.
        tell: is told how many messages have been read, and of how many.

    Raises:
        TopicNotFound: there is no such topic.
        OrderlyError: no name server answers, or the topic has no queue to write to.
    """
    look = TopicLook(client, topic, settings)
    tally = KeyTally(look.layout, topic, settings.what_if)
    for message in look.sample(tell):
        tally.add(message.sharding_key, message.queue)
    return TopicSkew(topic, look.layout, look.inflow, tally.result(), look.planned, look.errors)


class TopicLook:
    """The questions about one topic. One thread.

    Args:
        client: need not be started.
        topic: as the brokers name it.
        settings: see their class.

    Attributes:
        layout: the topic's queues now.
        inflow: into the queues, once `sample` was begun; so is `planned`.
        planned: how many messages are to be read.
        errors: of brokers that did not answer, by name.
    """

    inflow: Inflow
    planned: int

    def __init__(self, client: Client, topic: str, settings: SampleSettings) -> None:
        route = client.routes.get(topic)
        self.layout = layout_of(route)
        self.errors: dict[str, str] = {}
        self._queues = queues_of(self.layout, topic)
        brokers = ((name, route.broker(name)) for name, _ in self.layout.brokers)
        self._masters = {name: data.master for name, data in brokers if data and data.master}
        self._pipeline = Pipeline(client.connections)
        self._topic = topic
        self._settings = settings

    def sample(self, tell: Tell) -> Iterator[ReceivedMessage]:
        """Look at the offsets, then read messages.

        Args:
            tell: is told how many have been read, and of how many.
        """
        recent = self._settings.since is not None
        self.inflow, spans = self._recently() if recent else self._twice()
        weights = {it: count for it, count in self.inflow.messages.items() if count is not None}
        stretches = plan(
            {queue: spans[queue] for queue in weights},
            weights,
            self._settings.sample,
            spread=self.inflow.basis is Basis.SINCE,
        )
        self.planned = sum(stretch.count for stretch in stretches)
        for number, message in enumerate(self._messages(stretches), 1):
            yield message
            tell(number, self.planned)

    def _twice(self) -> tuple[Inflow, dict[MessageQueue, Span]]:
        """Look at the offsets, and again when the interval is over."""
        began = time.monotonic()
        first = self._spans()
        time.sleep(max(0.0, began + self._settings.interval - time.monotonic()))
        seconds = time.monotonic() - began
        spans = self._spans()
        return measured(self._queues, first, spans, seconds), spans

    def _recently(self) -> tuple[Inflow, dict[MessageQueue, Span]]:
        """What was stored in the last seconds, by the brokers' clocks."""
        assert self._settings.since is not None
        spans = self._spans()
        filled = [queue for queue, span in spans.items() if span.maximum > span.minimum]
        moment = time.time() - self._settings.since
        asked = [(queue.broker_name, _offset_at(queue, moment)) for queue in filled]
        answers = self._noted(asked, self._asking().ask(asked))
        for queue, start in zip(filled, answers, strict=True):
            if isinstance(start, OrderlyError):
                del spans[queue]
            else:
                end = spans[queue].maximum
                spans[queue] = Span(min(max(start, spans[queue].minimum), end), end)
        came = {
            queue: spans[queue].maximum - spans[queue].minimum if queue in spans else None
            for queue in self._queues
        }
        return Inflow(Basis.SINCE, self._settings.since, came), spans

    def _messages(self, stretches: Iterable[Stretch]) -> Iterator[ReceivedMessage]:
        """Read stretches, a few at a time; what is gone, or not read in time, is left out."""
        asking, rest = self._asking(), iter(stretches)
        while some := list(islice(rest, _AT_ONCE)):
            for stretch, found in zip(some, read_stretches(asking, some), strict=True):
                each = (found,) if isinstance(found, OrderlyError) else found
                for message in each:
                    if isinstance(message, ReceivedMessage):
                        yield message
                    else:
                        self._note(stretch.queue.broker_name, message)

    def _spans(self) -> dict[MessageQueue, Span]:
        asked = [(name, topic_stats(self._topic)) for name, _ in self.layout.brokers]
        told = self._noted(asked, self._asking().ask(asked))
        found = {
            queue: Span(offsets.min_offset, offsets.max_offset)
            for answer in told
            if not isinstance(answer, OrderlyError)
            for queue, offsets in answer.items()
        }
        return {queue: found[queue] for queue in self._queues if queue in found}

    def _asking(self) -> Asking:
        """Begin a round of questions, with a deadline of its own."""
        self._pipeline.begin()
        self._deadline = time.monotonic() + self._settings.timeout
        return Asking(self._pipeline, Round(self._masters, self._deadline))

    def _noted(
        self, asked: Iterable[tuple[str, Question[R]]], answers: list[R | OrderlyError]
    ) -> list[R | OrderlyError]:
        for (broker, _), answer in zip(asked, answers, strict=True):
            if isinstance(answer, OrderlyError):
                self._note(broker, answer, always=True)
        return answers

    def _note(self, broker: str, error: OrderlyError, *, always: bool = False) -> None:
        """Note a broker's first failure; a message that is gone, or out of time, is none."""
        silent = isinstance(error, RemotingError) and time.monotonic() < self._deadline
        if always or silent:
            self.errors.setdefault(broker, str(error))


def _offset_at(queue: MessageQueue, moment: float) -> Question[int]:
    """The offset of the first message stored at or after a time; the maximum if there is none."""
    header = SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=int(moment * 1000))
    return Question(
        request(header.code, to_ext(header)),
        lambda reply: from_ext(OffsetReply, reply.ext).offset,
        f"the offset of {queue} at a time",
    )
