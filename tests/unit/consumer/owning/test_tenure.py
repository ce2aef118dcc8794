"""What a handler may ask of its ownership: the token, how long it is sure, and more of it."""

import threading

import pytest

from orderly.consumer.locks import LockKeeper
from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.rebalancer import Releaser
from orderly.consumer.session import now
from orderly.errors import LockLost, RequestTimeout
from orderly.ordering.owned_queue import Drop
from tests.support.messages import QUEUE, message
from tests.support.waiting import eventually


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
            held.tenure.extend()
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
        threading.Thread(target=lambda h=held: deadlines.append(h.tenure.extend()))
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
            held.tenure.extend()
    assert (len(cluster.calls), asked) == (1, [2.0])
    cluster.fail.clear()
    LockKeeper(session).renew_all()
    assert held.tenure.extend() > now() + 29
    assert len(cluster.calls) == 3


def test_of_a_queue_that_was_taken_since_its_broker_is_asked_again(hold, session, cluster):
    cluster.fail["lock"] = RequestTimeout("late")
    with pytest.raises(RequestTimeout):
        hold(asked_at=now() - 20).tenure.extend()
    cluster.fail.clear()
    assert hold(cluster.route("orders").read_queues()[1]).tenure.extend() > now() + 29


def test_at_a_silent_broker_a_lease_that_ran_out_is_a_loss(hold, session, cluster):
    held = hold(asked_at=now() - 20)
    cluster.fail["lock"] = RequestTimeout("late")
    with pytest.raises(RequestTimeout):
        held.tenure.extend()
    held.owned.lease.lose()
    with pytest.raises(LockLost):
        held.tenure.extend()


def test_a_leaving_queue_may_be_extended_while_its_handler_runs(hold, session):
    held = hold()
    Releaser(session, OffsetSaver(session)).drop(held, Drop.REVOKED)
    assert held.tenure.extend() > now()
