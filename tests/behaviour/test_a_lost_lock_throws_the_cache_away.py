"""A queue whose lock was lost is handed out no more; regained, its start is read again.

Java keeps the cache and goes on with it, also where another owner has got further meanwhile.
"""

import threading
import time
from types import SimpleNamespace

import pytest

from orderly import clock
from orderly.client.broker import BrokerCalls
from orderly.consumer import ConsumerHooks
from orderly.errors import RequestTimeout
from orderly.ordering.explain import Why
from tests.support.brokers import take_lock_from
from tests.support.consuming import Blocking, send_numbers
from tests.support.waiting import eventually

OFTEN = {"lock_interval": 0.1, "commit_interval": 0.1}


@pytest.fixture
def told():
    """What the hooks were told: (hook, queue)."""
    return []


@pytest.fixture
def hooks(told):
    def noting(name):
        return lambda queues: told.extend((name, queue) for queue in queues)

    return ConsumerHooks(**{name: noting(name) for name in ("assigned", "revoked", "lost")})


def why(consumer, queue):
    return next(e.why for e in consumer.explain() if e.queue == queue)


def test_nothing_below_the_new_owners_offset_comes_again(
    told, hooks, producer, topic, group, client, start_group
):
    with Blocking(at=2) as handler:
        members = start_group(handler, hooks=hooks, **OFTEN)
        seen = members.seen
        queue = send_numbers(producer, topic, ["a"], 10)[0].queue
        eventually(lambda: handler.running == {queue}, within=20)
        owner = next(c for c in members.consumers if queue in c.assignment)
        eventually(lambda: client.brokers.query_offset(group, queue) == 2)
        take_lock_from(client, owner.client_id, group, queue)
        eventually(lambda: ("lost", queue) in told)
        assert why(owner, queue) is Why.LOCK_LOST
        assert queue not in owner.assignment
        client.brokers.update_offset(group, queue, 7)
    eventually(lambda: why(owner, queue) is Why.NOT_LOCKED)
    assert seen.numbers("a") == [0, 1, 2]
    assert client.brokers.query_offset(group, queue) == 7, "not ours to commit any more"
    client.brokers.unlock_queues(group, queue.broker_name, [queue])
    eventually(lambda: 9 in seen.numbers("a"), within=20)
    assert seen.numbers("a") == [0, 1, 2, 7, 8, 9]
    assert [name for name, of in told if of == queue][-2:] == ["lost", "assigned"]


def test_the_other_queues_go_on_meanwhile(producer, topic, group, client, start_group):
    members = start_group(**OFTEN)
    first = {key: send_numbers(producer, topic, [key], 1)[0].queue for key in "abcd"}
    lost = first["a"]
    owner = next(c for c in members.consumers if lost in c.assignment)
    eventually(lambda: len(members.seen.deliveries) == 4, within=20)
    take_lock_from(client, owner.client_id, group, lost)
    eventually(lambda: why(owner, lost) is Why.NOT_LOCKED)
    send_numbers(producer, topic, "abcd", 5, first=1)
    eventually(lambda: all(5 in members.seen.numbers(key) for key in "bcd"), within=20)
    assert members.seen.numbers("a") == [0]


def test_nothing_is_handed_out_once_the_lock_was_not_renewed_in_time(
    monkeypatch, producer, topic, group, client, told, hooks, start_group
):
    """The broker goes on answering pulls: it asks nobody for a lock."""
    asked, asking, answers = BrokerCalls.lock_queues, threading.Lock(), True

    def ask(*args, **kwargs):
        with asking:  # so that none is on its way any more when there are no answers
            if answers:
                return asked(*args, **kwargs)
        raise RequestTimeout("made by the test")

    monkeypatch.setattr(BrokerCalls, "lock_queues", ask)
    passed = [0.0]  # seconds that the leases' clock is ahead
    ahead = SimpleNamespace(clock_gettime=lambda kind: time.clock_gettime(kind) + passed[0])
    monkeypatch.setattr(clock, "time", ahead)
    members = start_group(hooks=hooks, **OFTEN)
    seen = members.seen
    queues = [result.queue for result in send_numbers(producer, topic, "abcd", 1)]
    # Without a renewal nothing is saved either, and what was not saved would come again.
    eventually(lambda: all(client.brokers.query_offset(group, q) == 1 for q in queues), within=20)
    assert len(seen.deliveries) == 4
    with asking:
        answers = False
        passed[0] = members.consumers[0].config.lock_trust
    send_numbers(producer, topic, "abcd", 3, first=1)
    eventually(lambda: sum(name == "lost" for name, _ in told) >= 4)
    assert len(seen.deliveries) == 4
    answers = True
    eventually(lambda: all(3 in seen.numbers(key) for key in "abcd"), within=20)
    assert seen.by_key() == {key: [0, 1, 2, 3] for key in "abcd"}
