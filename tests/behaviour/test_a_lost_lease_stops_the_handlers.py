"""A handler learns at once that its queue is lost, and may ask how long it is surely ours."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from orderly import Ack, clock
from orderly.clock import now
from orderly.consumer.renewal import LockKeeper
from orderly.errors import LockLost
from tests.support.brokers import take_lock_from
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

PATIENCE = 30.0  # seconds


class First:
    """What happened in the first call for number 0."""

    def __init__(self):
        self.begun, self.stolen = threading.Event(), threading.Event()
        self.told, self._calls = [], 0

    def is_this(self, messages):
        self._calls += int(messages[0].body) == 0
        return int(messages[0].body) == 0 and self._calls == 1


@pytest.fixture
def first():
    return First()


@pytest.fixture
def thread_act(first):
    def act(messages, context):
        if first.is_this(messages):
            first.begun.set()
            first.told.append(context.lost.wait(PATIENCE))
        return Ack()

    return act


@pytest.fixture
def coroutine_act(first):
    async def act(messages, context):
        if first.is_this(messages):
            first.begun.set()
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                first.told.append(context.lost.is_set())
                raise
        return Ack()

    return act


@pytest.mark.parametrize("order", ["queue", "key"])
@pytest.mark.parametrize("kind", ["thread_act", "coroutine_act"])
def test_it_is_told_and_its_message_comes_again(
    kind, order, first, request, producer, topic, group, client, start_group
):
    act = request.getfixturevalue(kind)
    members = start_group(act, order=order, lock_interval=0.1, commit_interval=0.1)
    queue = send_numbers(producer, topic, ["a"], 3)[0].queue
    assert first.begun.wait(20)
    owner = next(c for c in members.consumers if queue in c.assignment)
    take_lock_from(client, owner.client_id, group, queue)
    eventually(lambda: first.told == [True], within=20)
    eventually(lambda: members.seen.numbers("a"))
    assert members.seen.numbers("a") == [0], "nothing more without the lock"
    client.brokers.unlock_queues(group, queue.broker_name, [queue])
    eventually(lambda: members.seen.numbers("a") == [0, 0, 1, 2], within=20)


def test_the_deadline_moves_on_and_extend_renews(producer, topic, start_member):
    noted = []

    def act(messages, context):
        before, asked_at = context.deadline, now()
        noted.append((before, asked_at, context.extend(), context.deadline))
        return Ack()

    trust = 20.0
    start_member(act, lock_trust=trust, lock_interval=10.0)
    send_numbers(producer, topic, ["a"], 2)
    eventually(lambda: len(noted) == 2, within=20)
    for before, asked_at, extended, after in noted:
        assert before < extended <= after, "a round may have renewed it since"
        assert asked_at + trust <= extended <= now() + trust


def test_the_deadline_moves_by_itself(producer, topic, start_member):
    noted = []

    def act(messages, context):
        noted.append(context.deadline)
        eventually(lambda: context.deadline > noted[0] + 0.5)
        return Ack()

    _, seen = start_member(act, lock_interval=0.1)
    send_numbers(producer, topic, ["a"], 1)
    eventually(lambda: [d.success for d in seen.deliveries] == [True], within=20)


def test_extend_finds_out_what_no_round_has_found_yet(
    first, producer, topic, group, client, start_member
):
    def act(messages, context):
        if first.is_this(messages):
            granted = context.deadline
            eventually(lambda: context.deadline > granted)  # the next round is long after
            first.begun.set()
            assert first.stolen.wait(PATIENCE)
            assert not context.lost.is_set()
            with pytest.raises(LockLost, match="another member may be working on the same key"):
                context.extend()
            first.told.append(context.lost.is_set())
        return Ack()

    # The first round is after a second.
    owner, seen = start_member(act, lock_interval=14, patient=True)
    queue = send_numbers(producer, topic, ["a"], 2)[0].queue
    assert first.begun.wait(20)
    take_lock_from(client, owner.client_id, group, queue)
    first.stolen.set()
    eventually(lambda: first.told == [True])
    client.brokers.unlock_queues(group, queue.broker_name, [queue])
    eventually(lambda: seen.numbers("a") == [0, 0, 1], within=20)


@pytest.mark.parametrize("kind", ["thread_act", "coroutine_act"])
def test_after_a_suspend_of_the_machine_it_is_told_at_once(
    kind, first, request, producer, topic, start_member, monkeypatch
):
    """The leases' clock counts the time in which timers stood still; no round is due for long."""
    suspended, renewed, renew_all = [0.0], threading.Event(), LockKeeper.renew_all

    def note(keeper):
        renew_all(keeper)
        renewed.set()

    monkeypatch.setattr(LockKeeper, "renew_all", note)
    asleep = SimpleNamespace(clock_gettime=lambda kind: time.clock_gettime(kind) + suspended[0])
    monkeypatch.setattr(clock, "time", asleep)
    act = request.getfixturevalue(kind)
    consumer, seen = start_member(act, lock_trust=50.0, lock_interval=45.0, rebalance_interval=60)
    eventually(lambda: len(consumer.assignment) == 4)
    assert renewed.wait(20), "once, a second after the start"
    send_numbers(producer, topic, ["a"], 2)
    assert first.begun.wait(20)
    suspended[0] = 60.0
    eventually(lambda: first.told == [True], within=20)
    eventually(lambda: seen.numbers("a")[:1] == [0] and seen.numbers("a")[-1] == 1, within=30)
