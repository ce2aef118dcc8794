"""Giving queues up: handlers end first, then the offset is saved, then the lock is given back."""

import re
from types import SimpleNamespace

import pytest

from orderly.clock import now
from orderly.config import ConsumerConfig
from orderly.consumer import rebalancer
from orderly.consumer.hooks import ConsumerHooks
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Disposition
from tests.support.messages import QUEUE, message
from tests.support.standstill import can_stand_still

ME = "me@1"


@pytest.fixture
def clock(session, monkeypatch):
    """The releaser's clock: it stays at this many seconds after the beginning."""
    ahead, beginning = [0.0], now()

    def clock():
        return beginning + ahead[0]

    monkeypatch.setattr(rebalancer, "now", clock)
    session.client.awake = SimpleNamespace(since=lambda moment: clock() - moment)
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


def test_a_queue_that_stays_ours_is_never_unlocked_by_force(busy, releaser, session, clock):
    """It would be taken again at once, beside our own handler."""
    session.config = ConsumerConfig(force_unlock_after=7)
    held, _ = busy
    releaser.drop(held, Drop.RESUBSCRIBED)
    releaser.release_idle()
    clock[0] = 1000
    assert not releaser.release_idle()
    assert session.held() == [held]


def test_a_handler_is_not_run_beside_because_nothing_ran(busy, releaser, session, monkeypatch):
    session.config = ConsumerConfig(force_unlock_after=7)
    held, _ = busy
    releaser.drop(held, Drop.REVOKED)
    releaser.release_idle()
    can_stand_still(monkeypatch)(8.0)
    assert not releaser.release_idle()
    assert session.held() == [held]


def test_a_queue_whose_lease_ran_out_before_its_release_was_lost(busy, releaser, session, told):
    """Its broker was down: another member may have had it before it was given back."""
    held, batch = busy
    releaser.drop(held, Drop.REVOKED)
    held.owned.finish(batch, Disposition.COMMIT, now())
    held.owned.lease.lose()  # and nobody has looked since
    releaser.release_idle()
    assert (session.held(), told) == ([], ["lost"])


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
    seconds = int(re.search(r"handler_running_seconds=(\d+)", line)[1])
    assert 7 <= seconds < 60, "of the one that runs longest"


def test_that_it_stays_locked_is_told_once_and_is_no_failed_release(busy, releaser, clock, caplog):
    caplog.set_level("INFO")
    held, _ = busy
    releaser.drop(held, Drop.REVOKED)
    for clock[0] in (0, 1, 2):
        releaser.release_idle()
    assert caplog.text.count("queue.release_waits") == 1
    assert held.failed_releases == 0
