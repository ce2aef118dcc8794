"""Taking queues over: locked, then a certain start, then announced, then pulled."""

import logging
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from orderly.clock import now
from orderly.config import ConsumerConfig
from orderly.consumer import broker_threads, first_looks, rebalancer
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.rebalancer import Taker
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import LockQueues, ReadParked
from orderly.ordering.crashes import NO_CRASHES, Crashes
from orderly.ordering.fence import Fence, Landmark
from orderly.ordering.ownership import Inheritance
from orderly.ordering.start import StartPosition
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.state_record import Entry, decode_record
from tests.support.owners import PARK_QUEUE, QUEUE, STATE_QUEUE, StateBroker, parked_message
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
    for module in (rebalancer, first_looks):
        monkeypatch.setattr(module, "now", lambda: clock.now)
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
        taker.forget_others("orders", ())
    clock.now += 30
    told(caplog)
    cluster.locks = {QUEUES[0]: "dead@2"}
    taker.take(QUEUES[:1], ORDERS)
    assert told(caplog) == [("INFO", "0", 0.0, 60.0)]


def test_a_start_that_stays_unknown_is_warned_of_once_a_cause_and_again_each_minute(
    taker, cluster, clock, caplog, session
):
    warned = []
    for at, why in ((0, "no bname"), (0.5, "no bname"), (1, "mute"), (1.5, "mute"), (61, "mute")):
        clock.now = 1000.0 + at
        cluster.fail["query"] = OrderlyError(why)
        taker.take(QUEUES[:1], ORDERS)
        assert str(session.untaken[QUEUES[0]].error) == why
        warned += [at] * sum("start_unknown" in record.message for record in caplog.records)
        caplog.clear()
    assert warned == [0, 1, 61]
    cluster.fail.clear()
    taker.take(QUEUES[:1], ORDERS)
    assert not session.untaken


def test_nobody_is_warned_of_the_groups_own_retry_topic(taker, cluster, clock, caplog):
    queue = MessageQueue("%RETRY%shipping", "broker-a", 0)
    cluster.locks = {queue: "dead@1"}
    for _ in range(3):
        taker.take((queue,), Subscription(queue.topic))
        clock.now += 5
    assert [each[0] for each in told(caplog)] == ["INFO"]


SILENT = OrderlyError("silent")
LAST = ["last", datetime(2013, 1, 1, tzinfo=UTC)]


@pytest.fixture(params=LAST, ids=["last", "time"])
def late(request, session):
    """Begin new groups after what is stored."""
    session.consume_from = request.param
    session.client.brokers.search_offset = lambda queue, moment: MAX


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("when", ["before", "since"])
def test_a_queue_that_the_group_has_not_begun_begins_with_its_first_message(
    session, cluster, taker, when
):
    """Whoever takes it: also a member that was started after the topic got the queue."""
    cluster.queues = 2 if when == "since" else 3
    cluster.offsets[QUEUES[0]] = STORED
    taker.first_looks.look("orders")
    cluster.queues = 3
    taker.take(QUEUES, ORDERS)
    assert starts(session) == {0: STORED, 1: MIN, 2: MIN}


@pytest.mark.usefixtures("late")
def test_the_first_members_of_a_new_group_begin_as_told_whoever_commits_first(
    session, cluster, taker
):
    taker.first_looks.look("orders")
    cluster.offsets[QUEUES[0]] = STORED  # the other one's
    taker.take(QUEUES[1:], ORDERS)
    assert starts(session) == {1: MAX, 2: MAX}


@pytest.mark.usefixtures("late")
def test_a_topic_that_gets_a_queue_once_its_group_began_is_read_from_there(session, cluster, taker):
    cluster.queues = 2
    taker.first_looks.look("orders")
    cluster.queues = 3
    taker.take(QUEUES, ORDERS)
    assert starts(session) == {0: MAX, 1: MAX, 2: MIN}


def test_what_came_after_the_look_is_not_skipped(session, cluster, taker):
    session.consume_from = "last"
    taker.first_looks.look("orders")
    cluster.max_offset = lambda queue: 50
    taker.take(QUEUES[:1], ORDERS)
    assert starts(session) == {0: MAX}


@pytest.mark.parametrize("consume_from", LAST, ids=["last", "time"])
def test_while_it_is_not_known_whether_the_group_is_new_no_queue_without_an_offset_is_taken(
    session, cluster, taker, clock, caplog, consume_from
):
    session.consume_from = consume_from
    cluster.offsets[QUEUES[0]] = STORED
    cluster.fail["known"] = OrderlyError("silent")
    taker.first_looks.look("orders")
    taker.take(QUEUES, ORDERS)
    assert starts(session) == {0: STORED}
    assert set(cluster.locks) == {QUEUES[0]}, "the others are given back"
    assert {q: str(it.error) for q, it in session.untaken.items()} == {
        QUEUES[1]: "silent",
        QUEUES[2]: "silent",
    }
    assert "queue.start_unknown" in caplog.text
    cluster.fail.clear()
    clock.now += 60
    taker.take(QUEUES[1:], ORDERS)
    assert starts(session) == {0: STORED, 1: MIN, 2: MIN}
    assert not session.untaken


def test_by_key_a_start_that_is_not_known_is_not_on_record(session, monkeypatch):
    taker, broker = slow_rebuild(session, monkeypatch, [now()], seconds=0)
    session.consume_from = "last"
    broker.offset = None
    monkeypatch.setattr(taker.first_looks, "new_group", failing := Mock(side_effect=SILENT))
    taker.take((QUEUE,), ORDERS)
    assert failing.called
    assert (broker.owner, broker.offset) == (None, None)
    assert not any(isinstance(decode_record(body), Entry) for body in broker.log)


@pytest.mark.parametrize("stored", [STORED, None], ids=["kept", "forgotten"])
def test_a_start_that_was_chosen_is_remembered_by_the_process(session, cluster, stored, caplog):
    """The broker was killed before it wrote it down; what came meanwhile must not be skipped."""
    session.consume_from = "last"
    taker = Taker(session, ignore, ignore)
    taker.take(QUEUES[:1], ORDERS)
    (held,) = session.held()
    session.remove(held)
    cluster.max_offset = lambda queue: 50
    cluster.offsets = {} if stored is None else {QUEUES[0]: stored}
    taker.take(QUEUES[:1], ORDERS)
    assert starts(session) == {0: MAX if stored is None else stored}
    assert ("offset.forgotten" in caplog.text) == (stored is None)


def test_what_a_new_group_leaves_out_is_warned_of(session, cluster, taker, caplog):
    session.consume_from = "last"
    cluster.queues = 1
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


@pytest.mark.parametrize(("part", "locks"), [(0.5, 2), (0.4, 1)])
def test_a_queue_that_is_taken_late_is_renewed_at_once(
    part, locks, session, taker, cluster, monkeypatch
):
    """Else its lock could run out before the next round of renewals."""
    clock = [now()]
    for module in ("rebalancer", "renewal"):
        monkeypatch.setattr(f"orderly.consumer.{module}.now", lambda: clock[0])
    begun, takes = clock[0], session.config.lock_interval * part
    cluster.during["query"] = lambda: clock.__setitem__(0, begun + takes)
    taker.take(QUEUES[:1], ORDERS)
    (held,) = session.held()
    assert [name for name, *_ in cluster.calls].count("lock") == locks
    assert held.owned.lease.renewed_at == (clock[0] if locks == 2 else begun)


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
    monkeypatch.setattr("orderly.consumer.rebalancer.now", lambda: clock[0])
    monkeypatch.setattr("orderly.consumer.renewal.now", lambda: clock[0])
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
    monkeypatch.setattr(broker_threads, "PATIENCE", 0.0)
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


# --- in a crash loop: what the log says, and what the owner is careful about


@pytest.fixture
def take(session, monkeypatch):
    """Take the queue with these crashes on record; returns it."""

    def take(crashes, start=5, end=30):
        found = Inheritance(start, Fence(start), StartPosition(start), crashes=crashes, end=end)
        monkeypatch.setattr(Taker, "_inherit", lambda self, queue, asked_at: (found, asked_at))
        Taker(session, ignore, ignore).take(QUEUES[:1], ORDERS)
        (held,) = session.held()
        return held

    return take


def test_a_loop_and_whom_it_points_at_are_warned_of(take, caplog):
    held = take(Crashes(3, ((7, 1), (9, 2))))
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 3
    assert "crash_loop.begins" in warnings[0]
    assert "deaths=3 window=[5, 30]" in warnings[0]
    assert "message.suspected" in warnings[1]
    assert "offset=7" in warnings[1]
    assert "deaths=2" in warnings[2]
    assert (held.owned.suspects.on, held.owned.suspects.condemned) == (True, {9: 2})


@pytest.mark.parametrize("crashes", [NO_CRASHES, Crashes(1)])
def test_without_a_loop_nothing_is_said(crashes, take, caplog):
    assert not take(crashes).owned.suspects.careful
    assert "crash_loop" not in caplog.text


def test_a_loop_with_nothing_unfinished_is_not_worth_a_word(take, caplog):
    assert not take(Crashes(4), start=30).owned.suspects.on
    assert "crash_loop" not in caplog.text
