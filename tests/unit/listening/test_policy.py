"""What is remembered of failing messages: enough for a verdict, and bounded whatever comes."""

from __future__ import annotations

import threading

import pytest

from orderly import Block, ConsumeContext, PoisonRules, Suspend
from orderly.listening import policy as memory_module
from orderly.listening.handler_call import Delivery, FailedCall
from orderly.listening.policy import Decision, FailureMemory
from orderly.ordering.fingerprint import answered
from orderly.ordering.poison import FailureKind, Finding
from tests.support.messages import QUEUE, message

DOWN = FailedCall("down", answered("down"))
FATAL = FailedCall("bad", answered("bad"), FailureKind.FATAL)


class QueueOwnership:
    def __init__(self, deadline=float("inf")):
        self.lost, self.token, self.deadline = threading.Event(), 1, deadline


def delivery(offset=0, key="k", ownership=None):
    return Delivery(message(offset, key), ConsumeContext(QUEUE, key=key, ownership=ownership))


@pytest.fixture(params=[PoisonRules(), None], ids=["judged", "not judged"])
def memory(request):
    return FailureMemory(request.param)


def test_a_message_is_remembered_from_its_first_failure_until_it_is_handled(memory):
    first = memory.failed(delivery(), DOWN, 1.0)
    again = memory.failed(delivery(), FATAL, 5.0)
    assert again.trying is first.trying
    assert (again.trying.first_at, again.trying.first_error) == (1.0, "down")
    memory.succeeded(delivery().lane, 6.0)
    assert memory.trying(delivery()) is None
    assert memory.failed(delivery(), DOWN, 7.0).trying.first_at == 7.0


def test_the_next_message_of_a_key_begins_anew(memory):
    memory.failed(delivery(offset=0), DOWN, 1.0)
    assert memory.trying(delivery(offset=1)) is None
    assert memory.failed(delivery(offset=1), DOWN, 2.0).trying.first_at == 2.0


def test_the_same_message_under_another_ownership_begins_anew(memory):
    memory.failed(delivery(ownership=QueueOwnership()), DOWN, 1.0)
    assert memory.failed(delivery(ownership=QueueOwnership()), DOWN, 2.0).trying.first_at == 2.0


@pytest.mark.parametrize("how", ["lost", "released"])
def test_messages_of_a_queue_that_is_no_longer_ours_are_forgotten(memory, how):
    gone, kept = QueueOwnership(deadline=30.0 if how == "released" else 1e9), QueueOwnership()
    memory.failed(delivery(key="gone", ownership=gone), DOWN, 1.0)
    memory.failed(delivery(key="kept", ownership=kept), DOWN, 1.0)
    if how == "lost":
        gone.lost.set()
    memory.failed(delivery(key="other", ownership=kept), DOWN, 31.0)
    assert memory.trying(delivery(key="gone", ownership=gone)) is None
    assert memory.trying(delivery(key="kept", ownership=kept)) is not None


def test_memory_is_bounded_whatever_the_number_of_keys(monkeypatch):
    monkeypatch.setattr(memory_module, "_MOST", 50)
    memory = FailureMemory(PoisonRules())
    for number in range(15_000):
        memory.failed(delivery(number, key=number), DOWN, number / 1000)
    assert len(memory) <= 50 + 100 + 10_000 + 256
    for number in range(15_000):
        memory.succeeded(delivery(number, key=number).lane, 15 + number / 1000)
    assert len(memory) <= 100 + 256


def test_a_verdict_once_found_stands_while_the_message_cannot_be_set_aside():
    memory = FailureMemory(PoisonRules())
    first = memory.failed(delivery(), FATAL, 1.0)
    assert first.verdict.finding is Finding.POISON
    first.trying.condemned = FATAL.fingerprint.digest, first.verdict
    memory.passed(delivery().lane)
    assert memory.failed(delivery(), FATAL, 2.0).verdict is first.verdict
    assert memory.failed(delivery(), DOWN, 3.0).verdict.finding is Finding.RETRY


def test_circuits_are_told_once_when_they_open_and_once_when_they_close():
    memory = FailureMemory(PoisonRules())
    for key in range(10):
        memory.failed(delivery(key=key), DOWN, key / 10)
    opened, closed = memory.changed_circuits()
    assert opened
    assert not closed
    assert memory.holding
    assert memory.changed_circuits() == (frozenset(), frozenset())
    now = 1.0
    while memory.holding and now < 100:
        now += 1.0
        for key in range(10):
            lane = delivery(key=key).lane
            if memory.admit(lane, now) == 0.0:
                memory.succeeded(lane, now)
        told = memory.changed_circuits()[1]
        closed |= told
    assert closed == opened
    assert not memory.holding


def test_nothing_is_judged_without_rules():
    memory = FailureMemory(None)
    assert [memory.failed(delivery(), FATAL, n).verdict for n in range(9)] == [None] * 9
    assert memory.admit(delivery().lane, 10.0) == 0.0
    assert memory.changed_circuits() == (frozenset(), frozenset())


@pytest.mark.parametrize("outcome", [Suspend(1.0), Block("why")])
def test_what_no_rule_is_written_for_does_not_count_as_handled(outcome):
    there = delivery()
    with pytest.raises(NotImplementedError, match=type(outcome).__name__):
        Decision(outcome).apply(there)
    assert not there.context.finished
