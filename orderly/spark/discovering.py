"""From options to exact ranges: which queues there are, and what the positions mean in each.

A job pins its ranges once and reads them as often as it likes; two scans that each asked for
"latest" would read different messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

from orderly.client import Client
from orderly.client.pipeline import Question
from orderly.config.arguments import check_given, check_kind, check_named_texts
from orderly.errors import OrderlyError, RouteError
from orderly.model import MessageQueue
from orderly.monitoring.collecting.questions import one_committed
from orderly.namespace import wrap
from orderly.protocol.ext import from_ext, to_ext
from orderly.protocol.frame import request
from orderly.protocol.headers import OffsetReply, SearchOffset
from orderly.spark.connecting import access_of
from orderly.spark.looking import ask_each, look, look_again, names
from orderly.spark.offsets.losses import Loss, Span
from orderly.spark.offsets.planning import (
    at_edge,
    check_named,
    check_order,
    planned,
    vanished,
    within,
)
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.options.parsing import ReadOptions, parse
from orderly.spark.options.positions import Committed, Edge, Exact, Moment, Position
from orderly.spark.telling import settle

Spans = Mapping[MessageQueue, Span]
R = TypeVar("R")


def pin(options: Mapping[str, str], client: Client | None = None) -> tuple[QueueRange, ...]:
    """Work out what a batch read with these options reads now, queue by queue.

    Args:
        options: of the source, as a user writes them.
        client: to ask with; None: a short-lived one, by the options.

    Returns:
        A range for each queue, sorted, empty ones too. `orderly.spark.source.read` takes them.

    Raises:
        ConfigError: a bad option, or an offset for a queue that is not read.
        DataLost: an offset that its queue does not have (unless failOnDataLoss=false).
        OrderlyError: no such topic, or a broker that does not answer.
    """
    check_kind("options", options, Mapping, "a mapping of str to str")
    check_named_texts("options", options)
    check_given("client", client, Client)
    wanted = parse(options)
    if client is not None:
        return pinned(client, wanted)
    with closing(access_of(wanted).client()) as own:
        return pinned(own, wanted)


def pinned(client: Client, wanted: ReadOptions) -> tuple[QueueRange, ...]:
    """As `pin`, for options that are read already."""
    start, end = _named(client, wanted.start), _named(client, wanted.end)
    spans, losses = _assigned(client, wanted, start, end)
    check_order(start, end)
    starts, ends = offsets_at(client, start, spans), offsets_at(client, end, spans)
    if isinstance(start, Committed) or isinstance(end, Committed):
        spans = _grown(client, spans)  # a group that reads on may be beyond the ends seen before
    ranges: list[QueueRange] = []
    for queue, span in sorted(spans.items()):
        kept, lost = planned(queue, starts[queue], ends[queue], span)
        ranges.append(kept)
        losses += lost
    settle(losses, fail=wanted.fail_on_data_loss)
    return tuple(ranges)


def starting(client: Client, wanted: ReadOptions) -> dict[MessageQueue, int]:
    """Where a stream begins in each queue that there is now; errors as `pin`."""
    start = _named(client, wanted.start)
    spans, _ = _assigned(client, wanted, start, Edge.LATEST)
    return offsets_at(client, start, spans)


def offsets_at(client: Client, position: Position, spans: Spans) -> dict[MessageQueue, int]:
    """Work out a position in each queue.

    Args:
        client: to ask with.
        position: with the broker's names.
        spans: of the queues.

    Raises:
        OrderlyError: a broker does not answer.
    """
    if isinstance(position, Edge):
        return {queue: at_edge(position, span) for queue, span in spans.items()}
    if isinstance(position, Exact):
        chosen = {queue: position.of(queue) for queue in spans}
        return {
            queue: at_edge(at, spans[queue]) if isinstance(at, Edge) else at
            for queue, at in chosen.items()
        }
    if isinstance(position, Moment):
        found = offsets_since(client, spans, position.millis)
        return {queue: within(at, spans[queue]) for queue, at in found.items()}
    told = _ask_each(client, spans, lambda queue: one_committed(position.group, queue))
    return {queue: spans[queue].low if at is None else at for queue, at in told.items()}


def offsets_since(
    client: Client, queues: Iterable[MessageQueue], millis: int
) -> dict[MessageQueue, int]:
    """The offset of each queue's first message stored at or after a time; maybe beyond its ends.

    Args:
        client: to ask with.
        queues: which.
        millis: since the epoch.
    """
    return _ask_each(client, queues, lambda queue: _search(queue, millis))


def in_namespace(client: Client, queue: MessageQueue) -> MessageQueue:
    """A queue that a user named, by the broker's name of its topic."""
    return replace(queue, topic=wrap(client.config.namespace, queue.topic))


def _assigned(
    client: Client, wanted: ReadOptions, start: Position, end: Position
) -> tuple[dict[MessageQueue, Span], list[Loss]]:
    """The queues to read, with what they hold, and what is lost of those that are no more."""
    assigned = {in_namespace(client, queue) for queue in wanted.selection.queues or ()}
    seen = look_again(client, names(client, wanted.selection), assigned).whole()
    spans = seen.spans
    chosen = assigned or set(spans)
    check_named(start, chosen, "startingOffsets")
    check_named(end, chosen, "endingOffsets")
    losses = vanished(chosen, start, end, spans)
    if away := [loss.queue for loss in losses if not seen.gone(loss.queue)]:
        raise RouteError(
            f"{away[0]} can't be read: the topic's route does not name its broker at the moment;"
            " wait until it is back"
        )
    return {queue: span for queue, span in spans.items() if queue in chosen}, losses


def _grown(client: Client, spans: Spans) -> dict[MessageQueue, Span]:
    """The queues with their ends of now."""
    now = look(client, sorted({queue.topic for queue in spans})).whole().spans
    return {
        queue: Span(span.low, now[queue].high) if queue in now else span
        for queue, span in spans.items()
    }


def _named(client: Client, position: Position) -> Position:
    """A position with the broker's names of topics and groups."""
    if isinstance(position, Exact):
        table = {in_namespace(client, queue): at for queue, at in position.offsets.items()}
        return replace(position, offsets=table)
    if isinstance(position, Committed):
        return Committed(wrap(client.config.namespace, position.group))
    return position


def _search(queue: MessageQueue, millis: int) -> Question[int]:
    header = SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=millis)
    return Question(
        request(header.code, to_ext(header)),
        lambda reply: from_ext(OffsetReply, reply.ext).offset,
        f"the offset of {queue} at a time",
    )


def _ask_each(
    client: Client, among: Iterable[MessageQueue], question: Callable[[MessageQueue], Question[R]]
) -> dict[MessageQueue, R]:
    """Ask about each queue, all brokers side by side; the first failure is raised."""
    queues: dict[str, list[MessageQueue]] = {}
    for queue in among:
        queues.setdefault(client.routes.address(queue), []).append(queue)
    asked = {address: [question(queue) for queue in those] for address, those in queues.items()}
    told = ask_each(client, asked)
    found: dict[MessageQueue, R] = {}
    for address, those in queues.items():
        for queue, answer in zip(those, told[address], strict=True):
            if isinstance(answer, OrderlyError):
                raise answer
            found[queue] = answer
    return found
