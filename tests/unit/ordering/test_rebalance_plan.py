"""Allocation and the rebalance plan: one owner for every queue, on every member's own view."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue
from orderly.ordering.allocation import averagely
from orderly.ordering.rebalance_plan import by_broker, my_share, plan

names = st.sampled_from(["broker-a", "broker-b", "broker-c"])
queues = st.sets(st.builds(MessageQueue, st.just("t"), names, st.integers(0, 7)), max_size=24)
members = st.sets(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6)


@given(queues, members, st.randoms(use_true_random=False))
def test_every_queue_has_exactly_one_owner_whatever_the_order_of_the_input(
    queues, members, shuffler
):
    shares = []
    for member in members:
        seen_queues, seen_members = list(queues), list(members)
        shuffler.shuffle(seen_queues)
        shuffler.shuffle(seen_members)
        shares.append(my_share(member, seen_queues, seen_members, averagely))
    owned = [queue for share in shares for queue in share]
    assert sorted(owned) == sorted(queues)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(2, [2, 2]), (3, [2, 1, 1]), (4, [1, 1, 1, 1]), (5, [1, 1, 1, 1, 0])],
)
def test_four_queues_over_two_to_five_members(count, sizes):
    queues = [MessageQueue("t", "b", i) for i in range(4)]
    ids = [f"m{i}" for i in range(count)]
    assert [len(averagely(member, queues, ids)) for member in ids] == sizes


def test_blocks_are_those_of_java():
    queues = [MessageQueue("topicA", "broker-a", i) for i in range(8)]
    ids = ["10.0.0.1@1", "10.0.0.2@2", "10.0.0.3@3"]
    blocks = [[q.queue_id for q in averagely(member, queues, ids)] for member in ids]
    assert blocks == [[0, 1, 2], [3, 4, 5], [6, 7]]


@pytest.mark.parametrize("seen", [(), ("other",)])
def test_a_list_without_this_client_keeps_the_assignment(seen):
    assert my_share("me", [MessageQueue("t", "b", 0)], seen, averagely) is None


def test_a_strategy_cannot_give_what_is_not_in_the_topic():
    stray = MessageQueue("other", "b", 9)
    assert my_share("me", [], ["me"], lambda *_: [stray]) == frozenset()


@given(queues, queues, queues)
def test_the_plan_ends_at_the_share_and_waits_for_what_is_leaving(share, active, leaving):
    active = active - leaving
    change = plan(share, active, leaving)
    after = (active - set(change.revoked)) | set(change.gained)
    assert after == share - leaving
    assert not set(change.gained) & leaving
    assert not set(change.revoked) & leaving


@given(queues)
def test_grouping_by_broker_loses_no_queue(queues):
    grouped = by_broker(sorted(queues))
    assert sorted(q for of_broker in grouped.values() for q in of_broker) == sorted(queues)
    assert all(q.broker_name == name for name, of_broker in grouped.items() for q in of_broker)


def test_plans_are_sorted_so_that_members_act_in_one_order():
    wanted = [MessageQueue("t", "b", i) for i in range(8)]
    shuffled = random.Random(1).sample(wanted, 8)
    assert list(plan(shuffled, [], []).gained) == wanted
