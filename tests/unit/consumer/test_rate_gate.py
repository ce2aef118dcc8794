"""Who gets no permit stands in line, and goes on in the order in which they came."""

import pytest

from orderly.consumer import rate_gate
from orderly.consumer.rate_gate import RateGate
from orderly.errors import LifecycleError
from orderly.model import MessageQueue
from orderly.ordering.owned_queue import Drop


@pytest.fixture
def clock(monkeypatch):
    times = [0.0]
    monkeypatch.setattr(rate_gate, "now", lambda: times[0])
    return times


@pytest.fixture
def timers():
    return []


@pytest.fixture
def called():
    return []


@pytest.fixture
def gate(clock, timers, called):
    return RateGate(10.0, lambda seconds, work: timers.append((seconds, work)), called.append)


@pytest.fixture
def queues(hold):
    return [hold(MessageQueue("orders", "broker-a", n)) for n in range(3)]


def refused(gate, held):
    assert gate.grant(held, 1) == 0
    gate.stand_in_line(held)
    assert gate.holds(held)


def go_on(clock, timers):
    seconds, work = timers.pop(0)
    clock[0] += seconds
    work()


def test_there_is_one_timer_and_it_calls_them_in_their_order(gate, clock, timers, called, queues):
    first, second, third = queues
    assert gate.grant(first, 5) == 1
    for held in (second, third, first):
        refused(gate, held)
    assert len(timers) == 1
    for held in (second, third, first):
        go_on(clock, timers)
        assert called.pop() is held
        assert gate.grant(held, 5) == 1
    assert timers == []


def test_nobody_overtakes_those_in_line(gate, clock, timers, called, queues):
    first, second, third = queues
    gate.grant(first, 1)
    refused(gate, second)
    clock[0] += 5.0
    assert gate.grant(third, 1) == 0, "there are permits, but not for who comes last"
    go_on(clock, timers)
    assert gate.grant(second, 1) == 1


def test_what_is_not_used_is_given_back(gate, queues):
    assert gate.grant(queues[0], 1) == 1
    gate.settle(1)
    assert gate.grant(queues[0], 1) == 1


def test_what_is_replayed_counts(gate, queues):
    assert gate.admit(lambda: None)
    assert gate.grant(queues[0], 1) == 0


def test_every_other_permit_is_for_parked_keys(gate, clock, timers, called, queues):
    first, second, _ = queues
    gate.grant(first, 1)
    for held in (first, second):
        refused(gate, held)
    for key in "ab":
        assert not gate.admit(lambda key=key: called.append(key))
    order = []
    for _ in range(6):
        go_on(clock, timers)
        (next_one,) = called
        called.clear()
        order.append(next_one)
        if isinstance(next_one, str):
            assert gate.grant(first, 1) == 0, "its permit is taken by then"
            gate.admit(lambda key=next_one: called.append(key))
        else:
            assert gate.grant(next_one, 1) == 1
            refused(gate, next_one)
    assert order == ["a", first, "b", second, "a", first]
    assert len(timers) == 1


def test_where_no_queue_waits_every_permit_is_for_parked_keys(gate, clock, timers, called):
    assert gate.admit(lambda: None)
    for key in "ab":
        assert not gate.admit(lambda key=key: called.append(key))
    for key in "ab":
        go_on(clock, timers)
        assert called.pop() == key
    assert timers == []


def test_a_timer_that_rings_too_early_takes_nobodys_place(gate, clock, timers, called, queues):
    gate.grant(queues[0], 1)
    refused(gate, queues[0])
    _, work = timers.pop()
    work()
    assert (called, gate.holds(queues[0])) == ([], True)
    go_on(clock, timers)
    assert called == [queues[0]]


def test_it_says_for_how_long_a_queue_waits(gate, queues, clock, timers):
    gate.grant(queues[0], 1)
    refused(gate, queues[0])
    assert queues[0].owned.held_until == pytest.approx(0.1)
    go_on(clock, timers)
    gate.grant(queues[0], 1)
    assert queues[0].owned.held_until is None


def test_a_queue_that_is_given_up_keeps_no_turn(gate, clock, timers, queues):
    first, second, _ = queues
    gate.grant(first, 1)
    refused(gate, second)
    refused(gate, first)
    go_on(clock, timers)
    second.owned.drop(Drop.REVOKED)
    go_on(clock, timers)
    assert gate._called == {first}


def test_after_the_end_of_the_client_nobody_is_called(clock, queues):
    def closed(seconds, work):
        raise LifecycleError("closed")

    gate = RateGate(10.0, closed, lambda held: None)
    gate.grant(queues[0], 1)
    refused(gate, queues[0])
