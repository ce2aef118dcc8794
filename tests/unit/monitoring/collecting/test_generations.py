"""Topics made anew, as scan after scan of a fake broker shows them: proven, or not told."""

from dataclasses import replace

import pytest

from orderly import Client, OrderlyProducer
from orderly.monitoring.collecting import generations
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.details import Details
from orderly.monitoring.collecting.scan import Collector
from orderly.monitoring.collecting.selection import Selection
from orderly.ordering.state.topic import park_topic, state_topic
from orderly.protocol.codes import RequestCode as Code
from orderly.testing.fake.faults import Fail, Fault
from tests.support.hand_owner import HandOwner
from tests.support.operator import delete_topic
from tests.support.scans import queue

OLD, NEW = 1_700_000_000.0, 1_700_000_100.0  # when messages were stored
READS = {Code.QUERY_CONSUME_QUEUE, Code.VIEW_MESSAGE_BY_ID}


class Watch:
    """Scans as a monitor does, and says what is known of one queue in one group."""

    def __init__(self, client):
        self.collector = Collector(client, Selection())
        self.details = Details(self.collector.pipeline, Budgets(heads=0))

    later = 0.0  # seconds by which its clock is ahead

    def scan(self):
        scan = self.collector.scan()
        scan = replace(scan, at=scan.at + self.later)
        return self.details.add(scan, None, self.collector.round)

    def of(self, group="pay", place=None):
        return self.scan().groups[group].recreated.get(place or queue())


@pytest.fixture
def anew(client, world):
    """Delete "orders" and make it anew, with messages stored then, and an offset."""

    def anew(count, committed=None, at=NEW):
        delete_topic(client, "orders")
        world.topic("orders", brokers=["broker-a"])
        world.store("orders", 0, count, at=at)
        if committed is not None:
            world.commit("pay", "orders", {0: committed, 1: 0})

    return anew


@pytest.fixture
def watch(client, world):
    """It has seen that group "pay" read 3 of 5 messages."""
    world.topic("orders", brokers=["broker-a"])
    world.group("pay")
    world.store("orders", 0, 5, at=OLD)
    world.commit("pay", "orders", {0: 3, 1: 0})
    watch = Watch(client)
    assert watch.of() is None
    return watch


def test_a_shorter_topic_with_a_later_first_message_is_a_new_one(watch, anew):
    anew(2, committed=3)
    found = watch.of()
    assert (found.position, found.recorded, found.gone_on_at) == (3, False, None)
    assert watch.of() == found


def test_an_empty_one_is_new_whatever_emptied_it(watch, anew):
    anew(0, committed=3)
    assert watch.of().position == 3


@pytest.mark.parametrize("count", [5, 9])
def test_a_longer_one_is_noticed_by_the_offset_that_went_back(watch, anew, count):
    anew(count, committed=1)
    found = watch.of()
    assert (found.position, found.moved) == (3, True)


def test_one_that_was_away_for_some_scans_is_remembered(watch, anew, client, world):
    delete_topic(client, "orders")
    for _ in range(5):
        assert watch.scan().committed == {}
    anew(9, committed=1)
    assert watch.of().position == 3


@pytest.mark.parametrize(("away", "remembered"), [(3500, True), (3700, False)])
def test_what_is_away_is_remembered_for_an_hour(watch, anew, client, away, remembered):
    for _ in range(2):  # however long it was the same before
        watch.later += 3000
        watch.scan()
    delete_topic(client, "orders")
    watch.later += away
    watch.scan()
    anew(9, committed=1)
    assert bool(watch.of()) == remembered


def test_many_queues_are_looked_at_one_after_the_other(client, world, fakes, monkeypatch):
    """Some that cannot be looked at hold up no others."""
    monkeypatch.setattr(generations, "_MOST", 2)
    world.topic("orders", read=6, brokers=["broker-a"])
    world.group("pay")
    for number in range(6):
        world.store("orders", number, 5, at=OLD)
    world.commit("pay", "orders", dict.fromkeys(range(6), 3))
    watch = Watch(client)
    watch.scan()
    delete_topic(client, "orders")
    world.topic("orders", read=6, brokers=["broker-a"])
    for number in range(6):
        world.store("orders", number, 2, at=NEW)
    world.commit("pay", "orders", dict.fromkeys(range(6), 3))
    fakes.script(Fault(Code.VIEW_MESSAGE_BY_ID, Fail(2, "busy"), times=2))
    found = [len(watch.scan().groups["pay"].recreated) for _ in range(5)]
    assert found == [0, 2, 4, 6, 6]


def test_a_log_that_was_cut_is_not_a_new_topic(watch, anew, world):
    anew(2, committed=3, at=OLD)
    world.store("orders", 0, 1, at=NEW)
    assert watch.of() is None


def test_an_offset_that_was_set_back_or_forgotten_is_not_a_new_topic(watch, world):
    world.commit("pay", "orders", {0: 1})
    assert watch.of() is None
    world.forget_group("pay")
    world.group("pay")
    world.commit("pay", "orders", {1: 0})
    assert watch.of() is None


def test_who_came_later_stood_nowhere(watch, anew, world):
    world.group("ship")
    world.commit("ship", "orders", {1: 0})
    watch.scan()
    anew(2, committed=3)
    world.commit("ship", "orders", {0: 0})
    scan = watch.scan()
    assert scan.groups["pay"].recreated[queue()].position == 3
    assert scan.groups["ship"].recreated == {}


def test_the_group_has_gone_on_once_it_moved_in_the_new_one(watch, anew, world):
    anew(2, committed=3)
    assert watch.of().gone_on_at is None
    world.commit("pay", "orders", {0: 0})
    assert watch.of().gone_on_at is None, "it is where it begins"
    world.commit("pay", "orders", {0: 1})
    scan = watch.scan()
    assert scan.groups["pay"].recreated[queue()].gone_on_at == scan.at
    assert watch.of().gone_on_at == scan.at


def test_the_old_offset_within_the_new_one_is_no_progress(watch, anew):
    anew(2, committed=3)
    watch.scan()
    anew(4, committed=3)
    assert watch.of().gone_on_at is None


def test_what_cannot_be_looked_at_is_looked_at_in_the_next_scan(watch, anew, fakes):
    fakes.script(Fault(Code.VIEW_MESSAGE_BY_ID, Fail(2, "busy"), times=1))
    anew(2, committed=3)
    assert watch.of() is None
    assert watch.of().position == 3


def test_it_asks_only_about_what_is_odd_and_never_pulls(watch, anew, world):
    counts = world.count()
    world.store("orders", 0, 2)
    world.commit("pay", "orders", {0: 4})
    watch.scan()
    assert not READS & counts.keys()
    anew(2, committed=3)
    assert watch.of()
    assert counts[Code.QUERY_CONSUME_QUEUE] == 1, "the lowest message; the one before is beyond"
    watch.scan()
    assert (counts[Code.QUERY_CONSUME_QUEUE], counts[Code.PULL_MESSAGE]) == (1, 0)


def test_an_offset_that_stays_away_is_odd_only_once(watch, world):
    world.commit("pay", "orders", {0: -1})
    assert watch.of() is None
    counts = world.count()
    assert watch.of() is None
    assert not READS & counts.keys()


# --- by key --------------------------------------------------------------------------------------


@pytest.fixture
def owner(fakes, world):
    """It owned queue 0 of "orders" by key, and closed it at offset 4."""
    world.group("ship")
    world.topic("orders", read=1, brokers=["broker-a"])
    for topic in (state_topic("ship", "orders"), park_topic("ship", "orders")):
        world.topic(topic, read=1)
    world.store("orders", 0, 4, at=OLD)
    with Client(namesrv=fakes.namesrv) as client, OrderlyProducer(client=client) as producer:
        world.commit("ship", "orders", {0: 4})
        owner = HandOwner(client, producer, "ship", "orders").take()
        owner.hand_on()
        yield owner


@pytest.mark.parametrize("count", [0, 2, 4, 9])
def test_a_single_look_knows_it_from_the_state_record(owner, client, anew, count, world):
    """The offset was deleted with the topic: the record alone tells of the pair."""
    anew(count)
    reading = Watch(client).scan().groups["ship"]
    found = reading.recreated[owner.queue]
    assert (found.position, found.recorded) == (4, True)
    assert reading.records[owner.queue].unfinished == count


def test_an_offset_that_a_broker_forgot_is_none(owner, client, world):
    world.forget_group("ship")
    world.group("ship")
    reading = Watch(client).scan().groups["ship"]
    assert (reading.recreated, reading.records[owner.queue].unfinished) == ({}, 0)


def test_it_holds_until_an_owner_is_back_and_went_on(owner, client, anew, world):
    watch = Watch(client)
    anew(3)
    first = watch.of("ship", owner.queue)
    world.store("orders", 0, 1, at=NEW)
    assert watch.of("ship", owner.queue) == first
    owner.take()
    assert owner.low == 0
    taken = watch.of("ship", owner.queue)
    assert (taken.recorded, taken.gone_on_at) == (False, None)
    owner.low = 2
    owner.record()
    assert watch.of("ship", owner.queue).gone_on_at


def test_a_new_generation_between_two_scans_is_told(owner, client, anew):
    watch = Watch(client)
    assert watch.of("ship", owner.queue) is None
    anew(9)
    owner.take()
    owner.low = 6
    owner.record()
    found = watch.of("ship", owner.queue)
    assert (found.position, found.recorded, bool(found.gone_on_at)) == (4, False, True)


def test_a_record_is_looked_at_once(owner, client, anew, world):
    watch = Watch(client)
    anew(3)
    watch.scan()
    counts = world.count()
    world.store("orders", 0, 2, at=NEW)
    assert watch.of("ship", owner.queue).recorded
    assert not READS & counts.keys()


def test_without_its_record_it_is_told_no_longer_than_the_window(owner, client, anew, world):
    watch = Watch(client)
    anew(3)
    world.commit("ship", "orders", {0: 4})
    assert watch.of("ship", owner.queue).recorded
    delete_topic(client, owner.state_queue.topic)
    found = watch.of("ship", owner.queue)
    assert (found.position, found.recorded) == (4, False)
