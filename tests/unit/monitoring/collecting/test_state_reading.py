"""What a state record means for the offsets of now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orderly.monitoring.backlog.reading import NEVER, QueueRecord
from orderly.monitoring.collecting import generations
from orderly.monitoring.collecting.assembly import ScannedQueue, queues_by_key
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.details import Details
from orderly.monitoring.collecting.scan import Collector
from orderly.monitoring.collecting.selection import Selection
from orderly.monitoring.collecting.state_reading import (
    Recorded,
    record_of,
    span_of,
)
from orderly.ordering.parking import ParkingState
from orderly.ordering.state_records import RecordedState
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.parked_key import ParkedKey
from orderly.protocol.state_record import Entry
from orderly.testing.fake.faults import Fail, Fault
from tests.support.brokers import delete_topic
from tests.support.owners import HandOwner
from tests.support.snapshots import queue, scan_of
from tests.support.waiting import patient_client, patient_producer

STATE = state_topic("g", "orders")
PARKED = (ParkedKey("bad", 3, 0, 2, 200),)


def recorded(low=10, previous_low=8, runs=((12, 15), (20, 30)), window=(), **fields):
    entry = Entry(owner="me", token=1, number=1, previous=2, epoch=1, low=low,
                  previous_low=previous_low, runs=runs, window=window)  # fmt: skip
    values = {"state": RecordedState(5, entry, runs, ParkingState(PARKED)), "lost": False}
    return Recorded(0, 6, parked_since=70.0, at=1.0, **(values | fields))


def meaning(one, committed, maximum=40, minimum=0, *, new=False):
    return record_of(one, ScannedQueue("g", queue(), minimum, committed, maximum), new=new)


@pytest.mark.parametrize("committed", [10, 8])
def test_what_is_finished_above_is_no_backlog(committed):
    assert meaning(recorded(), committed) == QueueRecord(40 - 10 - 3 - 10, 10, PARKED, 70.0)


def test_it_is_worked_out_for_the_present_maximum():
    assert meaning(recorded(), 10, maximum=50).unfinished == 27
    assert meaning(recorded(), 10, maximum=25).unfinished == 25 - 10 - 3 - 5


def test_a_broker_that_was_killed_came_back_with_an_older_offset():
    entry = {"window": (3, 6, 10)}
    assert meaning(recorded(**entry), 6) == meaning(recorded(), 10)
    assert meaning(recorded(**entry), 5).unfinished == 35, "nobody had sent that"


def test_a_broker_that_forgot_the_offset_has_members_go_on_as_recorded():
    assert meaning(recorded(), NEVER) == meaning(recorded(), 10)


def test_after_a_reset_what_was_finished_above_counts_no_more():
    assert meaning(recorded(), 2) == QueueRecord(38, 2, PARKED, 70.0)
    assert meaning(recorded(), 14).unfinished == 26


def test_a_record_written_after_the_offset_was_read_is_ahead_of_it():
    assert meaning(recorded(), 2, new=True).unfinished == 17


def test_progress_with_nothing_finished_ahead_needs_no_new_record():
    assert meaning(recorded(runs=()), 33).unfinished == 7


def test_what_the_broker_deleted_is_no_backlog():
    assert meaning(recorded(runs=()), 10, minimum=30) == QueueRecord(10, 30, PARKED, 70.0)


def test_without_a_record_nothing_is_finished_ahead():
    assert meaning(recorded(state=None), 10) == QueueRecord(30, 10)


def test_without_a_record_and_an_offset_nothing_is_known():
    assert meaning(recorded(state=None), NEVER) is None


def test_what_is_lost_is_not_known():
    assert meaning(recorded(lost=True), 10) is None


def test_only_groups_with_a_state_topic_have_records():
    rows = {
        ("g", "orders"): [(0, 3, 5), (0, -1, 5), (0, 3, -2), (0, -2, 5)],
        ("h", "pays"): [(0, 3, 5)],
    }
    assert list(queues_by_key(scan_of(rows), {"g", "h"})) == []
    scan = scan_of(rows, **{STATE: [(0, 7), (0, -2)]})
    rows = list(queues_by_key(scan, {"g", "h"}))
    assert [(row.group, row.queue) for row in rows] == [("g", queue(0)), ("g", queue(1))]
    assert list(queues_by_key(scan, {"h"})) == []
    assert [span_of(scan, queue(n, STATE)) for n in range(3)] == [(0, 7), None, (0, 0)]


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
    with patient_client(fakes.namesrv) as client, patient_producer(client=client) as producer:
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
