"""Every strategy: one owner for every queue, the same shares as in Java, and checked settings."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.ordering.allocation import STRATEGIES, averagely, by_circle, by_config, consistent_hash
from orderly.ordering.allocation_rooms import machine_room, machine_room_nearby
from orderly.ordering.rebalance_plan import my_share
from tests.support.java import answered, before_at, shares

JAVA = answered(Path(__file__).with_name("java_allocations.txt"))

BROKERS = ["a", "east@a", "east@b", "west@a", "south@a", "east@a@", "@a", "east@a@b"]
EAST = ["east@a", "east@b", "east@a@"]

queues_of = st.sets(
    st.builds(MessageQueue, st.just("t"), st.sampled_from(BROKERS), st.integers(0, 7)), max_size=40
)
rooms = st.sampled_from(["east@", "west@", "north@", ""])
client_ids = st.builds(str.__add__, rooms, st.text(min_size=1, max_size=3))
members_of = st.sets(client_ids, min_size=1, max_size=9)
QUEUES = [MessageQueue("t", "broker-a", number) for number in range(8)]


def room_of(name):
    return before_at(name) or "elsewhere"


COMPLETE = {
    "averagely": averagely,
    "circle": by_circle,
    "hash": consistent_hash(),
    "hash-1": consistent_hash(1),
    "nearby-averagely": machine_room_nearby(averagely, room_of, room_of),
    "nearby-circle": machine_room_nearby(by_circle, room_of, room_of),
    "nearby-hash": machine_room_nearby(consistent_hash(), room_of, room_of),
}
EAST_ONLY = machine_room(["east"])


def shuffled_shares(allocate, queues, members, shuffler):
    """Each member's share, each seeing queues and members in an order of its own."""
    found = {}
    for member in members:
        seen_queues, seen_members = list(queues), list(members)
        shuffler.shuffle(seen_queues)
        shuffler.shuffle(seen_members)
        found[member] = my_share(member, seen_queues, seen_members, allocate)
    return found


def owned(found):
    return sorted(queue for share in found.values() for queue in share)


@pytest.mark.parametrize("allocate", COMPLETE.values(), ids=COMPLETE)
@given(queues_of, members_of, st.randoms(use_true_random=False))
def test_every_queue_has_exactly_one_owner_whatever_the_order_of_the_input(
    allocate, queues, members, shuffler
):
    assert owned(shuffled_shares(allocate, queues, members, shuffler)) == sorted(queues)


@given(queues_of, members_of, st.randoms(use_true_random=False))
def test_a_machine_room_gives_each_of_its_queues_to_one_member_and_no_other_queue(
    queues, members, shuffler
):
    found = shuffled_shares(EAST_ONLY, queues, members, shuffler)
    assert owned(found) == sorted(queue for queue in queues if queue.broker_name in EAST)


@pytest.mark.parametrize(
    "allocate", [averagely, by_circle, EAST_ONLY], ids=["averagely", "circle", "room"]
)
@given(queues_of, members_of, st.randoms(use_true_random=False))
def test_even_strategies_give_no_member_two_queues_more_than_another(
    allocate, queues, members, shuffler
):
    sizes = [len(s) for s in shuffled_shares(allocate, queues, members, shuffler).values()]
    assert max(sizes) - min(sizes) <= 1


@given(queues_of, members_of, st.integers(1, 20), st.data())
def test_a_leaving_member_moves_only_its_own_queues_on_the_ring(queues, members, nodes, data):
    leaver = data.draw(st.sampled_from(sorted(members)))
    allocate = consistent_hash(nodes)
    for member in members - {leaver}:
        before = my_share(member, queues, members, allocate)
        after = my_share(member, queues, members - {leaver}, allocate)
        assert before <= after


@given(queues_of, members_of, st.data())
def test_a_room_with_members_keeps_its_queues_to_itself(queues, members, data):
    allocate = machine_room_nearby(averagely, room_of, room_of)
    me = data.draw(st.sampled_from(sorted(members)))
    inhabited = {room_of(member) for member in members} - {room_of(me)}
    share = my_share(me, queues, members, allocate)
    assert not inhabited & {room_of(queue.broker_name) for queue in share}


@pytest.mark.parametrize("case", JAVA)
def test_shares_are_those_of_java(case):
    assert shares(case) == JAVA[case]


def test_a_fixed_list_is_the_share_of_this_member_alone():
    mine = by_config([QUEUES[5], QUEUES[1], MessageQueue("other", "broker-a", 0)])
    assert my_share("m2", QUEUES, ["m1", "m2", "m3"], mine) == {QUEUES[1], QUEUES[5]}


@pytest.mark.parametrize("allocate", [*COMPLETE.values(), EAST_ONLY], ids=[*COMPLETE, "room"])
def test_a_client_that_is_no_member_gets_nothing(allocate):
    assert not allocate("stranger", [MessageQueue("t", "east@a", 0)], ["m1"])


def test_half_a_surrogate_pair_in_a_client_id_hashes_as_the_question_mark_java_makes_of_it():
    queues = [MessageQueue("t", "broker-a", number) for number in range(64)]
    broken, mended = "\ud83d@1", "?@1"
    allocate = consistent_hash()
    assert allocate(broken, queues, ["m2", broken]) == allocate(mended, queues, ["m2", mended])


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: by_config([]), "the queues of this member"),
        (lambda: by_config(["broker-a:0"]), "must be a MessageQueue"),
        (lambda: consistent_hash(0), "1 virtual node or more"),
        (lambda: consistent_hash(-10), "1 virtual node or more"),
        (lambda: machine_room([]), "the rooms of brokers"),
        (lambda: machine_room("east"), r"\['room-a'\]"),
        (lambda: machine_room(["east@a"]), "the rooms of brokers"),
        (lambda: machine_room([""]), "the rooms of brokers"),
        (lambda: machine_room_nearby("averagely", room_of, room_of), "three functions"),
        (lambda: machine_room_nearby(averagely, {"east@a": "east"}, room_of), "three functions"),
        (lambda: machine_room_nearby(averagely, room_of, None), "three functions"),
    ],
)
def test_a_wrong_setting_is_refused_when_the_strategy_is_made(make, advice):
    with pytest.raises(ConfigError, match=advice):
        make()


@pytest.mark.parametrize(("broker", "member"), [("east@a", "@m1"), ("@a", "east@m1")])
def test_a_broker_or_member_without_a_room_stops_the_allocation(broker, member):
    allocate = machine_room_nearby(averagely, before_at, before_at)
    with pytest.raises(ConfigError, match="is in no machine room"):
        allocate(member, [MessageQueue("t", broker, 0)], [member])


def test_a_strategy_shows_its_settings_and_can_be_sent_to_another_process():
    for allocate, text in [
        (consistent_hash(20), "ConsistentHash(virtual_nodes=20)"),
        (machine_room(["west", "east", "west"]), "MachineRoom(rooms=('east', 'west'))"),
    ]:
        assert repr(allocate) == text
        assert pickle.loads(pickle.dumps(allocate)) == allocate


@pytest.mark.parametrize(
    ("name", "allocate"),
    [("averagely", averagely), ("circle", by_circle), ("consistent-hash", consistent_hash(10))],
)
def test_strategies_without_settings_are_found_by_name(name, allocate):
    assert STRATEGIES[name] == allocate
