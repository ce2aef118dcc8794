"""The base scan: offsets of all chosen groups, with a handful of requests and one a topic.

It leaves no traces: no pull, no lock, no heartbeat, no group of its own, nothing created. It
asks each master for all committed offsets, all topics and all groups, and only then for the
maxima: read the other way round, a busy queue would look as if its group were ahead.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, final

from orderly.client import Client
from orderly.client.pipeline import Pipeline, Question, RequestLimits
from orderly.errors import BrokerError, OrderlyError, RemotingError, TopicNotFound
from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import NEVER, NOT_READ, BrokerReading, GroupReading, Scan
from orderly.monitoring.collecting import questions
from orderly.monitoring.collecting.assembly import (
    BrokerPart,
    Catalogue,
    QueueSpans,
    TopicOfGroup,
    TopicOnBroker,
    TopicQueues,
    assemble,
    catalogue,
    is_consumed,
    queues_wanted,
)
from orderly.monitoring.collecting.questions import (
    BrokerSettings,
    ScanContext,
    maximum,
    minimum,
    route,
    topic_stats,
)
from orderly.monitoring.collecting.selection import EVERYTHING, PROXY_TOPIC, Selection
from orderly.protocol.codes import RequestCode
from orderly.protocol.route import ClusterInfo
from orderly.protocol.statistics import OffsetPair, TopicOffset
from orderly.protocol.topics import TopicConfig

# --- what earlier scans learned -------------------------------------------------------------------
# A later scan does not ask for it again, or cannot. A broker that is down is gone from the name
# server's list within seconds; only a monitor that saw it before knows that a part of the cluster
# is missing.


# Seconds after which a broker nobody sees any more counts as removed: what breaks in the evening
# must not look well in the morning.
FORGET_AFTER = 86_400.0
_SETTINGS_FOR = 60.0  # seconds
_MINIMA_FOR = 600.0  # seconds; minima move when whole files are deleted, once in hours


@dataclass(slots=True)
class _Known:
    part: BrokerPart
    at: float


@final
class ScanMemory:
    """Of one collector. Not thread-safe; times are any steady clock, seconds."""

    def __init__(self) -> None:
        self._brokers: dict[str, _Known] = {}
        self._settings: dict[str, tuple[float, BrokerSettings]] = {}
        self._minima: dict[tuple[str, str], tuple[float, Mapping[int, int]]] = {}

    # --- brokers -------------------------------------------------------------------------------

    def learn(self, part: BrokerPart, now: float) -> None:
        """Keep what a broker has just said; not its offsets."""
        self._brokers[part.broker] = _Known(replace(part, committed=None), now)

    def recall(self, broker: str) -> BrokerPart:
        """What is remembered of a broker: its offsets are not read."""
        known = self._brokers.get(broker)
        return known.part if known else BrokerPart(broker)

    def missed(self, present: Collection[str], now: float) -> dict[str, float]:
        """Brokers seen before that are not `present`, and seconds since they last answered."""
        for name in [n for n, known in self._brokers.items() if now - known.at > FORGET_AFTER]:
            del self._brokers[name]
        return {n: now - known.at for n, known in self._brokers.items() if n not in present}

    # --- what changes rarely -------------------------------------------------------------------

    def settings_due(self, broker: str, now: float) -> bool:
        """Whether a broker has to be asked for its settings."""
        at, _ = self._settings.get(broker, (None, None))
        return at is None or now - at > _SETTINGS_FOR

    def keep_settings(self, broker: str, settings: BrokerSettings | None, now: float) -> None:
        """Note a broker's settings; None: it does not say, and they are as before."""
        self._settings[broker] = (now, settings or self.settings(broker))

    def settings(self, broker: str) -> BrokerSettings:
        """A broker's settings, as far as they are known."""
        return self._settings.get(broker, (0.0, BrokerSettings()))[1]

    def minima(self, topic: str, broker: str, now: float) -> Mapping[int, int] | None:
        """A topic's minima by queue id on a broker; None: not known, or too old."""
        at, minima = self._minima.get((topic, broker), (now, None))
        return minima if now - at <= _MINIMA_FOR else None

    def keep_minima(self, topic: str, broker: str, minima: Mapping[int, int], now: float) -> None:
        """Note a topic's minima."""
        self._minima[topic, broker] = (now, minima)

    def forget_topics(self, present: Collection[str]) -> None:
        """Drop minima of topics that are gone."""
        for key in [key for key in self._minima if key[0] not in present]:
            del self._minima[key]


# --- the first questions: what each broker knows about offsets, topics and groups -----------------
# Three requests a broker answer for all groups. A broker that refuses to report the offsets of all
# groups at once (access rules) is asked group by group; one that does not answer leaves the part
# that is remembered of it.


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Opening:
    """What one broker said at first.

    Attributes:
        part: what is known of it.
        error: why something is missing; None: nothing is.
    """

    part: BrokerPart
    error: OrderlyError | None


def open_scan(
    pipeline: Pipeline, round_: ScanContext, selection: Selection, memory: ScanMemory, now: float
) -> dict[str, Opening]:
    """Ask every master; answers by broker name.

    Args:
        pipeline: to ask through.
        round_: of this scan.
        selection: says which groups to ask for singly, if it must be.
        memory: what earlier scans learned; it learns what the brokers say now.
        now: of the memory's clock.
    """
    asked = {
        address: _first_questions(selection, memory.settings_due(broker, now))
        for broker, address in round_.masters.items()
    }
    answers = pipeline.ask_each(asked, round_.deadline)
    openings = {}
    for broker, address in round_.masters.items():
        committed, configs, groups, *settings = answers[address]
        if settings:
            memory.keep_settings(broker, _value(settings[0]), now)
        part = _said(memory.recall(broker), _value(configs), _value(groups))
        if _refused(committed):
            opening = _group_by_group(pipeline, round_, part, selection, committed)
        elif isinstance(committed, OrderlyError):
            opening = Opening(part, committed)
        else:
            opening = Opening(_with_offsets(part, committed), _silence(configs, groups))
        if opening.part.committed is not None:
            memory.learn(opening.part, now)
        openings[broker] = opening
    return openings


def _first_questions(selection: Selection, with_settings: bool) -> Sequence[Question[Any]]:
    asked: list[Question[Any]] = [
        questions.all_committed(selection.named_groups if selection.only_named else None),
        questions.all_topics(),
        questions.all_groups(),
    ]
    return [*asked, questions.settings()] if with_settings else asked


def _value(answer: T | OrderlyError) -> T | None:
    return None if isinstance(answer, OrderlyError) else answer


def _refused(answer: object) -> bool:
    """Whether a broker that is well refuses; a busy one may answer the next time."""
    return isinstance(answer, BrokerError) and not answer.retriable


def _silence(*answers: object) -> RemotingError | None:
    return next((answer for answer in answers if isinstance(answer, RemotingError)), None)


def _said(
    known: BrokerPart, configs: Mapping[str, TopicConfig] | None, groups: dict[str, bool] | None
) -> BrokerPart:
    """What the broker says now, and for the rest what it said before."""
    if groups is not None:
        barred = frozenset(name for name, may_consume in groups.items() if not may_consume)
        known = replace(known, groups=frozenset(groups), barred=barred)
    return known if configs is None else replace(known, configs=configs)


def _with_offsets(
    part: BrokerPart, committed: Mapping[TopicOfGroup, Mapping[int, int]]
) -> BrokerPart:
    """With offsets checked: a broker stores any number that anybody commits."""
    checked = {
        pair: offsets if min(offsets.values(), default=0) >= 0 and min(offsets, default=0) >= 0
        else {i: max(offset, NEVER) for i, offset in offsets.items() if i >= 0}
        for pair, offsets in committed.items()
    }  # fmt: skip
    return replace(part, committed=checked, pairs=tuple(committed))


# --- without the right to read all offsets ---------------------------------------------------


def _group_by_group(
    pipeline: Pipeline,
    round_: ScanContext,
    part: BrokerPart,
    selection: Selection,
    refusal: OrderlyError,
) -> Opening:
    """Read the offsets of each chosen group; statistics say 0 where nothing was committed."""
    groups = sorted(filter(selection.group, part.groups or selection.named_groups))
    if not groups:
        return Opening(part, refusal)
    address = round_.masters[part.broker]
    stats = pipeline.ask(address, [questions.offsets_of_group(g) for g in groups], round_.deadline)
    read = {g: s for g, s in zip(groups, stats, strict=True) if not isinstance(s, OrderlyError)}
    errors = [answer for answer in stats if isinstance(answer, OrderlyError)]
    if not read:
        return Opening(part, errors[0])
    zeros = _checked_zeros(pipeline, address, read, round_.deadline)
    unread = frozenset(groups) - read.keys()
    found = replace(_with_zeros(part, read, zeros), unread=unread)
    return Opening(found, errors[0] if errors else None)


def _checked_zeros(
    pipeline: Pipeline,
    address: str,
    read: Mapping[str, Mapping[MessageQueue, OffsetPair]],
    deadline: float,
) -> dict[tuple[str, MessageQueue], int]:
    """The offsets reported as 0; NEVER where only the single question shows that none exists."""
    doubtful = [
        (group, queue)
        for group, table in read.items()
        for queue, offsets in table.items()
        if offsets.consumer_offset <= 0
    ]
    answers = pipeline.ask(address, [questions.one_committed(*it) for it in doubtful], deadline)
    return {it: _certain(answer) for it, answer in zip(doubtful, answers, strict=True)}


def _certain(answer: int | OrderlyError | None) -> int:
    if isinstance(answer, OrderlyError):
        return NOT_READ
    return NEVER if answer is None else max(answer, NEVER)


def _with_zeros(
    part: BrokerPart,
    read: Mapping[str, Mapping[MessageQueue, OffsetPair]],
    zeros: Mapping[tuple[str, MessageQueue], int],
) -> BrokerPart:
    committed: dict[TopicOfGroup, dict[int, int]] = {}
    for group, table in read.items():
        for queue, offsets in table.items():
            offset = zeros.get((group, queue), offsets.consumer_offset)
            committed.setdefault((group, queue.topic), {})[queue.queue_id] = offset
    return replace(part, committed=committed, pairs=tuple(committed))


# --- minimum and maximum of every queue: one request a topic, or one a queue ----------------------
# A topic's statistics (202) read the time of its last message from the log of the broker, which
# fetches cold pages from its disk. In cold-safe mode each queue is asked for its maximum (30)
# instead, and now and then for its minimum (31): both are in the broker's memory.


Ask = tuple[Question[Any], Callable[[Any], None]]  # and what notes the answer


def ask_spans(
    pipeline: Pipeline,
    round_: ScanContext,
    wanted: Mapping[str, Iterable[TopicQueues]],
    memory: ScanMemory | None,
    now: float,
) -> QueueSpans:
    """Ask the masters for minima and maxima.

    Args:
        pipeline: to ask through.
        round_: of this scan.
        wanted: what to ask, by broker.
        memory: for minima, in cold-safe mode; None: ask for statistics.
        now: of the memory's clock.
    """
    spans = QueueSpans()
    first = {
        broker: [ask for queues in topics for ask in _asks(spans, broker, queues, memory, now)]
        for broker, topics in wanted.items()
    }
    _ask(pipeline, round_, first, spans)
    _ask(pipeline, round_, {b: _late_asks(spans, b, topics) for b, topics in wanted.items()}, spans)
    if memory is not None:
        _remember(spans, memory, now)
    return spans


def _ask(
    pipeline: Pipeline, round_: ScanContext, asks: Mapping[str, list[Ask]], spans: QueueSpans
) -> None:
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
    spans: QueueSpans, broker: str, queues: TopicQueues, memory: ScanMemory | None, now: float
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
        yield maximum(MessageQueue(*place, queue_id)), partial(_note_offset, maxima, queue_id)


def _late_asks(spans: QueueSpans, broker: str, topics: Iterable[TopicQueues]) -> list[Ask]:
    """Minima of removed queues: only where something was stored, as asking creates the files."""
    return [
        ask
        for queues in topics
        if queues.removed
        for place in [(queues.topic, broker)]
        for stored in [[i for i in queues.removed if spans.tables[place].maximum.get(i)]]
        for ask in _minima(spans, place, stored)
    ]


def _minima(spans: QueueSpans, place: TopicOnBroker, ids: Iterable[int]) -> Iterator[Ask]:
    minima = spans.tables[place].minimum
    for queue_id in ids:
        yield minimum(MessageQueue(*place, queue_id)), partial(_note_offset, minima, queue_id)


def _note_stats(
    spans: QueueSpans, place: TopicOnBroker, answer: dict[MessageQueue, TopicOffset] | OrderlyError
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


def _remember(spans: QueueSpans, memory: ScanMemory, now: float) -> None:
    for (topic, broker), table in spans.tables.items():
        if table.minimum and memory.minima(topic, broker, now) is None:
            memory.keep_minima(topic, broker, table.minimum, now)


# --- the scan -------------------------------------------------------------------------------------


_NOBODY: Mapping[str, Collection[str]] = {}


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """How a cluster is scanned.

    Attributes:
        deadline: seconds for a whole scan; what is not known by then is not read. A broker that
            hangs uses up half of it at most before the others are asked on.
        limits: for each broker.
        cold_safe: never let a broker read its log: one request a queue instead of one a topic,
            and no times of last messages.
    """

    deadline: float = 10.0
    limits: RequestLimits = field(default_factory=RequestLimits)
    cold_safe: bool = False


@final
class Collector:
    """Scans one cluster, again and again. One scan at a time; not thread-safe.

    Args:
        client: need not be started; it sends no heartbeat for this.
        selection: which groups and topics.
        settings: see their class.

    Attributes:
        pipeline: what it asks through; may be used for more questions after a scan.
        round: addresses and deadline of the last scan.
    """

    def __init__(
        self,
        client: Client,
        selection: Selection = EVERYTHING,
        settings: ScanSettings | None = None,
    ) -> None:
        self.settings = settings or ScanSettings()
        self.selection = selection
        self.pipeline = Pipeline(client.connections, self.settings.limits)
        self.round = ScanContext({}, 0.0)
        self._client = client
        self._memory = ScanMemory()

    def scan(self, subscribed: Mapping[str, Collection[str]] = _NOBODY) -> Scan:
        """Read the offsets of all chosen groups. Blocks.

        A broker that does not answer leaves its part NOT_READ; the rest is fresh.

        Args:
            subscribed: topics by group that its members say they consume, so that they are seen
                before the group commits there for the first time.

        Raises:
            NameServerUnavailable: no name server answered, so nothing is known.
        """
        at, began = time.time(), time.monotonic()
        self.pipeline.begin()
        cluster = self._client.admin.cluster()
        masters = {name: data.master for name, data in cluster.brokers.items() if data.master}
        self.round = ScanContext(masters, began + self.settings.deadline)
        half = replace(self.round, deadline=began + self.settings.deadline / 2)
        openings = open_scan(self.pipeline, half, self.selection, self._memory, began)
        self.round = replace(self.round, proxied=_proxied(openings))
        openings |= self._absent(cluster, began)
        parts, chosen = self._placed([it.part for it in openings.values()], subscribed)
        wanted = queues_wanted(parts, chosen)
        spans = self._spans({name: wanted[name] for name in masters}, began)
        self._memory.forget_topics(chosen.topics)
        topics, committed = assemble(parts, chosen, wanted, spans)
        return Scan(
            at=at,
            seconds=time.monotonic() - began,
            cluster=next(iter(cluster.clusters)) if len(cluster.clusters) == 1 else "",
            brokers={n: self._broker(n, it, spans) for n, it in sorted(openings.items())},
            topics=topics,
            committed=committed,
            groups={group: GroupReading(group) for group in sorted(chosen.groups)},
            requests=self.pipeline.counts() + Counter([int(RequestCode.GET_BROKER_CLUSTER_INFO)]),
        )

    def consumes(self, topic: str) -> bool:
        """Whether a scan shows the topic if members say that they consume it."""
        return is_consumed(topic, self.selection)

    def _absent(self, cluster: ClusterInfo, now: float) -> dict[str, Opening]:
        """Brokers without a master, and those no name server lists any more."""
        reasons = {
            name: f"broker {name!r} has no master at the name server; wait until it is back"
            for name, data in cluster.brokers.items()
            if not data.master
        }
        for name, seconds in self._memory.missed(cluster.brokers.keys(), now).items():
            reasons[name] = (
                f"broker {name!r} is no longer listed by the name server; it answered"
                f" {seconds:.0f} s ago: start it again (if it was removed, restart this monitor)"
            )
        return {n: Opening(self._memory.recall(n), RemotingError(r)) for n, r in reasons.items()}

    def _placed(
        self, parts: list[BrokerPart], subscribed: Mapping[str, Collection[str]]
    ) -> tuple[list[BrokerPart], Catalogue]:
        """What the scan is about; queues that no broker lists are taken from the name server."""
        chosen = catalogue(parts, self.selection, subscribed)
        if all(part.configs is not None for part in parts) or not chosen.topics:
            return parts, chosen
        routes = self._by_route(sorted(chosen.topics))
        parts = [
            part if part.configs is not None else replace(part, configs=routes.get(part.broker))
            for part in parts
        ]
        return parts, catalogue(parts, self.selection, subscribed)

    def _by_route(self, topics: list[str]) -> dict[str, dict[str, TopicConfig]]:
        """Queue numbers by broker and topic, as the first name server that answers has them."""
        found: dict[str, dict[str, TopicConfig]] = {}
        for address in self._client.name_servers.addresses:
            asked = [route(topic) for topic in topics]
            answers = self.pipeline.ask(address, asked, self.round.deadline)
            for answer in answers:
                if isinstance(answer, OrderlyError):
                    continue
                for data in answer.queues:
                    found.setdefault(data.broker_name, {})[answer.topic] = TopicConfig(
                        name=answer.topic,
                        read_queues=data.read_queues,
                        write_queues=data.write_queues,
                        perm=int(data.permission),
                    )
            if not all(isinstance(answer, RemotingError) for answer in answers):
                break
        return found

    def _spans(self, wanted: Mapping[str, list[TopicQueues]], now: float) -> QueueSpans:
        memory = self._memory if self.settings.cold_safe else None
        return ask_spans(self.pipeline, self.round, wanted, memory, now)

    def _broker(self, name: str, opening: Opening, spans: QueueSpans) -> BrokerReading:
        error = opening.error or spans.silent.get(name)
        traffic = self.pipeline.traffic(self.round.masters.get(name, ""))
        settings = self._memory.settings(name)
        return BrokerReading(
            name,
            error=str(error) if error else None,
            requests=traffic.requests.total(),
            seconds=traffic.seconds,
            retention=settings.retention,
            serves_reads=settings.serves_reads,
            barred=opening.part.barred,
        )


def _proxied(openings: Mapping[str, Opening]) -> frozenset[str]:
    """The brokers at which proxies list their clients for each other, or did."""
    return frozenset(
        name for name, it in openings.items() if PROXY_TOPIC in (it.part.configs or ())
    )
