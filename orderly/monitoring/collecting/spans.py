"""Minimum and maximum of every queue: one request a topic, or one a queue that reads no disk.

A topic's statistics (202) read the time of its last message from the log of the broker, which
fetches cold pages from its disk. In cold-safe mode each queue is asked for its maximum (30)
instead, and now and then for its minimum (31): both are in the broker's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from orderly.client.pipeline import Pipeline, Question
from orderly.errors import OrderlyError, RemotingError, TopicNotFound
from orderly.model import MessageQueue
from orderly.monitoring.collecting.memory import Memory
from orderly.monitoring.collecting.questions import maximum, minimum, topic_stats
from orderly.monitoring.collecting.round import Round
from orderly.monitoring.collecting.tables import Place, Queues, Spans
from orderly.protocol.stats_bodies import TopicOffset

Ask = tuple[Question[Any], Callable[[Any], None]]  # and what notes the answer


def ask_spans(
    pipeline: Pipeline,
    round_: Round,
    wanted: Mapping[str, Iterable[Queues]],
    memory: Memory | None,
    now: float,
) -> Spans:
    """Ask the masters for minima and maxima.

    Args:
        pipeline: to ask through.
        round_: of this scan.
        wanted: what to ask, by broker.
        memory: for minima, in cold-safe mode; None: ask for statistics.
        now: of the memory's clock.
    """
    spans = Spans()
    first = {
        broker: [ask for queues in topics for ask in _asks(spans, broker, queues, memory, now)]
        for broker, topics in wanted.items()
    }
    _ask(pipeline, round_, first, spans)
    _ask(pipeline, round_, {b: _late_asks(spans, b, topics) for b, topics in wanted.items()}, spans)
    if memory is not None:
        _remember(spans, memory, now)
    return spans


def _ask(pipeline: Pipeline, round_: Round, asks: Mapping[str, list[Ask]], spans: Spans) -> None:
    """Ask, and have each answer noted."""
    brokers = {broker: round_.masters[broker] for broker, some in asks.items() if some}
    answers = pipeline.ask_each(
        {address: [question for question, _ in asks[name]] for name, address in brokers.items()},
        round_.deadline,
    )
    for broker, address in brokers.items():
        for (_, note), answer in zip(asks[broker], answers[address], strict=True):
            if isinstance(answer, RemotingError):
                spans.silent.setdefault(broker, answer)
            note(answer)


def _asks(
    spans: Spans, broker: str, queues: Queues, memory: Memory | None, now: float
) -> Iterator[Ask]:
    place = (queues.topic, broker)
    if memory is None:
        yield topic_stats(queues.topic), partial(_note_stats, spans, place)
        ids = queues.removed
    else:
        minima = memory.minima(*place, now) or {}
        spans.tables[place].minimum.update(minima)
        missing = (i for i in range(queues.listed or 0) if i not in minima)
        yield from _minima(spans, place, missing)
        ids = queues.ids
    maxima = spans.tables[place].maximum
    for queue_id in ids:
        yield maximum(queues.topic, queue_id), partial(_note_offset, maxima, queue_id)


def _late_asks(spans: Spans, broker: str, topics: Iterable[Queues]) -> list[Ask]:
    """Minima of removed queues: only where something was stored, as asking creates the files."""
    return [
        ask
        for queues in topics
        if queues.removed
        for place in [(queues.topic, broker)]
        for stored in [[i for i in queues.removed if spans.tables[place].maximum.get(i)]]
        for ask in _minima(spans, place, stored)
    ]


def _minima(spans: Spans, place: Place, ids: Iterable[int]) -> Iterator[Ask]:
    minima = spans.tables[place].minimum
    for queue_id in ids:
        yield minimum(place[0], queue_id), partial(_note_offset, minima, queue_id)


def _note_stats(
    spans: Spans, place: Place, answer: dict[MessageQueue, TopicOffset] | OrderlyError
) -> None:
    if isinstance(answer, TopicNotFound):
        spans.gone.add(place)
    elif not isinstance(answer, OrderlyError):
        table = spans.tables[place]
        for queue, offsets in answer.items():
            table.minimum[queue.queue_id] = offsets.min_offset
            table.maximum[queue.queue_id] = offsets.max_offset
            table.stored_at[queue.queue_id] = offsets.last_update_time


def _note_offset(column: dict[int, int], queue_id: int, answer: int | OrderlyError) -> None:
    if not isinstance(answer, OrderlyError):
        column[queue_id] = answer


def _remember(spans: Spans, memory: Memory, now: float) -> None:
    for (topic, broker), table in spans.tables.items():
        if table.minimum and memory.minima(topic, broker, now) is None:
            memory.keep_minima(topic, broker, table.minimum, now)
