"""What the brokers said about their groups and topics, and which topics have to be looked at.

Every broker knows only its own part. A broker that did not answer leaves a part, too: what was
known of it before, or what the name server says of it, with its offsets not read.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from orderly.monitoring.collecting.names import (
    dead_letter_topic,
    group_of_retry_topic,
    is_book_keeping,
    is_system_group,
    pair_of_state_topic,
    retry_topic,
)
from orderly.monitoring.collecting.selection import Selection
from orderly.namespace import is_retry_topic
from orderly.ordering.state.topic import park_topic, state_topic
from orderly.protocol.topic_config import TopicConfig

Pair = tuple[str, str]  # group and topic
Offsets = Mapping[int, int]  # by queue id
_NOTHING: Offsets = {}


@dataclass(frozen=True, slots=True)
class Part:
    """One broker's part.

    Attributes:
        broker: its name.
        committed: by group and topic, the offsets by queue id; None: not read.
        pairs: groups and topics with offsets: of `committed`, or remembered.
        configs: its topics; None: not known.
        groups: its groups; None: not known.
        unread: groups whose offsets it refused to tell.
    """

    broker: str
    committed: Mapping[Pair, Offsets] | None = None
    pairs: Collection[Pair] = ()
    configs: Mapping[str, TopicConfig] | None = None
    groups: Collection[str] | None = None
    unread: frozenset[str] = frozenset()

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
    pairs: frozenset[Pair]
    retries: frozenset[Pair]
    extra: frozenset[str]
    topics: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        consumed = {topic for _, topic in chain(self.pairs, self.retries)}
        object.__setattr__(self, "topics", frozenset(consumed | self.extra))


def catalogue(
    parts: Sequence[Part],
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


def _existing(parts: Iterable[Part]) -> frozenset[str] | None:
    """All topics of all brokers; None if no broker told its topics."""
    tables = [part.configs for part in parts if part.configs is not None]
    return frozenset(chain.from_iterable(tables)) if tables else None


def _stored(parts: Sequence[Part], groups: frozenset[str], selection: Selection) -> Iterable[Pair]:
    """Pairs with offsets. What our own groups keep in topics of theirs is no backlog."""
    topics = {topic for part in parts for _, topic in part.pairs}
    chosen = {topic for topic in topics if selection.topic(topic) and not is_book_keeping(topic)}
    for part in parts:
        for group, topic in part.pairs:
            if group in groups and topic in chosen and topic != dead_letter_topic(group):
                yield group, topic


def _on_record(
    groups: Container[str], existing: Collection[str], selection: Selection
) -> Iterable[Pair]:
    """Pairs of which a state topic tells: offsets are deleted with a topic that is made anew."""
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
) -> Iterable[Pair]:
    if existing is None:
        return [(g, t) for g in groups if selection.topic(t := retry_topic(g))]
    owners = ((group_of_retry_topic(t, known, existing), t) for t in existing)
    return [(g, t) for g, t in owners if g is not None and g in groups and selection.topic(t)]


def _extra(
    groups: Iterable[str], pairs: Iterable[Pair], existing: frozenset[str] | None
) -> Iterable[str]:
    """Dead letters, states and parked messages of the groups, where there are such topics."""
    dead = (dead_letter_topic(group) for group in groups if not is_system_group(group))
    if existing is not None and not any(map(is_book_keeping, existing)):
        return [topic for topic in dead if topic in existing]
    own = (name(group, topic) for group, topic in pairs for name in (state_topic, park_topic))
    return [topic for topic in chain(dead, own) if existing is None or topic in existing]
