"""Giving queues up: handlers end first, then the offset is saved, then the lock is given back."""

import pytest

from orderly.config import ConsumerConfig
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.owning import releasing
from orderly.consumer.session import now
from orderly.errors import RequestTimeout
from orderly.ordering.drop import Drop
from orderly.ordering.results import Disposition
from tests.support.messages import QUEUE, message

ME = "me@1"


@pytest.fixture
def clock(monkeypatch):
    """The releaser's clock: it stands still at this many seconds after the beginning."""
    ahead, beginning = [0.0], now()
    monkeypatch.setattr(releasing, "now", lambda: beginning + ahead[0])
    return ahead


@pytest.fixture
def told(session):
    found = []
    session.hooks = ConsumerHooks(
        revoked=lambda queues: found.append("revoked"), lost=lambda queues: found.append("lost")
    )
    return found


@pytest.fixture
def busy(hold, cluster):
    """A queue, locked, with 0 done, 1 in work and 2 waiting; returns (held, batch)."""
    cluster.locks[QUEUE] = ME
    held = hold()
    held.owned.pulled([message(n, "k") for n in range(3)], 3)
    held.owned.finish(held.owned.take(1, now()), Disposition.COMMIT, now())
    return held, held.owned.take(1, now())


def test_the_lock_is_kept_until_the_handler_ends(busy, releaser, cluster, session, clock, told):
    held, batch = busy
    releaser.drop(held, Drop.REVOKED)
    for clock[0] in (0, 10, 1000, 10**6):
        assert not releaser.release_idle()
    assert (cluster.locks[QUEUE], session.held(), held.lost.is_set()) == (ME, [held], False)
    held.owned.finish(batch, Disposition.COMMIT, now())
    assert releaser.release_idle()
    assert (cluster.locks, cluster.offsets[QUEUE], session.held()) == ({}, 2, [])
    assert told == ["revoked"]


def test_at_the_handovers_deadline_the_offset_is_saved_and_the_handler_named_once(
    busy, releaser, cluster, session, clock, caplog
):
    session.config = ConsumerConfig(handover_timeout=5)
    held, _ = busy
    releaser.drop(held, Drop.REVOKED)
    releaser.release_idle()
    clock[0] = 4.9
    releaser.release_idle()
    assert cluster.offsets == {}
    for clock[0] in (5.1, 6, 7):
        releaser.release_idle()
    assert (cluster.offsets[QUEUE], cluster.locks[QUEUE]) == (1, ME)
    assert caplog.text.count("queue.release_overdue") == 1
    (line,) = [text for text in caplog.messages if "queue.release_overdue" in text]
    assert "offset=1" in line
    assert "key='k'" in line or "key=k" in line


def test_by_force_only_if_the_user_says_so_and_the_handler_hears_of_it_first(
    busy, releaser, cluster, session, clock, caplog
):
    session.config = ConsumerConfig(force_unlock_after=7)
    held, batch = busy
    order = []
    session.interrupt = lambda _: order.append(("interrupt", held.lost.is_set()))
    cluster.during["unlock"] = lambda: order.append("unlock")
    releaser.drop(held, Drop.REVOKED)
    releaser.release_idle()
    clock[0] = 6.9
    assert not releaser.release_idle()
    clock[0] = 7.1
    assert releaser.release_idle()
    assert order == [("interrupt", True), "unlock"]
    assert "queue.unlocked_while_running" in caplog.text
    assert (session.held(), cluster.offsets[QUEUE]) == ([], 1)
    held.owned.finish(batch, Disposition.COMMIT, now())
    assert held.owned.unsaved(now()) is None, "its result no longer counts"


def test_a_queue_that_stays_ours_is_never_unlocked_by_force(busy, releaser, session, clock):
    """It would be taken again at once, beside our own handler."""
    session.config = ConsumerConfig(force_unlock_after=7)
    held, _ = busy
    releaser.drop(held, Drop.RESUBSCRIBED)
    releaser.release_idle()
    clock[0] = 1000
    assert not releaser.release_idle()
    assert session.held() == [held]


def test_of_a_lost_queue_nobody_says_that_it_stays_locked(busy, releaser, clock, caplog, told):
    held, _ = busy
    releaser.drop(held, Drop.LOST)
    for clock[0] in (0, 100):
        assert not releaser.release_idle()
    assert "queue.release_waits" not in caplog.text
    assert "queue.release_overdue" not in caplog.text
    assert told == ["lost"]


def test_a_queue_whose_lease_ran_out_before_its_release_was_lost(busy, releaser, session, told):
    """Its broker was down: another member may have had it before it was given back."""
    held, batch = busy
    releaser.drop(held, Drop.REVOKED)
    held.owned.finish(batch, Disposition.COMMIT, now())
    held.owned.lease.lose()  # and nobody has looked since
    releaser.release_idle()
    assert (session.held(), told) == ([], ["lost"])


@pytest.mark.parametrize("reason", [Drop.LOST, Drop.FENCED])
def test_a_loss_sets_the_event_that_handlers_look_at(reason, busy, releaser, session):
    interrupted = []
    session.interrupt = interrupted.append
    held, _ = busy
    releaser.drop(held, reason)
    releaser.release_idle()
    assert held.lost.is_set()
    assert interrupted == [held]


def test_a_failure_keeps_the_lock_and_a_silent_broker_is_asked_once(
    releaser, hold, cluster, failure
):
    queues = cluster.route("orders").read_queues()
    for queue in queues:
        cluster.locks[queue] = ME
        releaser.drop(hold(queue), Drop.REVOKED)
    cluster.fail["unlock"] = RequestTimeout("late")
    assert not releaser.release_idle()
    assert [call[0] for call in cluster.calls].count("unlock") == 1
    cluster.fail.clear()
    assert releaser.release_idle()
    assert cluster.locks == {}


def test_by_key_the_handler_is_named_by_what_it_is_ordered_by(
    hold, releaser, cluster, session, clock, caplog
):
    session.config = ConsumerConfig(handover_timeout=5)
    cluster.locks[QUEUE] = ME
    held = hold(by_key=True, max_runs=2)
    held.owned.pulled([message(n, "tenant") for n in range(2)], 2, None, ["first", "second"])
    held.owned.take(1, now() - 7)
    held.owned.take(1, now())
    releaser.drop(held, Drop.REVOKED)
    for clock[0] in (0, 1, 6):
        releaser.release_idle()
    (line,) = [text for text in caplog.messages if "queue.release_overdue" in text]
    assert "key='first'" in line
    assert "handler_running_seconds=7" in line


def test_that_it_stays_locked_is_told_once_and_is_no_failed_release(busy, releaser, clock, caplog):
    caplog.set_level("INFO")
    held, _ = busy
    releaser.drop(held, Drop.REVOKED)
    for clock[0] in (0, 1, 2):
        releaser.release_idle()
    assert caplog.text.count("queue.release_waits") == 1
    assert held.failed_releases == 0
