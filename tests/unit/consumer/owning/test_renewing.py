"""Renewing locks: what is refused, or given up meanwhile, and that a loss is told once."""

from dataclasses import replace

import pytest

from orderly.consumer.locks import announce_loss, renew, renew_now
from orderly.consumer.session import now
from orderly.ordering.owned_queue import Drop

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
