"""Renewal rounds against a cluster in memory: what each answer, and none, does to the leases."""

import math
import threading
from dataclasses import replace

import pytest

from orderly.consumer.owning import lock_keeper, renewing, side_by_side
from orderly.consumer.owning.lock_keeper import LockKeeper
from orderly.ordering.drop import Drop
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.results import Disposition
from tests.support.messages import message
from tests.support.waiting import eventually

OTHER = "other@2"


@pytest.fixture
def keeper(session, rebalancer, again):
    """Of a member that holds all four queues."""
    rebalancer.round()
    again.clear()
    session.renew_again = again.append
    return LockKeeper(session)


@pytest.fixture
def clock(monkeypatch, keeper, session):
    """The keeper's clock, as a list of one number; it begins at the last renewal."""
    clock = [max(held.owned.lease.renewed_at for held in session.held())]
    for module in (lock_keeper, renewing):
        monkeypatch.setattr(module, "now", lambda: clock[0])
    return clock


@pytest.fixture
def attention(session):
    calls = []
    session.attention = lambda: calls.append(1)
    return calls


def drops(session):
    return [held.owned.dropped for held in session.held()]


def test_all_queues_of_a_broker_are_renewed_by_one_request(keeper, session, cluster, clock):
    cluster.calls.clear()
    clock[0] += 20
    keeper.renew_all()
    assert cluster.calls == [("lock", "broker-a")]
    assert {held.owned.lease.renewed_at for held in session.held()} == {clock[0]}


def test_what_a_partial_answer_leaves_out_is_lost_and_the_rest_is_renewed(
    keeper, session, cluster, clock, attention
):
    lost = session.held()[2]
    cluster.locks[lost.queue] = OTHER
    clock[0] += 20
    keeper.renew_all()
    assert drops(session) == [None, None, Drop.LOST, None]
    assert {h.queue for h in session.held() if not h.owned.lease.valid(clock[0])} == {lost.queue}
    assert attention == [1], "the rebalancer forgets it and asks again"


def test_a_lost_queue_is_asked_for_no_more(keeper, session, cluster, clock, caplog):
    lost = session.held()[0]
    cluster.locks[lost.queue] = OTHER
    keeper.renew_all()
    del cluster.locks[lost.queue]
    keeper.renew_all()
    assert lost.queue not in cluster.locks
    assert lost.owned.dropped is Drop.LOST
    assert caplog.text.count("lock.lost") == 1


def test_the_trust_counts_from_the_sending_of_the_request(keeper, session, cluster, clock):
    sent = clock[0] = clock[0] + 20

    def slowly():
        clock[0] += 0.9

    cluster.during["lock"] = slowly
    keeper.renew_all()
    assert {held.owned.lease.renewed_at for held in session.held()} == {sent}


def test_an_older_answer_after_a_newer_one_shortens_nothing(keeper, session, cluster, clock):
    newer = clock[0] + 5

    def meanwhile():
        for held in session.held():
            held.owned.lease.renew(newer)

    cluster.during["lock"] = meanwhile
    keeper.renew_all()
    assert {held.owned.lease.renewed_at for held in session.held()} == {newer}


def test_an_answer_after_the_trust_ran_out_brings_nothing_back(keeper, session, cluster, clock):
    late = clock[0] + 31

    def stalled():
        for held in session.held():
            held.owned.take(1, late)

    cluster.during["lock"] = stalled
    keeper.renew_all()
    assert drops(session) == [Drop.LOST] * 4
    assert not any(held.owned.lease.valid(clock[0]) for held in session.held())


def test_without_an_answer_nothing_changes_until_the_trust_runs_out(
    keeper, session, cluster, clock, failure, again, attention
):
    before = [held.owned.lease.renewed_at for held in session.held()]
    cluster.fail["lock"] = failure
    clock[0] = min(before) + 29.9
    keeper.renew_all()
    assert drops(session) == [None] * 4
    assert [held.owned.lease.renewed_at for held in session.held()] == before
    assert (again, attention) == ([2.0], [])
    clock[0] = max(before) + 30
    keeper.renew_all()
    assert drops(session) == [Drop.LOST] * 4
    assert attention


@pytest.fixture
def elsewhere(session, clock):
    """A queue of another broker, held as well."""
    first = session.held()[0]
    queue = replace(first.queue, broker_name="broker-b")
    owned = OwnedQueue(queue, 0, Lease(clock[0], 30), max_messages=1, max_bytes=1)
    session.add(owned, first.subscription)
    return owned


def test_one_brokers_failure_does_not_stop_the_others(
    keeper, session, cluster, clock, failure, elsewhere
):
    first = session.held()[0]
    cluster.fail["lock", "broker-a"] = failure
    clock[0] += 10
    keeper.renew_all()
    assert elsewhere.lease.renewed_at == clock[0]
    assert first.owned.lease.renewed_at < clock[0]


def test_a_broker_that_hangs_holds_up_no_other_and_is_asked_once(
    keeper, session, cluster, clock, elsewhere, monkeypatch
):
    monkeypatch.setattr(side_by_side, "PATIENCE", 0.0)
    answers, lock_queues = threading.Event(), cluster.lock_queues

    def lock(group, broker_name, queues):
        granted = lock_queues(group, broker_name, queues)
        assert broker_name == "broker-b" or answers.wait(60)
        return granted

    cluster.lock_queues = lock
    cluster.calls.clear()

    def renewed():
        keeper.renew_all()  # again: the request before this one may still be about to end
        return elsewhere.lease.renewed_at == clock[0]

    for _ in range(3):
        clock[0] += 9
        eventually(renewed)
        eventually(lambda: ("lock", "broker-a") in cluster.calls)
    assert cluster.calls.count(("lock", "broker-a")) == 1
    assert session.held()[0].owned.lease.renewed_at == clock[0] - 27
    answers.set()
    eventually(lambda: session.held()[0].owned.lease.renewed_at == clock[0] - 18)


def test_a_dropped_queue_is_renewed_while_its_handler_runs(keeper, session, cluster, clock):
    held = session.held()[0]
    held.owned.pull_gate(clock[0])
    held.owned.pulled([message(0, queue=held.queue)], 1)
    batch = held.owned.take(1, clock[0])
    held.owned.drop(Drop.REVOKED)
    for _ in range(5):
        clock[0] += 20
        keeper.renew_all()
    assert held.owned.dropped is Drop.REVOKED
    held.owned.finish(batch, Disposition.COMMIT, clock[0])
    assert held.owned.unsaved(clock[0]) == 1, "the lock was kept, so the success counts"


def test_when_the_first_lease_ends_handlers_know_it_whoever_hangs(
    keeper, session, cluster, clock, attention
):
    """The round that would renew it may be waiting for a broker's answer."""
    first = session.held()[1]
    clock[0] += 20
    first.owned.lease.renew(clock[0] - 5)
    ends_at = min(held.owned.lease.ends_at for held in session.held())

    told = []

    def hangs():
        clock[0] = ends_at
        keeper.look()
        told.extend(held.lost.is_set() for held in session.held()[:2])

    cluster.during["lock"] = hangs
    keeper.renew_all()
    assert told == [True, False]
    assert session.held()[0].owned.dropped is Drop.LOST
    assert first.owned.lease.renewed_at > ends_at - 30, "the others are renewed"


def test_a_lease_that_never_ends_is_never_found_to_have_ended(keeper, session, clock):
    for held in session.held():
        held.owned.lease = Lease(0.0, math.inf)
    clock[0] += 1e9
    keeper.look()
    assert drops(session) == [None] * 4


def test_a_fenced_queue_whose_lease_ran_out_is_asked_for_no_more(keeper, session, cluster, clock):
    held = session.held()[0]
    held.owned.drop(Drop.FENCED)
    clock[0] += 31
    cluster.locks.clear()
    keeper.renew_all()
    assert held.queue not in cluster.locks


def test_rounds_wait_for_an_unlock_under_way(keeper, session, cluster):
    cluster.calls.clear()
    with session.locking("broker-a"):
        thread = threading.Thread(target=keeper.renew_all)
        thread.start()
        session.remove(session.held()[0])
        assert cluster.calls == []
    thread.join(30)
    eventually(lambda: cluster.calls == [("lock", "broker-a")])
