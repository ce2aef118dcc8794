"""The values: canonical queue order, and what a route says of its queues."""

from hypothesis import given
from hypothesis import strategies as st

from orderly.model import BrokerData, MessageQueue, Permission, QueueData, TopicRoute

RW = Permission.READ | Permission.WRITE


def route(*queues, down=()):
    names = sorted({q.broker_name for q in queues})
    addresses = {n: {1: "slave:1"} if n in down else {0: f"{n}:1", 1: "slave:1"} for n in names}
    brokers = tuple(BrokerData(n, "c", addresses[n]) for n in names)
    return TopicRoute("t", queues, brokers)


@given(st.permutations([MessageQueue("t", b, i) for b in ("b1", "b10", "b2") for i in (0, 2, 10)]))
def test_queues_sort_by_topic_broker_and_number(queues):
    assert [(q.broker_name, q.queue_id) for q in sorted(queues)] == [
        (b, i) for b in ("b1", "b10", "b2") for i in (0, 2, 10)
    ]


def test_read_and_write_queues_have_their_own_counts_and_permissions():
    found = route(
        QueueData("b", 4, 2, RW),
        QueueData("a", 1, 3, Permission.READ),
        QueueData("c", 3, 1, Permission.WRITE),
    )
    assert [(q.broker_name, q.queue_id) for q in found.read_queues()] == [
        ("a", 0), ("b", 0), ("b", 1), ("b", 2), ("b", 3),
    ]  # fmt: skip
    assert [(q.broker_name, q.queue_id) for q in found.write_queues()] == [
        ("b", 0), ("b", 1), ("c", 0),
    ]  # fmt: skip


def test_without_its_master_a_broker_is_read_but_not_written():
    found = route(QueueData("a", 1, 1, RW), QueueData("b", 1, 1, RW), down=["a"])
    assert [q.broker_name for q in found.read_queues()] == ["a", "b"]
    assert [q.broker_name for q in found.write_queues()] == ["b"]
    assert found.broker("a").master is None
    assert found.broker("missing") is None
