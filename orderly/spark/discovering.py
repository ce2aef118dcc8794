"""From options to exact ranges: which queues there are, and what the positions mean in each.

A job pins its ranges once and reads them as often as it likes; two scans that each asked for
"latest" would read different messages.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeVar

from orderly.client import Client
from orderly.client.pipeline import Pipeline, Question, RequestLimits
from orderly.config.arguments import check_given, check_kind, check_named_texts
from orderly.errors import ConfigError, OrderlyError, RouteError, TopicNotFound
from orderly.model import MessageQueue, TopicRoute
from orderly.monitoring.collecting.questions import one_committed, topic_stats
from orderly.monitoring.collecting.selection import is_system_topic
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX, unwrap, wrap
from orderly.protocol.ext import from_ext, of_queue, to_ext
from orderly.protocol.frame import request
from orderly.protocol.offsets import OffsetReply, SearchOffset
from orderly.protocol.statistics import TopicOffset
from orderly.spark.offsets import (
    CUT,
    GONE,
    Edge,
    ExactPosition,
    GroupPosition,
    Loss,
    OffsetSpan,
    Position,
    QueueRange,
    TimePosition,
    readable,
    settle,
)
from orderly.spark.options import ReadOptions, TopicSelection, access_of, parse_read

OffsetSpans = Mapping[MessageQueue, OffsetSpan]


def pin(options: Mapping[str, str], client: Client | None = None) -> tuple[QueueRange, ...]:
    """Find out what a batch read with these options reads now, queue by queue.

    Args:
        options: of the source, as a user writes them.
        client: the client to use; None: a short-lived one, by the options.

    Returns:
        A range for each queue, sorted, empty ones too, for `orderly.spark.source.read`.

    Raises:
        ConfigError: a bad option, or an offset for a queue that is not read.
        DataLost: an offset that its queue does not have (unless failOnDataLoss=false).
        OrderlyError: no such topic, or a broker that does not answer.
    """
    check_kind("options", options, Mapping, "a mapping of str to str")
    check_named_texts("options", options)
    check_given("client", client, Client)
    wanted = parse_read(options)
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
    if isinstance(start, GroupPosition) or isinstance(end, GroupPosition):
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


def offsets_at(client: Client, position: Position, spans: OffsetSpans) -> dict[MessageQueue, int]:
    """Work out a position in each queue.

    Args:
        client: to ask with.
        position: with the broker's names.
        spans: of the queues.

    Raises:
        ConfigError: a group that has committed nothing in one of the topics.
        OrderlyError: a broker does not answer.
    """
    if isinstance(position, Edge):
        return {queue: at_edge(position, span) for queue, span in spans.items()}
    if isinstance(position, ExactPosition):
        chosen = {queue: position.of(queue) for queue in spans}
        return {
            queue: at_edge(at, spans[queue]) if isinstance(at, Edge) else at
            for queue, at in chosen.items()
        }
    if isinstance(position, TimePosition):
        found = offsets_since(client, spans, position.millis)
        return {queue: within(at, spans[queue]) for queue, at in found.items()}

    def of_queues(queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        return _ask_of_queues(client, queues, lambda queue: one_committed(position.group, queue))

    answers = of_queues(spans)
    known = known_in(answers)
    # Of topics that are read in part, the other queues: they may know the group.
    unknown = {queue.topic for queue in spans} - known
    whole = [q for topic in unknown for q in client.routes.get(topic).read_queues()]
    known |= known_in(of_queues(queue for queue in whole if queue not in spans))
    return committed(position, answers, spans, known)


def offsets_since(
    client: Client, queues: Iterable[MessageQueue], millis: int
) -> dict[MessageQueue, int]:
    """The offset of each queue's first message stored at or after a time; maybe beyond its ends.

    Args:
        client: to ask with.
        queues: which.
        millis: since the epoch.
    """
    return _ask_of_queues(client, queues, lambda queue: _search(queue, millis))


def in_namespace(client: Client, queue: MessageQueue) -> MessageQueue:
    """A queue that a user named, by the broker's name of its topic."""
    return replace(queue, topic=wrap(client.config.namespace, queue.topic))


def _assigned(
    client: Client, wanted: ReadOptions, start: Position, end: Position
) -> tuple[dict[MessageQueue, OffsetSpan], list[Loss]]:
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


def _grown(client: Client, spans: OffsetSpans) -> dict[MessageQueue, OffsetSpan]:
    """The queues with their ends of now."""
    now = look(client, sorted({queue.topic for queue in spans})).whole().spans
    return {
        queue: OffsetSpan(span.low, now[queue].high) if queue in now else span
        for queue, span in spans.items()
    }


def _named(client: Client, position: Position) -> Position:
    """A position with the broker's names of topics and groups."""
    if isinstance(position, ExactPosition):
        table = {in_namespace(client, queue): at for queue, at in position.offsets.items()}
        return replace(position, offsets=table)
    if isinstance(position, GroupPosition):
        return replace(position, group=wrap(client.config.namespace, position.group))
    return position


def _search(queue: MessageQueue, millis: int) -> Question[int]:
    header = SearchOffset(**of_queue(queue), timestamp=millis)
    return Question(
        request(header.code, to_ext(header)),
        lambda reply: from_ext(OffsetReply, reply.ext).offset,
        f"the offset of {queue} at a time",
    )


def _ask_of_queues(
    client: Client, among: Iterable[MessageQueue], question: Callable[[MessageQueue], Question[R]]
) -> dict[MessageQueue, R]:
    """Ask about each queue, all brokers side by side; the first failure is raised."""
    queues: dict[str, list[MessageQueue]] = {}
    for queue in among:
        queues.setdefault(client.routes.address(queue), []).append(queue)
    asked = {address: [question(queue) for queue in those] for address, those in queues.items()}
    answers = ask_each(client, asked)
    found: dict[MessageQueue, R] = {}
    for address, those in queues.items():
        for queue, answer in zip(those, answers[address], strict=True):
            if isinstance(answer, OrderlyError):
                raise answer
            found[queue] = answer
    return found


# --- from what the user wants of a queue, and what the queue holds, to the range that is read -----
# Pure.


_SHOWN = 5  # queues in an error's text


def planned(
    queue: MessageQueue, start: int, end: int, span: OffsetSpan
) -> tuple[QueueRange, list[Loss]]:
    """The range to read of a queue, and what it should have held besides.

    Args:
        queue: which.
        start: where to begin; may lie outside of the queue if a user, or a group's commit, says so.
        end: where to end, likewise.
        span: what the queue holds.
    """
    if start > max(end, span.high):
        return QueueRange(queue, span.high, span.high), [Loss(queue, span.high, start, CUT)]
    kept, losses = readable(QueueRange(queue, min(start, end), end), span)
    return kept, list(losses)


def at_edge(edge: Edge, span: OffsetSpan) -> int:
    """The offset at one end of a queue."""
    return span.low if edge is Edge.EARLIEST else span.high


def known_in(answers: Mapping[MessageQueue, int | None]) -> set[str]:
    """The topics in which a group is known: in one of the queues it has committed something."""
    return {queue.topic for queue, at in answers.items() if at is not None}


def committed(
    position: GroupPosition,
    answers: Mapping[MessageQueue, int | None],
    spans: OffsetSpans,
    known: Collection[str],
) -> dict[MessageQueue, int]:
    """Where a group is in each queue.

    It has committed nothing yet in a queue that was added, or that it holds no message of: there
    the oldest message counts. In all queues of a topic that means that nobody knows it there.

    Args:
        position: the group's.
        answers: what it has committed in each queue; None: nothing.
        spans: of the same queues.
        known: topics in which it has committed something, in these queues or in others.

    Raises:
        ConfigError: it has committed nothing in a topic with messages, and `position` does not say
            what that means.
    """
    filled = {queue.topic for queue, span in spans.items() if span.high > span.low}
    unknown = filled.difference(known)
    if unknown and position.unknown is None:
        raise ConfigError(
            f"group {position.group!r} has committed nothing in {', '.join(sorted(unknown))}:"
            " check the group's name, or set unknownGroup=earliest or unknownGroup=latest"
        )
    elsewhere = position.unknown or Edge.EARLIEST
    return {
        queue: at
        if at is not None
        else at_edge(elsewhere if queue.topic in unknown else Edge.EARLIEST, spans[queue])
        for queue, at in answers.items()
    }


def within(offset: int, span: OffsetSpan) -> int:
    """An offset moved into its queue: a broker may answer a search for a time from beyond."""
    return min(max(offset, span.low), span.high)


def check_named(position: Position, queues: Collection[MessageQueue], what: str) -> None:
    """Refuse offsets for queues that are not read.

    Raises:
        ConfigError: with the queues that there are.
    """
    if not isinstance(position, ExactPosition):
        return
    strange = sorted(set(position.offsets) - set(queues))
    if strange:
        raise ConfigError(
            f"{what} names {_listed(strange)}, which is not among the queues read:"
            f" {_listed(sorted(queues))}"
        )


def check_order(start: Position, end: Position) -> None:
    """Refuse a queue that would end before it begins.

    Raises:
        ConfigError: naming it.
    """
    if not isinstance(start, ExactPosition) or not isinstance(end, ExactPosition):
        return
    for queue, low in sorted(start.offsets.items()):
        high = end.offsets.get(queue, low)
        if 0 <= high < low:
            raise ConfigError(f"{queue} would begin at {low} and end at {high}; swap them")


def vanished(
    queues: Collection[MessageQueue],
    start: Position,
    end: Position,
    there: Mapping[MessageQueue, OffsetSpan],
) -> list[Loss]:
    """What is lost of queues that were assigned and are no more.

    Raises:
        ConfigError: nothing says that they ever were.
    """
    missing = sorted(queue for queue in queues if queue not in there)
    starts = start.offsets if isinstance(start, ExactPosition) else {}
    ends = end.offsets if isinstance(end, ExactPosition) else {}
    strange = [queue for queue in missing if queue not in starts or queue not in ends]
    if strange:
        raise ConfigError(
            f"assign names {_listed(strange)}, which does not exist, or its broker is away;"
            f" there are {_listed(sorted(there))}"
        )
    return [
        Loss(queue, starts[queue], ends[queue], GONE)
        for queue in missing
        if 0 <= starts[queue] < ends[queue]
    ]


def _listed(queues: Collection[MessageQueue]) -> str:
    shown = ", ".join(str(queue) for queue in list(queues)[:_SHOWN])
    rest = len(queues) - _SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown or "none"


# --- what the brokers hold of the topics to be read -----------------------------------------------
# The queues, and each queue's span: one request a topic and broker, to all brokers at once. A
# broker that does not answer is part of the answer: whether that matters depends on who asks.


R = TypeVar("R")
Answers = dict[str, list[R | OrderlyError]]

_PATIENCE = 10.0  # seconds for all questions of one round


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """What was seen at one moment.

    Attributes:
        spans: by queue.
        silent: why nothing is known of a (topic, broker); of ("orders", "") of all its brokers.
        up: names of the brokers that were up before and after, so that a queue of theirs that was
            not seen is gone.
    """

    spans: Mapping[MessageQueue, OffsetSpan]
    silent: Mapping[tuple[str, str], OrderlyError]
    up: frozenset[str] = frozenset()

    def whole(self) -> TopicsSeen:
        """Itself, if everybody answered.

        Raises:
            OrderlyError: what the first one said that did not.
        """
        for error in self.silent.values():
            raise error
        return self

    def gone(self, queue: MessageQueue) -> bool:
        """Whether the queue is no more, and not only out of reach."""
        topic, broker = queue.topic, queue.broker_name
        routed = isinstance(self.silent.get((topic, "")), TopicNotFound | None)
        answered = routed and (topic, broker) not in self.silent
        return answered and queue not in self.spans and broker in self.up


def look(client: Client, topics: Sequence[str]) -> TopicsSeen:
    """Look at topics, each queue that can be read.

    Args:
        client: asks; its topics are the broker's names, with their namespace.
        topics: the same.
    """
    silent: dict[tuple[str, str], OrderlyError] = {}
    routes: dict[str, TopicRoute] = {}
    for topic in topics:
        try:
            routes[topic] = client.routes.refresh(topic)
        except OrderlyError as error:
            silent[topic, ""] = error
    answers = _ask_masters(client, routes, silent)
    spans = {
        queue: OffsetSpan(answer[queue].min_offset, answer[queue].max_offset)
        for (topic, broker), answer in answers.items()
        for queue in routes[topic].read_queues()
        if queue.broker_name == broker and queue in answer
    }
    return TopicsSeen(spans, silent)


def look_closely(client: Client, topics: Sequence[str]) -> TopicsSeen:
    """Look, and also at which brokers are up.

    A queue that is missing may be gone, or its broker restarting: one that ends takes its queues
    out of the routes. So the list of brokers is read before the routes and after.
    """
    before = _brokers_up(client)
    seen = look(client, topics)
    return TopicsSeen(seen.spans, seen.silent, before & _brokers_up(client))


def look_again(
    client: Client, topics: Sequence[str], known: Collection[MessageQueue]
) -> TopicsSeen:
    """Look at topics of which queues are `known`, closely only if one of them is missing."""
    seen = look(client, topics)
    missing = [queue for queue in known if queue not in seen.spans]
    if all((queue.topic, queue.broker_name) in seen.silent for queue in missing):
        return seen
    return look_closely(client, topics)


def names(client: Client, selection: TopicSelection) -> tuple[str, ...]:
    """The topics selected, by the broker's names.

    Raises:
        ConfigError: a pattern that matches none.
        NameServerUnavailable: it has to be asked which there are, and none answered.
    """
    namespace = client.config.namespace
    if not selection.pattern:
        return tuple(wrap(namespace, topic) for topic in selection.topics)
    users = [
        topic
        for topic in client.admin.topics()
        if not _internal(topic) and wrap(namespace, topic) == topic  # not another tenant's
    ]
    found = [topic for topic in users if re.fullmatch(selection.pattern, unwrap(namespace, topic))]
    if not found:
        raise ConfigError(
            f"topicPattern={selection.pattern!r} matches none of the {len(users)} topics; it must"
            " match a whole name, as in 'orders.*'"
        )
    return tuple(found)


def selected(client: Client, selection: TopicSelection, queue: MessageQueue) -> bool:
    """Whether a queue, by the broker's name of its topic, is among what is read."""
    namespace = client.config.namespace
    if wrap(namespace, queue.topic) != queue.topic:
        return False  # another tenant's
    bare = unwrap(namespace, queue.topic)
    if selection.pattern:
        return re.fullmatch(selection.pattern, bare) is not None
    if selection.queues is None:
        return not {queue.topic, bare}.isdisjoint(selection.topics)
    return not selection.queues.isdisjoint({queue, replace(queue, topic=bare)})


def _internal(topic: str) -> bool:
    return topic.startswith((RETRY_PREFIX, DEAD_PREFIX)) or is_system_topic(topic)


def _ask_masters(
    client: Client,
    routes: Mapping[str, TopicRoute],
    silent: dict[tuple[str, str], OrderlyError],
) -> dict[tuple[str, str], dict[MessageQueue, TopicOffset]]:
    """The spans that each broker reports for each topic; who did not is put into `silent`."""
    asked: dict[str, list[tuple[str, str]]] = {}
    for topic, route in routes.items():
        for broker in route.brokers:
            if broker.master is None:
                silent[topic, broker.broker_name] = RouteError(
                    f"broker {broker.broker_name!r} has no master at the moment, and topic"
                    f" {topic!r} has queues there; wait until it is back"
                )
            else:
                asked.setdefault(broker.master, []).append((topic, broker.broker_name))
    questions: dict[str, list[Question[dict[MessageQueue, TopicOffset]]]] = {
        address: [topic_stats(topic) for topic, _ in pairs] for address, pairs in asked.items()
    }
    answers = ask_each(client, questions)
    found: dict[tuple[str, str], dict[MessageQueue, TopicOffset]] = {}
    for address, pairs in asked.items():
        for pair, answer in zip(pairs, answers[address], strict=True):
            if isinstance(answer, OrderlyError):
                silent[pair] = answer
            else:
                found[pair] = answer
    return found


def ask_each(client: Client, questions: Mapping[str, list[Question[R]]]) -> Answers[R]:
    """Ask several addresses side by side; an error is an answer, too."""
    limits = RequestLimits(patience=client.config.request_timeout)
    pipeline = Pipeline(client.connections, limits)
    return pipeline.ask_each(questions, time.monotonic() + _PATIENCE)


def _brokers_up(client: Client) -> frozenset[str]:
    try:
        brokers = client.admin.cluster().brokers
    except OrderlyError:
        return frozenset()
    return frozenset(name for name, broker in brokers.items() if broker.master)
