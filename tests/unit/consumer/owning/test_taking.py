"""Taking queues over: locked, then a certain start, then announced, then pulled."""

import logging
import re
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly.config import ConsumerConfig
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.owning import side_by_side, taking
from orderly.consumer.owning.taking import Taker
from orderly.consumer.session import now
from orderly.model import MessageQueue
from orderly.ordering.calls import LockQueues, ReadParked
from orderly.ordering.generation import Landmark
from orderly.protocol.heartbeat import Subscription
from tests.support.park_queue import parked_message
from tests.support.state_queue import PARK_QUEUE, QUEUE, STATE_QUEUE, StateBroker
from tests.support.waiting import eventually

ORDERS = Subscription("orders")
QUEUES = tuple(MessageQueue("orders", "broker-a", number) for number in range(3))
MIN, MAX, STORED = 0, 10, 5


def ignore(*_):
    """Stands for what is of no interest here."""


@pytest.fixture
def order():
    """What happened, in order."""
    return []


@pytest.fixture
def taker(session, order):
    session.hooks = ConsumerHooks(assigned=lambda queues: order.append(("assigned", queues)))
    return Taker(session, lambda held: order.append(("pull", held.queue)), ignore)


def starts(session):
    return {held.queue.queue_id: held.owned.next_pull for held in session.held()}


def test_the_program_hears_of_its_queues_before_any_is_pulled(taker, order):
    assert taker.take(QUEUES, ORDERS) == list(QUEUES)
    assert order == [("assigned", QUEUES), *(("pull", queue) for queue in QUEUES)]


def test_each_queue_is_locked_before_its_offset_is_read(taker, cluster):
    taker.take(QUEUES, ORDERS)
    assert cluster.calls[0] == ("lock", "broker-a")
    assert [call for call in cluster.calls if call[0] == "lock"] == [("lock", "broker-a")]


def test_nothing_taken_is_not_announced(taker, cluster, order):
    cluster.locks = dict.fromkeys(QUEUES, "other@2")
    assert taker.take(QUEUES, ORDERS) == []
    assert order == []


def told(caplog):
    """Level, queue ids, seconds waited and left of each `lock.held_by_another`; forgets them."""
    pattern = r"queue_ids=\[([\d, ]*)\] seconds=([\d.]+) free_within=([\d.]+)"
    found = [
        (record.levelname, re.search(pattern, record.getMessage())) for record in caplog.records
    ]
    caplog.clear()
    return [(level, it[1], float(it[2]), float(it[3])) for level, it in found if it]


@pytest.fixture
def clock(monkeypatch, caplog):
    """Seconds, as the taker sees them."""
    caplog.set_level(logging.INFO, "orderly.consumer")
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(taking, "now", lambda: clock.now)
    return clock


def test_what_others_hold_is_told_once_warned_of_after_5_s_and_again_each_minute(
    taker, cluster, clock, caplog
):
    cluster.locks = dict.fromkeys(QUEUES[:2], "dead@1")
    heard = []
    for at in (0, 0.5, 4.5, 5, 5.5, 64.5, 65, 66):
        clock.now = 1000.0 + at
        taker.take(QUEUES[:2], ORDERS)
        heard += [(at, *each) for each in told(caplog)]
    assert heard == [
        (0, "INFO", "0, 1", 0.0, 60.0),
        (5, "WARNING", "0, 1", 5.0, 55.0),
        (65, "WARNING", "0, 1", 65.0, 0.0),
    ]


def test_the_longest_wait_is_that_of_the_queue_that_was_refused_first_and_last(
    taker, cluster, clock, caplog
):
    cluster.locks = dict.fromkeys(QUEUES, "dead@1")
    taker.take(QUEUES[:1], ORDERS)
    clock.now += 4
    taker.take(QUEUES, ORDERS)
    clock.now += 1
    taker.take(QUEUES, ORDERS)
    assert [each[1:] for each in told(caplog)] == [
        ("0", 0.0, 60.0), ("0, 1, 2", 4.0, 60.0), ("0, 1, 2", 5.0, 59.0),
    ]  # fmt: skip


@pytest.mark.parametrize("how", ["granted", "allocated to another"])
def test_a_wait_that_ended_does_not_count_for_the_next(taker, cluster, clock, caplog, session, how):
    cluster.locks = {QUEUES[0]: "dead@1"}
    taker.take(QUEUES[:1], ORDERS)
    if how == "granted":
        cluster.locks = {}
        taker.take(QUEUES[:1], ORDERS)
        session.remove(*session.held())
    else:
        taker.take((), ORDERS)
    clock.now += 30
    told(caplog)
    cluster.locks = {QUEUES[0]: "dead@2"}
    taker.take(QUEUES[:1], ORDERS)
    assert told(caplog) == [("INFO", "0", 0.0, 60.0)]


def test_nobody_is_warned_of_the_groups_own_retry_topic(taker, cluster, clock, caplog):
    queue = MessageQueue("%RETRY%shipping", "broker-a", 0)
    cluster.locks = {queue: "dead@1"}
    for _ in range(3):
        taker.take((queue,), Subscription(queue.topic))
        clock.now += 5
    assert [each[0] for each in told(caplog)] == ["INFO"]


def test_one_brokers_failure_leaves_the_others(taker, cluster, failure):
    elsewhere = MessageQueue("orders", "broker-b", 0)
    cluster.fail["lock", "broker-a"] = failure
    assert taker.take((*QUEUES, elsewhere), ORDERS) == [elsewhere]


def test_a_hook_that_raises_does_not_keep_the_queues_from_being_pulled(session, order):
    def assigned(queues):
        raise ValueError("no")

    session.hooks = ConsumerHooks(assigned=assigned)
    Taker(session, order.append, ignore).take(QUEUES, ORDERS)
    assert len(order) == 3


@pytest.mark.parametrize(
    ("consume_from", "known", "later"), [("last", MAX, MIN), ("first", MIN, MIN)]
)
def test_a_queue_that_came_later_begins_with_its_first_message(
    consume_from, known, later, session, cluster
):
    session.consume_from = consume_from
    taker = Taker(session, ignore, ignore)
    taker.know("orders", QUEUES[:1])
    taker.know("orders", QUEUES)  # what was there first counts
    taker.take(QUEUES, ORDERS)
    assert starts(session) == {0: known, 1: later, 2: later}


def test_a_committed_offset_wins_also_for_a_later_queue(session, cluster):
    session.consume_from = "last"
    cluster.offsets[QUEUES[2]] = STORED
    taker = Taker(session, ignore, ignore)
    taker.know("orders", QUEUES[:1])
    taker.take(QUEUES[2:], ORDERS)
    assert starts(session) == {2: STORED}


@pytest.mark.parametrize("stored", [STORED, None], ids=["kept", "forgotten"])
def test_a_start_that_was_chosen_is_remembered_by_the_process(session, cluster, stored, caplog):
    """The broker was killed before it wrote it down; what came meanwhile must not be skipped."""
    session.consume_from = "last"
    taker = Taker(session, ignore, ignore)
    taker.know("orders", QUEUES)
    taker.take(QUEUES[:1], ORDERS)
    (held,) = session.held()
    session.remove(held)
    cluster.max_offset = lambda queue: 50
    cluster.offsets = {} if stored is None else {QUEUES[0]: stored}
    taker.take(QUEUES[:1], ORDERS)
    assert starts(session) == {0: MAX if stored is None else stored}
    assert ("offset.forgotten" in caplog.text) == (stored is None)


def test_what_a_late_start_leaves_out_is_warned_of(session, caplog):
    session.consume_from = "last"
    taker = Taker(session, ignore, ignore)
    taker.know("orders", QUEUES[:1])
    taker.take(QUEUES[:1], ORDERS)
    assert "queue.begins_behind" in caplog.text
    assert f"minimum={MIN} start={MAX}" in caplog.text
    caplog.clear()
    taker.take(QUEUES[1:2], ORDERS)
    assert "queue.begins_behind" not in caplog.text


def test_a_topic_that_was_made_anew_begins_with_its_minimum_and_a_warning(session, cluster, caplog):
    taker = Taker(session, ignore, ignore)
    cluster.offsets[QUEUES[0]] = STORED
    taker.take(QUEUES[:1], ORDERS)
    (held,) = session.held()
    session.remove(held)
    session.known[QUEUES[0]] = replace(session.known[QUEUES[0]], landmark=Landmark(8, 0))
    taker.take(QUEUES[:1], ORDERS)
    assert starts(session) == {0: MIN}
    assert cluster.offsets[QUEUES[0]] == MIN
    assert f"former={STORED} start={MIN}" in caplog.text


def test_a_topic_subscribed_again_is_seen_for_the_first_time(session):
    session.consume_from = "last"
    taker = Taker(session, ignore, ignore)
    taker.know("orders", QUEUES[:1])
    taker.forget(["orders", "never seen"])
    taker.know("orders", QUEUES)
    taker.take(QUEUES, ORDERS)
    assert set(starts(session).values()) == {MAX}


def test_the_lease_counts_from_the_question_and_never_ends_when_broadcasting(
    session, taker, cluster
):
    asked, before = [], now()
    cluster.during["lock"] = lambda: asked.append(now())
    taker.take(QUEUES[:1], ORDERS)
    (held,) = session.held()
    assert before <= held.owned.lease.renewed_at <= asked[0]
    assert not held.owned.lease.valid(held.owned.lease.renewed_at + session.config.lock_trust)
    session.remove(held)
    session.config = ConsumerConfig(model="broadcasting", instance="i")
    taker.take(QUEUES[:1], ORDERS)
    (held,) = session.held()
    assert held.owned.lease.valid(now() + 1e9)


def test_a_paused_queue_is_taken_paused(session, taker):
    session.paused = frozenset(QUEUES[:1])
    taker.take(QUEUES, ORDERS)
    assert [held.owned.paused for held in session.held()] == [True, False, False]


def slow_rebuild(session, monkeypatch, clock, *, seconds):
    """A state broker whose record is lost, and whose park queue of 120 blocks takes so long."""
    broker = StateBroker(block=1, park=[parked_message("a", at, at) for at in range(120)])
    answer = broker.performer(session.client.client_id)

    def perform(call):
        if isinstance(call, ReadParked):
            clock[0] += seconds / 120
        return answer(call)

    session.perform = perform
    session.config = ConsumerConfig(order="key")
    monkeypatch.setattr("orderly.consumer.owning.taking.now", lambda: clock[0])
    monkeypatch.setattr("orderly.consumer.owning.renewing.now", lambda: clock[0])
    topics = SimpleNamespace(
        ready=frozenset,
        queue_of=lambda queue: STATE_QUEUE,
        park_queue_of=lambda queue: PARK_QUEUE,
    )
    return Taker(session, ignore, ignore, topics), broker


def test_reading_what_is_parked_may_take_longer_than_a_lock_lasts(session, monkeypatch):
    clock = [now()]
    begun = clock[0]
    taker, _ = slow_rebuild(session, monkeypatch, clock, seconds=60)
    assert taker.take((QUEUE,), ORDERS) == [QUEUE]
    (held,) = session.held()
    assert held.owned.parking.parked("a")
    assert held.owned.lease.renewed_at >= begun + 49, "the last time it was asked for"


def test_a_lock_that_may_have_run_out_is_not_renewed(session, monkeypatch):
    clock = [now()]
    taker, broker = slow_rebuild(session, monkeypatch, clock, seconds=120)
    assert taker.take((QUEUE,), ORDERS) == []
    assert broker.owner is None, "given back, for the next try"
    assert broker.asked(LockQueues) == 2, "before the record and after it"


@pytest.fixture
def slow(session, cluster, monkeypatch):
    """A broker that answers a lock request once the event is set; rounds do not wait for it."""
    monkeypatch.setattr(side_by_side, "PATIENCE", 0.0)
    answers, lock_queues = threading.Event(), cluster.lock_queues

    def lock(group, broker_name, queues):
        assert broker_name != "broker-a" or answers.wait(60)
        return lock_queues(group, broker_name, queues)

    cluster.lock_queues = lock
    yield answers
    answers.set()


def test_what_a_slow_broker_gives_late_is_announced_by_the_next_round_and_taken_once(
    session, taker, order, slow, attention, cluster
):
    elsewhere = MessageQueue("orders", "broker-b", 0)
    late = Taker(session, lambda held: order.append(("pull", held.queue)), ignore)
    late.take((*QUEUES, elsewhere), ORDERS)
    eventually(lambda: session.find(elsewhere) is not None)
    late.take((*QUEUES, elsewhere), ORDERS)
    eventually(lambda: ("pull", elsewhere) in order)
    assert set(starts(session)) == {0}
    slow.set()
    assert late.steps.wait(60)
    eventually(lambda: attention)  # the rebalancer is called
    first = {held.queue: held for held in session.held()}
    late.take(QUEUES, ORDERS)  # planned before the answer came
    assert late.steps.wait(60)
    assert {held.queue: held for held in session.held()} == first
    assert cluster.calls.count(("lock", "broker-a")) == 1
    assert all(held.announced for held in session.held())
    assert order[-4:] == [("assigned", QUEUES), *(("pull", queue) for queue in QUEUES)]
