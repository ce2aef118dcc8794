"""The columns of a scan, put together from what the brokers said. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from orderly.model import MessageQueue, Permission
from orderly.monitoring.backlog.reading import NEVER, NOT_READ, TopicReading
from orderly.monitoring.collecting.parts import Catalogue, Pair, Part
from orderly.monitoring.collecting.tables import Queues, Spans, Table
from orderly.protocol.topic_config import TopicConfig

_UNTOUCHED = Table()


@dataclass(frozen=True, slots=True)
class _Share:
    """A topic's queues on one broker: those of the columns."""

    part: Part
    config: TopicConfig | None
    table: Table
    ids: Sequence[int]


def queues_wanted(parts: Sequence[Part], catalogue: Catalogue) -> dict[str, list[Queues]]:
    """Which topics, with which queues, each broker has to be asked about."""
    removed = {part.broker: _removed(part, catalogue) for part in parts}
    return {
        part.broker: [
            Queues(topic, _listed(part, topic), removed[part.broker].get(topic, ()))
            for topic in sorted(catalogue.topics)
            if _has(part, topic)
        ]
        for part in parts
    }


def _has(part: Part, topic: str) -> bool:
    """Whether the topic is on the broker, for all that is known."""
    if part.configs is not None:
        return topic in part.configs
    return any(topic == name for _, name in part.pairs)


def _listed(part: Part, topic: str) -> int | None:
    config = (part.configs or {}).get(topic)
    return max(config.read_queues, config.write_queues) if config else None


def _removed(part: Part, catalogue: Catalogue) -> dict[str, tuple[int, ...]]:
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
    parts: Sequence[Part],
    catalogue: Catalogue,
    wanted: Mapping[str, Iterable[Queues]],
    spans: Spans,
) -> tuple[dict[str, TopicReading], dict[Pair, tuple[int, ...]]]:
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


def _share(part: Part, queues: Queues, spans: Spans) -> _Share:
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
    )


def _unread(topic: str, shares: Sequence[_Share]) -> Iterator[MessageQueue]:
    """Queues that no consumer is told of: beyond the read number, or not readable at all."""
    for share in shares:
        if share.config is not None:
            readable = Permission.READ in Permission(share.config.perm)
            first = share.config.read_queues if readable else 0
            for i in share.ids:
                if i >= first:
                    yield MessageQueue(topic, share.part.broker, i)


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
