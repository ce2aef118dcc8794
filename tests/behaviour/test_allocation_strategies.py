"""Whatever strategy shares the queues: each has one owner, and a strategy that fails moves none."""

import pytest

from orderly.ordering.allocation import by_circle, consistent_hash
from tests.support.consuming import Recorder, first_deliveries, send_numbers
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(20)]
STRATEGIES = {"circle": by_circle, "consistent hash": consistent_hash()}


def shares(strategy, consumers, queues):
    """What the strategy says of members with these ids."""
    ids = sorted(consumer.client_id for consumer in consumers)
    return {i: tuple(strategy(i, queues, ids)) for i in ids}


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_each_member_has_the_share_that_the_strategy_says(
    strategy, producer, topic, members, client, start_member
):
    seen = Recorder()
    send_numbers(producer, topic, KEYS, 2)
    consumers = [start_member(recorder=seen, allocate=strategy)[0] for _ in range(members)]
    queues = client.routes.get(topic).read_queues()
    wanted = shares(strategy, consumers, queues)

    def settled():
        return {c.client_id: c.assignment for c in consumers} == wanted

    eventually(settled, within=20)
    send_numbers(producer, topic, KEYS, 2, first=2)
    eventually(lambda: len(seen.deliveries) >= 80, within=20)
    assert {k: first_deliveries(n) for k, n in seen.by_key().items()} == {
        key: [0, 1, 2, 3] for key in KEYS
    }
    assert len(seen.deliveries) == 80, "a clean handover repeats nothing"


class Breaking:
    """A program's own strategy: all to the first member, until it breaks for one topic."""

    def __init__(self, topic):
        self.topic = topic
        self.broken = False

    def __call__(self, client_id, queues, members):
        if self.broken and queues[0].topic == self.topic:
            raise KeyError(client_id)
        return queues if client_id == members[0] else []


def test_a_strategy_that_raises_keeps_the_assignment_and_stops_no_other_topic(
    producer, topic, orderly_topic, start_member, caplog
):
    strategy = Breaking(topic)
    consumer, seen = start_member(allocate=strategy, rebalance_interval=0.2)
    eventually(lambda: len(consumer.assignment) == 4, within=20)
    strategy.broken = True
    eventually(lambda: "rebalance.failed" in caplog.text)
    assert "allocation strategy" in caplog.text
    assert "KeyError" in caplog.text
    consumer.subscribe(orderly_topic(queues=2))
    eventually(lambda: len(consumer.assignment) == 6, within=20)
    send_numbers(producer, topic, KEYS, 2)
    eventually(lambda: len(seen.deliveries) == 40, within=20)


def test_a_strategy_that_works_again_is_followed_again(topic, start_member):
    strategy = Breaking(topic)
    consumer, _ = start_member(allocate=strategy, rebalance_interval=0.2)
    eventually(lambda: len(consumer.assignment) == 4, within=20)
    strategy.broken = True
    other, _ = start_member(allocate=strategy, rebalance_interval=0.2)
    eventually(lambda: not other.health().ready)
    assert len(consumer.assignment) == 4
    strategy.broken = False
    first, second = sorted([consumer, other], key=lambda member: member.client_id)
    eventually(lambda: (len(first.assignment), len(second.assignment)) == (4, 0), within=20)
