"""Renewal rounds against a cluster in memory: what each answer, and none, does to the leases."""

import math
import threading
from dataclasses import replace

import pytest

from orderly.consumer.locks import LockKeeper
from orderly.consumer.session import now
from orderly.ordering.owned_queue import Drop, Lease
from tests.support.waiting import eventually


@pytest.fixture
def keeper(session, again):
    session.renew_again = again.append
    return LockKeeper(session)


@pytest.fixture
def holds(hold, cluster):
    """All four queues, renewed ten seconds ago."""
    holds = [hold(queue, asked_at=now() - 10) for queue in cluster.route("orders").read_queues()]
    cluster.calls.clear()
    return holds


def test_without_an_answer_nothing_changes_until_the_trust_runs_out(
    keeper, hold, holds, cluster, failure, again, attention
):
    before = [held.owned.lease.renewed_at for held in holds]
    cluster.fail["lock"] = failure
    keeper.renew_all()
    assert [held.owned.dropped for held in holds] == [None] * 4
    assert [held.owned.lease.renewed_at for held in holds] == before
    assert (again, attention) == ([2.0], [])
    ran_out = hold(replace(holds[0].queue, queue_id=4), asked_at=now() - 31)
    keeper.renew_all()
    assert ran_out.owned.dropped is Drop.LOST
    assert [held.owned.dropped for held in holds] == [None] * 4
    assert attention


def test_one_brokers_failure_does_not_stop_the_others(keeper, hold, holds, cluster, failure):
    elsewhere = hold(replace(holds[0].queue, broker_name="broker-b"), asked_at=now() - 10)
    begun = now()
    cluster.fail["lock", "broker-a"] = failure
    keeper.renew_all()
    assert elsewhere.owned.lease.renewed_at >= begun
    assert holds[0].owned.lease.renewed_at < begun


def test_when_the_first_lease_ends_handlers_know_it_whoever_hangs(keeper, holds, cluster):
    """The round that would renew it may be waiting for a broker's answer."""
    begun, told = now(), []

    def hangs():
        holds[0].owned.lease.lose()
        keeper.look()
        told.extend(held.lost.is_set() for held in holds[:2])

    cluster.during["lock"] = hangs
    keeper.renew_all()
    assert told == [True, False]
    assert holds[0].owned.dropped is Drop.LOST
    assert holds[1].owned.lease.renewed_at >= begun, "the others are renewed"


def test_a_lease_that_never_ends_is_never_found_to_have_ended(keeper, holds):
    for held in holds:
        held.owned.lease = Lease(-1e9, math.inf)
    keeper.look()
    assert [held.owned.dropped for held in holds] == [None] * 4


def test_rounds_wait_for_an_unlock_under_way(keeper, holds, session, cluster):
    with session.locking("broker-a"):
        thread = threading.Thread(target=keeper.renew_all)
        thread.start()
        session.remove(holds[0])
        assert cluster.calls == []
    thread.join(30)
    eventually(lambda: cluster.calls == [("lock", "broker-a")])
    assert holds[0].queue not in cluster.locks
