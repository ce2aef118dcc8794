"""Records of what is tried, among an owner's other records: read right, fenced, and cheap."""

from __future__ import annotations

import pytest

from orderly.errors import LockLost
from orderly.ordering.broker_calls import ReadRecords, converse
from orderly.ordering.crashes import Crashes
from orderly.protocol.state_record import Acquire, Confirm, encode_record
from tests.support.owners import StateBroker

FIRST, SECOND = "first@1", "second@2"
LOOP = Crashes(2, ((4, 1),))


@pytest.fixture
def broker():
    return StateBroker(end=100)


@pytest.fixture
def inherit(broker):
    return lambda client=SECOND: broker.taken_over(client)


@pytest.fixture
def owner(broker, inherit):
    """The first owner's memory, and what it does with it."""

    class Owner:
        memory = inherit(FIRST).memory

        def run(self, dialogue):
            return converse(dialogue, broker.performer(FIRST))

        def tries(self, *offsets):
            for offset in offsets:
                self.run(self.memory.journal(offset))

        def remember(self, crashes, runs=(), low=0, **how):
            self.run(self.memory.remember(low, low, runs, crashes=crashes, **how))

    return Owner()


def test_entries_between_what_is_tried_need_no_reading(owner, broker):
    broker.calls.clear()
    owner.remember(LOOP)
    for offset in range(100):
        owner.tries(offset, None)
        if offset % 10 == 0:
            owner.remember(LOOP, runs=((offset + 1, offset + 2),))
    assert broker.asked(ReadRecords) == 0


def test_another_owner_among_them_is_noticed(owner, broker):
    owner.remember(LOOP)
    owner.tries(5)
    broker.log += [encode_record(Acquire(SECOND)), encode_record(Confirm(SECOND, 4))]
    owner.tries(6)
    with pytest.raises(LockLost):
        owner.remember(LOOP, runs=((7, 8),))


def test_a_foreign_record_that_changes_nothing_is_no_loss(owner, broker):
    owner.remember(LOOP)
    owner.tries(5)
    broker.log.append(encode_record(Acquire(SECOND)))
    owner.tries(6)
    owner.remember(LOOP, runs=((7, 8),))


def test_the_heir_blames_what_was_tried_last(owner, inherit):
    owner.remember(LOOP)
    owner.tries(4, None, 9)
    found = inherit()
    assert found.crashes == Crashes(3, ((4, 1), (9, 1)))
    assert found.end == 100


def test_an_entry_written_while_it_is_tried_hides_nothing(owner, inherit):
    owner.remember(LOOP)
    owner.tries(9)
    owner.remember(Crashes(2, (), trying=9), runs=((20, 21),))
    assert inherit().crashes == Crashes(3, ((9, 1),))


def test_a_state_behind_many_of_them_is_found(owner, inherit):
    owner.remember(LOOP, runs=((6, 8),))
    owner.tries(*range(300))
    found = inherit()
    assert found.finished == ((6, 8),)
    assert found.crashes.suspects == ((4, 1), (299, 1))


def test_a_closed_queue_leaves_nobody_to_blame(owner, inherit):
    owner.remember(LOOP)
    owner.tries(9, None)
    owner.remember(Crashes(), closed=True)
    assert inherit().crashes == Crashes()


def test_a_loop_that_a_clean_end_hands_on_needs_no_record_again(owner, inherit):
    owner.remember(LOOP)
    owner.remember(LOOP, closed=True)
    found = inherit()
    assert found.crashes == LOOP
    assert not found.memory.due(0, 0, (), crashes=LOOP)


def test_what_is_concluded_is_on_record_for_the_next(owner, inherit):
    owner.remember(Crashes(1))
    assert inherit("b@2").crashes.deaths == 2
    assert inherit("c@3").crashes.deaths == 3


def test_a_change_of_what_is_known_of_crashes_is_due(owner):
    owner.remember(LOOP)
    memory = owner.memory
    assert not memory.due(0, 0, (), crashes=LOOP)
    assert memory.due(0, 0, (), crashes=Crashes())
    assert memory.due(0, 0, (), crashes=Crashes(2, ((4, 1),), trying=4))
