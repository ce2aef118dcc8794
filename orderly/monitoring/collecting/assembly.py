"""The columns of a scan, put together from what the brokers said. Pure.

Every broker knows only its own part. A broker that did not answer leaves a part, too: what was
known of it before, or what the name server says of it, with its offsets not read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, repeat

from orderly.errors import RemotingError
from orderly.model import MessageQueue, Permission
from orderly.monitoring.backlog.reading import NEVER, NOT_READ, Scan, TopicReading
from orderly.monitoring.collecting.selection import (
    Selection,
    dead_letter_topic,
    group_of_retry_topic,
    is_book_keeping,
    is_system_group,
    pair_of_state_topic,
    retry_topic,
)
from orderly.namespace import is_retry_topic
from orderly.ordering.topic_names import STATE_PREFIX, park_topic, state_topic
from orderly.protocol.topics import TopicConfig

TopicOfGroup = tuple[str, str]  # group and topic
Offsets = Mapping[int, int]  # by queue id
_NOTHING: Offsets = {}
known_state_topic = lru_cache(maxsize=65536)(state_topic)
"""Asked of each group and topic in every scan."""


@dataclass(frozen=True, slots=True)
class BrokerPart:
    """One broker's part.

    Attributes:
        broker: its name.
        committed: by group and topic, the offsets by queue id; None: not read.
        pairs: groups and topics with offsets: of `committed`, or remembered.
        configs: its topics; None: not known.
        groups: its groups; None: not known.
        unread: groups whose offsets it refused to give.
        barred: groups that it does not let consume.
    """

    broker: str
    committed: Mapping[TopicOfGroup, Offsets] | None = None
    pairs: Collection[TopicOfGroup] = ()
    configs: Mapping[str, TopicConfig] | None = None
    groups: Collection[str] | None = None
    unread: frozenset[str] = frozenset()
    barred: frozenset[str] = frozenset()

    def offsets(self, group: str, topic: str) -> Offsets | None:
        """What the group committed in the topic's queues here; None: not read."""
        if self.committed is None or group in self.unread:
            return None
        return self.committed.get((group, topic), _NOTHING)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What a scan is about.

    Attributes:
        groups: all chosen ones that are known.
        pairs: which topics each group has offsets or state records of, or subscribes to.
        retries: retry topics by group; they count as the group's only with messages or offsets.
        extra: topics of the chosen groups that nobody consumes: dead letters, states, parked.
    """

    groups: frozenset[str]
    pairs: frozenset[TopicOfGroup]
    retries: frozenset[TopicOfGroup]
    extra: frozenset[str]
    topics: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        consumed = {topic for _, topic in chain(self.pairs, self.retries)}
        object.__setattr__(self, "topics", frozenset(consumed | self.extra))


def catalogue(
    parts: Sequence[BrokerPart],
    selection: Selection,
    subscribed: Mapping[str, Collection[str]],
) -> Catalogue:
    """List what is chosen of what the brokers know.

    Args:
        parts: of all brokers.
        selection: of groups and topics.
        subscribed: topics by group that its members say they consume, with or without offsets.
    """
    known = {group for part in parts for group in part.groups or ()}
    known |= {group for part in parts for group, _ in part.pairs} | subscribed.keys()
    if any(part.groups is None for part in parts):
        known |= set(selection.named_groups)
    groups = frozenset(filter(selection.group, known))
    existing = _existing(parts)
    named = [t for t in selection.named_topics if existing is None or t in existing]
    pairs = set(_stored(parts, groups, selection))
    pairs |= {(g, t) for g in groups for t in subscribed.get(g, ()) if is_consumed(t, selection)}
    pairs |= set(_on_record(groups, existing or (), selection))
    pairs |= {(g, t) for g in groups.intersection(selection.named_groups) for t in named}
    pairs = {pair for pair in pairs if existing is None or pair[1] in existing}
    return Catalogue(
        groups,
        frozenset(pairs),
        frozenset(_retries(groups, known, existing, selection)),
        frozenset(_extra(groups, pairs, existing)),
    )


def _existing(parts: Iterable[BrokerPart]) -> frozenset[str] | None:
    """All topics of all brokers; None if no broker listed its topics."""
    tables = [part.configs for part in parts if part.configs is not None]
    return frozenset(chain.from_iterable(tables)) if tables else None


def _stored(
    parts: Sequence[BrokerPart], groups: frozenset[str], selection: Selection
) -> Iterable[TopicOfGroup]:
    """Pairs with offsets. What our own groups keep in topics of theirs is no backlog."""
    topics = {topic for part in parts for _, topic in part.pairs}
    chosen = {topic for topic in topics if selection.topic(topic) and not is_book_keeping(topic)}
    for part in parts:
        for group, topic in part.pairs:
            if group in groups and topic in chosen and topic != dead_letter_topic(group):
                yield group, topic


def _on_record(
    groups: Container[str], existing: Collection[str], selection: Selection
) -> Iterable[TopicOfGroup]:
    """Pairs that have a state topic: offsets are deleted with a topic that is recreated."""
    for name in existing:
        pair = pair_of_state_topic(name, groups, existing)
        if pair is not None and is_consumed(pair[1], selection):
            yield pair


def is_consumed(topic: str, selection: Selection) -> bool:
    """Whether a subscription to the topic makes it a group's; retries count only with messages."""
    return selection.topic(topic) and not is_retry_topic(topic)


def _retries(
    groups: frozenset[str],
    known: Collection[str],
    existing: frozenset[str] | None,
    selection: Selection,
) -> Iterable[TopicOfGroup]:
    if existing is None:
        return [(g, t) for g in groups if selection.topic(t := retry_topic(g))]
    owners = ((group_of_retry_topic(t, known, existing), t) for t in existing)
    return [(g, t) for g, t in owners if g is not None and g in groups and selection.topic(t)]


def _extra(
    groups: Iterable[str], pairs: Iterable[TopicOfGroup], existing: frozenset[str] | None
) -> Iterable[str]:
    """Dead letters, states and parked messages of the groups, where there are such topics."""
    dead = (dead_letter_topic(group) for group in groups if not is_system_group(group))
    if existing is not None and not any(map(is_book_keeping, existing)):
        return [topic for topic in dead if topic in existing]
    own = (name(group, topic) for group, topic in pairs for name in (state_topic, park_topic))
    return [topic for topic in chain(dead, own) if existing is None or topic in existing]


# --- what a scan asks and reads of topics: their queues, minima and maxima ------------------------


TopicOnBroker = tuple[str, str]  # topic and broker


@dataclass(frozen=True, slots=True)
class TopicQueues:
    """A topic's queues on one broker.

    Attributes:
        topic: its name.
        listed: how many there are by the topic's settings; None: not known.
        removed: further queues in which a group has an offset.
    """

    topic: str
    listed: int | None
    removed: tuple[int, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """All of them."""
        return (*range(self.listed or 0), *self.removed)


@dataclass(slots=True)
class TopicSpans:
    """What was read of a topic on one broker, by queue id; what could not be read is missing."""

    minimum: dict[int, int] = field(default_factory=dict)
    maximum: dict[int, int] = field(default_factory=dict)
    stored_at: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class QueueSpans:
    """What was read of all topics.

    Attributes:
        tables: by topic and broker.
        gone: topics that a broker says it does not have (any more).
        silent: the first failure of each broker that did not answer, by name.
    """

    tables: dict[TopicOnBroker, TopicSpans] = field(default_factory=lambda: defaultdict(TopicSpans))
    gone: set[TopicOnBroker] = field(default_factory=set)
    silent: dict[str, RemotingError] = field(default_factory=dict)


# --- the columns ----------------------------------------------------------------------------------


_UNTOUCHED = TopicSpans()


@dataclass(frozen=True, slots=True)
class _Share:
    """A topic's queues on one broker: those of the columns."""

    part: BrokerPart
    config: TopicConfig | None
    table: TopicSpans
    ids: Sequence[int]


def queues_wanted(
    parts: Sequence[BrokerPart], catalogue: Catalogue
) -> dict[str, list[TopicQueues]]:
    """Which topics, with which queues, each broker has to be asked about."""
    removed = {part.broker: _removed(part, catalogue) for part in parts}
    return {
        part.broker: [
            TopicQueues(topic, _listed(part, topic), removed[part.broker].get(topic, ()))
            for topic in sorted(catalogue.topics)
            if _has(part, topic)
        ]
        for part in parts
    }


def _has(part: BrokerPart, topic: str) -> bool:
    """Whether the topic is on the broker, for all that is known."""
    if part.configs is not None:
        return topic in part.configs
    return any(topic == name for _, name in part.pairs)


def _listed(part: BrokerPart, topic: str) -> int | None:
    config = (part.configs or {}).get(topic)
    return max(config.read_queues, config.write_queues) if config else None


def _removed(part: BrokerPart, catalogue: Catalogue) -> dict[str, tuple[int, ...]]:
    """Queues a topic has no more, in which a group has an offset; brokers store any."""
    found: dict[str, set[int]] = {}
    listed = {topic: _listed(part, topic) or 0 for topic in catalogue.topics if _has(part, topic)}
    for group, topic in chain(catalogue.pairs, catalogue.retries):
        count = listed.get(topic)
        offsets = part.offsets(group, topic)
        if offsets and count is not None and max(offsets) >= count:
            found.setdefault(topic, set()).update(i for i in offsets if i >= count)
    return {topic: tuple(sorted(ids)) for topic, ids in found.items()}


def assemble(
    parts: Sequence[BrokerPart],
    catalogue: Catalogue,
    wanted: Mapping[str, Iterable[TopicQueues]],
    spans: QueueSpans,
) -> tuple[dict[str, TopicReading], dict[TopicOfGroup, tuple[int, ...]]]:
    """Topics with their minima and maxima, and the committed offsets of each pair.

    A queue that was removed from its topic, and in which nothing is stored, is left out: the
    offset there may be anybody's slip of the pen.
    """
    shares: dict[str, list[_Share]] = {topic: [] for topic in catalogue.topics}
    for part in sorted(parts, key=lambda part: part.broker):
        for queues in wanted.get(part.broker, ()):
            if (queues.topic, part.broker) not in spans.gone:
                shares[queues.topic].append(_share(part, queues, spans))
    shares = {topic: found for topic, found in shares.items() if any(s.ids for s in found)}
    topics = {topic: _reading(topic, shares[topic]) for topic in sorted(shares)}
    committed = {
        (group, topic): _column(shares[topic], group, topic)
        for group, topic in sorted(catalogue.pairs)
        if topic in shares
    }
    for group, topic in sorted(catalogue.retries - catalogue.pairs):
        if topic in topics and _holds_messages(topics[topic]):
            committed[group, topic] = _column(shares[topic], group, topic)
    return topics, committed


def _share(part: BrokerPart, queues: TopicQueues, spans: QueueSpans) -> _Share:
    table = spans.tables.get((queues.topic, part.broker), _UNTOUCHED)
    config = (part.configs or {}).get(queues.topic)
    listed = set(range(queues.listed)) if queues.listed is not None else {*table.maximum}
    empty = {i for i in queues.removed if table.maximum.get(i) == 0}
    return _Share(part, config, table, sorted((listed | {*queues.removed}) - empty))


def _reading(topic: str, shares: Sequence[_Share]) -> TopicReading:
    queues = tuple(MessageQueue(topic, share.part.broker, i) for share in shares for i in share.ids)
    return TopicReading(
        topic,
        queues,
        minimum=_joined(map(s.table.minimum.get, s.ids, repeat(NOT_READ)) for s in shares),
        maximum=_joined(map(s.table.maximum.get, s.ids, repeat(NOT_READ)) for s in shares),
        stored_at=tuple(s.table.stored_at.get(i, 0.0) for s in shares for i in s.ids),
        unread=frozenset(_unread(topic, shares)),
        closed=frozenset(share.part.broker for share in shares if not _readable(share)),
    )


def _unread(topic: str, shares: Sequence[_Share]) -> Iterator[MessageQueue]:
    """Queues that no consumer sees: beyond the read number, or not readable."""
    for share in shares:
        if share.config is not None:
            first = share.config.read_queues if _readable(share) else 0
            for i in share.ids:
                if i >= first:
                    yield MessageQueue(topic, share.part.broker, i)


def _readable(share: _Share) -> bool:
    """Whether the topic's permission lets anybody read there, for all that is known."""
    return share.config is None or Permission.READ in Permission(share.config.perm)


def _column(shares: Sequence[_Share], group: str, topic: str) -> tuple[int, ...]:
    return _joined(_offsets(share, group, topic) for share in shares)


def _offsets(share: _Share, group: str, topic: str) -> Iterable[int]:
    offsets = share.part.offsets(group, topic)
    if offsets is None:
        return repeat(NOT_READ, len(share.ids))
    return map(offsets.get, share.ids, repeat(NEVER))


def _joined(columns: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(chain.from_iterable(columns))


def _holds_messages(reading: TopicReading) -> bool:
    return any(
        maximum > max(minimum, 0)
        for minimum, maximum in zip(reading.minimum, reading.maximum, strict=True)
    )


# --- columns as rows: the queues in which groups keep order by key --------------------------------


@dataclass(frozen=True, slots=True)
class ScannedQueue:
    """A source queue in a scan: what its group has committed, or NEVER; minimum and maximum."""

    group: str
    queue: MessageQueue
    minimum: int
    committed: int
    maximum: int


def queues_by_key(scan: Scan, groups: Container[str]) -> Iterator[ScannedQueue]:
    """The queues in which some groups keep order by key, as far as they can be judged.

    Args:
        scan: of now.
        groups: that may do so; who never did has no state topic, and is left out.
    """
    if not any(STATE_PREFIX in topic for topic in scan.topics):
        return
    for (group, topic), committed in scan.committed.items():
        reading = scan.topics.get(topic)
        if (
            reading is None
            or group not in groups
            or known_state_topic(group, topic) not in scan.topics
        ):
            continue
        for queue, start, at, end in zip(
            reading.queues, reading.minimum, committed, reading.maximum, strict=True
        ):
            if min(start, end) >= 0 and at >= NEVER:
                yield ScannedQueue(group, queue, start, at, end)
