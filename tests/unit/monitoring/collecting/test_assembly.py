"""Columns out of what brokers said, for any layout, any offsets and any broker silent."""

from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import NEVER, NOT_READ
from orderly.monitoring.collecting.assembly import (
    BrokerPart,
    QueueSpans,
    TopicSpans,
    assemble,
    catalogue,
    queues_wanted,
)
from orderly.monitoring.collecting.selection import EVERYTHING
from orderly.protocol.topics import TopicConfig

GROUPS = ("pay", "ship")
TOPICS = ("orders", "parcels")

configs = st.dictionaries(
    st.sampled_from(TOPICS),
    st.builds(
        lambda read, write, perm: (read, write, perm),
        st.integers(0, 4),
        st.integers(0, 4),
        st.sampled_from((2, 4, 6)),
    ),
)
offsets = st.dictionaries(st.integers(0, 5), st.integers(0, 9))
committed = st.dictionaries(
    st.tuples(st.sampled_from(GROUPS), st.sampled_from(TOPICS)), offsets.filter(bool)
)


@st.composite
def part(draw, broker):
    """What one broker said, and whether it goes on answering."""
    stored = draw(committed)
    sizes = draw(configs)
    made = BrokerPart(
        broker,
        committed=stored if draw(st.booleans()) else None,
        pairs=tuple(stored),
        configs={
            name: TopicConfig(name=name, read_queues=read, write_queues=write, perm=perm)
            for name, (read, write, perm) in sizes.items()
        },
        groups=frozenset(GROUPS),
    )
    return made, draw(st.booleans())


def spans_of(parts, wanted):
    """Every queue of answering brokers has its number as minimum, and 10 more as maximum."""
    spans = QueueSpans()
    for one, answers in parts:
        for queues in wanted[one.broker]:
            if answers:
                spans.tables[queues.topic, one.broker] = TopicSpans(
                    minimum={i: i for i in queues.ids},
                    maximum={i: i + 10 for i in queues.ids},
                )
    return spans


@given(part("b"), part("a"))
def test_every_column_tells_of_the_same_queues(one, other):
    parts = [one[0], other[0]]
    chosen = catalogue(parts, EVERYTHING, {})
    wanted = queues_wanted(parts, chosen)
    topics, columns = assemble(parts, chosen, wanted, spans_of((one, other), wanted))
    for topic, reading in topics.items():
        assert list(reading.queues) == sorted(set(reading.queues))
        assert {queue.topic for queue in reading.queues} == {topic}
        lengths = {len(reading.minimum), len(reading.maximum), len(reading.stored_at)}
        assert lengths == {len(reading.queues)}
        assert reading.unread <= set(reading.queues)
    for (_, topic), column in columns.items():
        assert len(column) == len(topics[topic].queues)


@given(part("b"), part("a"))
def test_each_number_is_what_its_broker_said(one, other):
    parts = {it[0].broker: it for it in (one, other)}
    made = [it[0] for it in parts.values()]
    chosen = catalogue(made, EVERYTHING, {})
    wanted = queues_wanted(made, chosen)
    topics, columns = assemble(made, chosen, wanted, spans_of(parts.values(), wanted))
    for (group, topic), column in columns.items():
        for queue, offset in zip(topics[topic].queues, column, strict=True):
            stored = parts[queue.broker_name][0].committed
            said = NOT_READ if stored is None else stored.get((group, topic), {})
            expected = said if said == NOT_READ else said.get(queue.queue_id, NEVER)
            assert offset == expected
    for reading in topics.values():
        for queue, low, high in zip(reading.queues, reading.minimum, reading.maximum, strict=True):
            answered = parts[queue.broker_name][1]
            number = queue.queue_id
            assert (low, high) == ((number, number + 10) if answered else (NOT_READ, NOT_READ))


@given(part("a"))
def test_no_queue_of_the_topics_settings_is_missing(one):
    made, _ = one
    chosen = catalogue([made], EVERYTHING, {})
    wanted = queues_wanted([made], chosen)
    topics, _ = assemble([made], chosen, wanted, spans_of([one], wanted))
    for _, topic in chosen.pairs:
        config = made.configs[topic]
        listed = range(max(config.read_queues, config.write_queues))
        found = topics[topic].queues if topic in topics else ()
        assert set(found) >= {MessageQueue(topic, "a", i) for i in listed}
