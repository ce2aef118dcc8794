"""Locks: renewal rounds, what is refused or given up meanwhile, and what a handler may ask."""

import math
import threading
from dataclasses import replace

import pytest

from orderly.clock import now
from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.rebalancer import Releaser
from orderly.consumer.renewal import LockKeeper, announce_loss, renew, renew_now
from orderly.errors import LockLost, RequestTimeout
from orderly.ordering.owned_queue import Drop, Lease
from tests.support.messages import QUEUE, message
from tests.support.waiting import eventually


@pytest.fixture
def keeper(session, again):
    session.renew_again = again.append
    return LockKeeper(session)


@pytest.fixture
def renewed_earlier(hold, cluster):
    """All four queues, renewed ten seconds ago."""
    queues = cluster.route("orders").read_queues()
    found = [hold(queue, asked_at=now() - 10) for queue in queues]
    cluster.calls.clear()
    return found


def test_without_an_answer_nothing_changes_until_the_trust_runs_out(
    keeper, hold, renewed_earlier, cluster, failure, again, attention
):
    before = [held.owned.lease.renewed_at for held in renewed_earlier]
    cluster.fail["lock"] = failure
    keeper.renew_all()
    assert [held.owned.dropped for held in renewed_earlier] == [None] * 4
    assert [held.owned.lease.renewed_at for held in renewed_earlier] == before
    assert (again, attention) == ([2.0], [])
    ran_out = hold(replace(renewed_earlier[0].queue, queue_id=4), asked_at=now() - 31)
    keeper.renew_all()
    assert ran_out.owned.dropped is Drop.LOST
    assert [held.owned.dropped for held in renewed_earlier] == [None] * 4
    assert attention


def test_one_brokers_failure_does_not_stop_the_others(
    keeper, hold, renewed_earlier, cluster, failure
):
    elsewhere = hold(replace(renewed_earlier[0].queue, broker_name="broker-b"), asked_at=now() - 10)
    begun = now()
    cluster.fail["lock", "broker-a"] = failure
    keeper.renew_all()
    assert elsewhere.owned.lease.renewed_at >= begun
    assert renewed_earlier[0].owned.lease.renewed_at < begun


def test_when_the_first_lease_ends_handlers_know_it_whoever_hangs(keeper, renewed_earlier, cluster):
    """The round that would renew it may be waiting for a broker's answer."""
    begun, told = now(), []

    def hangs():
        renewed_earlier[0].owned.lease.lose()
        keeper.look()
        told.extend(held.lost.is_set() for held in renewed_earlier[:2])

    cluster.during["lock"] = hangs
    keeper.renew_all()
    assert told == [True, False]
    assert renewed_earlier[0].owned.dropped is Drop.LOST
    assert renewed_earlier[1].owned.lease.renewed_at >= begun, "the others are renewed"


def test_a_lease_that_never_ends_is_never_found_to_have_ended(keeper, renewed_earlier):
    for held in renewed_earlier:
        held.owned.lease = Lease(-1e9, math.inf)
    keeper.look()
    assert [held.owned.dropped for held in renewed_earlier] == [None] * 4


def test_rounds_wait_for_an_unlock_under_way(keeper, renewed_earlier, session, cluster):
    with session.locking("broker-a"):
        thread = threading.Thread(target=keeper.renew_all)
        thread.start()
        session.remove(renewed_earlier[0])
        assert cluster.calls == []
    thread.join(30)
    eventually(lambda: cluster.calls == [("lock", "broker-a")])
    assert renewed_earlier[0].queue not in cluster.locks


# --- renewing locks -------------------------------------------------------------------------------


OTHER = "other@2"


@pytest.fixture
def queues(cluster):
    return cluster.route("orders").read_queues()


@pytest.fixture
def holds(hold, queues):
    return [hold(queue) for queue in queues]


@pytest.fixture
def interrupted(session):
    found = []
    session.interrupt = found.append
    return found


def test_one_request_renews_all(session, holds, cluster):
    before = now()
    renew(session, "broker-a")
    assert cluster.calls.count(("lock", "broker-a")) == 1
    assert all(held.owned.lease.renewed_at >= before for held in holds)


def test_without_any_nothing_is_asked(session, cluster):
    renew(session, "broker-a")
    assert cluster.calls == []


@pytest.mark.parametrize("how", ["released", "lost", "ran out", "fenced, and ran out"])
def test_the_lock_of_what_is_no_longer_ours_is_not_asked_for(
    how, session, holds, cluster, hold, queues
):
    gone = holds[0]
    if how == "released":
        session.remove(gone)
    elif how == "lost":
        gone.owned.drop(Drop.LOST)
    else:
        gone = hold(queues[0], asked_at=now() - 31)
        if how == "fenced, and ran out":
            gone.owned.drop(Drop.FENCED)
    renew(session, "broker-a")
    assert gone.queue not in cluster.locks
    assert holds[1].queue in cluster.locks
    cluster.calls.clear()
    renew_now(session, gone)
    assert cluster.calls == []


def test_a_refusal_is_told_at_once_to_handlers_tasks_and_rebalancer(
    session, holds, cluster, attention, interrupted, caplog
):
    cluster.locks[holds[1].queue] = OTHER
    renew(session, "broker-a")
    assert [held.lost.is_set() for held in holds] == [False, True, False, False]
    assert (interrupted, attention) == ([holds[1]], [1])
    assert holds[1].owned.dropped is Drop.LOST
    assert "another client holds it" in caplog.text


def test_an_answer_after_the_trust_ran_out_meanwhile_brings_nothing_back(
    session, holds, cluster, interrupted
):
    def noticed_by_somebody():
        holds[0].owned.keeps_lock(now() + 31)

    cluster.during["lock"] = noticed_by_somebody
    renew(session, "broker-a")
    assert interrupted == [holds[0]]
    assert not holds[0].owned.lease.valid(now())


def test_what_another_broker_holds_is_none_of_it(session, holds, hold, cluster):
    elsewhere = hold(replace(holds[0].queue, broker_name="broker-b"))
    before = elsewhere.owned.lease.renewed_at
    cluster.calls.clear()
    renew(session, "broker-a")
    assert cluster.calls == [("lock", "broker-a")]
    assert elsewhere.owned.lease.renewed_at == before


def test_no_answer_changes_nothing_and_is_asked_for_soon(session, holds, cluster, failure):
    again = []
    session.renew_again = again.append
    cluster.fail["lock"] = failure
    with pytest.raises(type(failure)):
        renew(session, "broker-a")
    assert [held.owned.dropped for held in holds] == [None] * 4
    assert again == [2.0], "it is asked again soon"


def test_a_loss_is_told_once(session, holds, attention, interrupted, caplog):
    for _ in range(3):
        announce_loss(session, holds[0], "made by the test")
    assert (interrupted, attention) == ([holds[0]], [1])
    assert caplog.text.count("lock.lost") == 1


def test_what_was_given_back_is_no_loss(session, holds, attention, interrupted):
    session.remove(holds[0])
    announce_loss(session, holds[0], "made by the test")
    assert (interrupted, attention, holds[0].lost.is_set()) == ([], [], False)


# --- what a handler may ask of its ownership ------------------------------------------------------


class WaitedFor:
    """A lock that tells when somebody waits for it."""

    def __init__(self, lock):
        self._lock, self.waited_for = lock, threading.Event()

    def __enter__(self):
        self.waited_for.set()
        self._lock.acquire()

    def __exit__(self, *exc_info):
        self._lock.release()


class Waiters:
    """A lock that counts who wanted it."""

    def __init__(self, lock):
        self._lock, self._counting, self.count = lock, threading.Lock(), 0

    def __enter__(self):
        with self._counting:
            self.count += 1
        self._lock.acquire()

    def __exit__(self, *exc_info):
        self._lock.release()


def test_extending_while_the_queue_is_unlocked_by_force_takes_nothing_back(hold, session, cluster):
    """It waits until the unlock is done, and then the queue is no longer ours."""
    cluster.locks[QUEUE] = "me@1"
    held = hold()
    held.owned.pulled([message(0)], 1)
    held.owned.take(1, now())
    held.owned.drop(Drop.REVOKED)
    failures = []

    def extend():
        try:
            held.ownership.extend()
        except LockLost as error:
            failures.append(error)

    thread = threading.Thread(target=extend)
    lock = session.locking(QUEUE.broker_name)
    with lock:
        waiting = WaitedFor(lock)
        session.locking = {QUEUE.broker_name: waiting}.__getitem__
        thread.start()
        assert waiting.waited_for.wait(30)
        OffsetSaver(session).hand_on(held)
        session.remove(held)
    thread.join(30)
    assert len(failures) == 1
    assert QUEUE not in cluster.locks


def test_those_who_wait_while_another_asks_join_and_one_request_renews_all(hold, session, cluster):
    """The first asks; whoever came meanwhile is content with the next request, or with none."""
    holds = [hold(queue) for queue in cluster.route("orders").read_queues()]
    begun, go_on = threading.Event(), threading.Event()
    lock, deadlines = session.locking("broker-a"), []

    def answer():
        begun.set()
        assert go_on.wait(60)

    cluster.during["lock"] = answer
    threads = [
        threading.Thread(target=lambda h=held: deadlines.append(h.ownership.extend()))
        for held in [holds[0], *holds * 5]
    ]
    threads[0].start()
    assert begun.wait(30)
    waiting = Waiters(lock)
    session.locking = {"broker-a": waiting}.__getitem__
    for thread in threads[1:]:
        thread.start()
    eventually(lambda: waiting.count == 20)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert cluster.calls.count(("lock", "broker-a")) == 2
    assert len(deadlines) == 21
    assert len({held.owned.lease.renewed_at for held in holds}) == 1


def test_a_broker_that_was_silent_is_left_to_the_rounds(hold, session, cluster):
    """Or each handler would take a thread for a request's time-out, one after the other."""
    held, asked = hold(asked_at=now() - 20), []
    session.renew_again = asked.append
    cluster.fail["lock"] = RequestTimeout("late")
    for _ in range(3):
        with pytest.raises(RequestTimeout):
            held.ownership.extend()
    assert (len(cluster.calls), asked) == (1, [2.0])
    cluster.fail.clear()
    LockKeeper(session).renew_all()
    begun = now()
    assert held.ownership.extend() > begun + 29
    assert len(cluster.calls) == 3


def test_of_a_queue_that_was_taken_since_its_broker_is_asked_again(hold, session, cluster):
    cluster.fail["lock"] = RequestTimeout("late")
    with pytest.raises(RequestTimeout):
        hold(asked_at=now() - 20).ownership.extend()
    cluster.fail.clear()
    begun = now()
    assert hold(cluster.route("orders").read_queues()[1]).ownership.extend() > begun + 29


def test_at_a_silent_broker_a_lease_that_ran_out_is_a_loss(hold, session, cluster):
    held = hold(asked_at=now() - 20)
    cluster.fail["lock"] = RequestTimeout("late")
    with pytest.raises(RequestTimeout):
        held.ownership.extend()
    held.owned.lease.lose()
    with pytest.raises(LockLost):
        held.ownership.extend()


def test_a_leaving_queue_may_be_extended_while_its_handler_runs(hold, session):
    held = hold()
    Releaser(session, OffsetSaver(session)).drop(held, Drop.REVOKED)
    assert held.ownership.extend() > now()
