"""A member looks at each topic once, before it joins: is its group new there?"""

import pytest

from orderly.consumer import first_looks
from orderly.consumer.first_looks import FirstLooks
from orderly.errors import OrderlyError
from orderly.model import MessageQueue, Permission
from orderly.namespace import RETRY_PREFIX

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def looks(session, monkeypatch):
    session.consume_from = "last"
    looks = FirstLooks(session, None)
    monkeypatch.setattr(first_looks, "now", lambda: looks.clock)
    looks.clock = 100.0
    return looks


def asked(cluster):
    """How many requests went out; forgets them."""
    count = sum(name != "route" for name, *_ in cluster.calls)
    cluster.calls.clear()
    return count


def test_a_topic_is_looked_at_once(looks, cluster):
    cluster.offsets[QUEUE] = 5
    looks.look("orders")
    assert asked(cluster) == 1
    cluster.offsets.clear()  # a broker that was killed, say
    looks.look("orders")
    assert looks.new_group(QUEUE) is None
    assert asked(cluster) == 0


def test_what_was_seen_before_the_group_began_stays(looks, cluster):
    looks.look("orders")
    cluster.offsets[QUEUE] = 5
    new = looks.new_group(QUEUE)
    assert {queue.queue_id: last.end for queue, last in new.ends.items()} == dict.fromkeys(
        range(4), 10
    )


@pytest.mark.parametrize(
    ("consume_from", "topic"), [("first", "orders"), ("last", RETRY_PREFIX + "group")]
)
def test_nobody_is_asked_where_it_does_not_matter(looks, session, cluster, consume_from, topic):
    session.consume_from = consume_from
    looks.look(topic)
    assert asked(cluster) == 0


def test_a_failure_is_told_to_who_takes_a_queue_and_the_next_look_is_2_s_later(looks, cluster):
    cluster.fail["known"] = OrderlyError("silent")
    looks.look("orders")
    assert asked(cluster) == 1
    for _ in range(8):  # queues of a round
        with pytest.raises(OrderlyError, match="silent"):
            looks.new_group(QUEUE)
    assert asked(cluster) == 0, "each would wait for the time-out"
    looks.clock += 2
    with pytest.raises(OrderlyError, match="silent"):
        looks.new_group(QUEUE)
    assert asked(cluster) == 1
    cluster.fail.clear()
    looks.clock += 2
    assert looks.new_group(QUEUE) is not None


def test_a_topic_that_is_subscribed_again_is_looked_at_again(looks, cluster):
    looks.look("orders")
    looks.forget(["orders", "never seen"])
    cluster.offsets[QUEUE] = 5
    assert looks.new_group(QUEUE) is None


def test_an_offset_in_a_queue_that_may_not_be_read_counts(looks, cluster):
    """An operator takes the read permission of a broker that is to go."""
    cluster.permission = Permission(0)
    cluster.offsets[QUEUE] = 5
    looks.look("orders")
    assert looks.new_group(QUEUE) is None
