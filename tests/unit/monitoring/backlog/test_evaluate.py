"""Scans in, snapshots out: sums agree with rows, and what is unknown never looks like 0."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue
from orderly.monitoring.backlog.evaluate import Backlog, Point
from orderly.monitoring.backlog.reading import (
    NEVER,
    NOT_READ,
    BrokerReading,
    GroupReading,
    QueueRecord,
    Recreation,
)
from orderly.monitoring.backlog.rules import EvaluationSettings
from orderly.monitoring.backlog.states import QueueState
from tests.support.snapshots import AT, scan, sums, topic_reading

OFFSETS = st.integers(0, 60)
SPANS = st.one_of(st.none(), st.tuples(OFFSETS, OFFSETS).map(sorted).map(tuple))
COMMITTED = st.one_of(st.just(NEVER), st.just(NOT_READ), OFFSETS)
GROUPS = st.sampled_from([{}, {"shipping": GroupReading("shipping", read_at=AT)}])
QUEUES = st.tuples(SPANS, COMMITTED)
SCANS = st.lists(
    st.tuples(
        st.lists(QUEUES, min_size=2, max_size=2),
        st.lists(QUEUES, min_size=1, max_size=3),
        GROUPS,
    ),
    min_size=1,
    max_size=8,
)


def taken(scans, step=30):
    """The snapshot after these scans of the topics `orders` and `returns`."""
    backlog = Backlog()
    for n, (orders, returns, groups) in enumerate(scans):
        found = backlog.take(
            scan(
                AT + step * n,
                {"orders": [s for s, _ in orders], "returns": [s for s, _ in returns]},
                {
                    "shipping": {
                        "orders": [c for _, c in orders],
                        "returns": [c for _, c in returns],
                    }
                },
                groups,
            )
        )
    return found


@given(SCANS)
def test_nothing_is_ever_negative(scans):
    for row in taken(scans).rows():
        for name in ("span", "backlog", "lost", "head_age", "in_rate", "out_rate", "drain_eta"):
            value = getattr(row, name)
            assert value is None or value >= 0, name


@given(SCANS)
def test_what_could_not_be_measured_is_none_and_never_ok(scans):
    orders, returns, _ = scans[-1]
    for row, (span, committed) in zip(taken(scans).rows(), [*orders, *returns], strict=True):
        if span is None or committed == NOT_READ:
            assert row.state is QueueState.UNKNOWN
            assert (row.backlog, row.head_age, row.drain_eta, row.retention_eta) == (None,) * 4
        elif row.backlog is None:
            assert row.state in (QueueState.NEW, QueueState.AHEAD)
        else:
            assert row.backlog == span[1] - max(committed, span[0])
        assert (row.minimum is None) == (span is None)
        assert (row.committed is None) == (committed < 0)


@given(SCANS)
def test_sums_are_those_of_the_rows(scans):
    group = taken(scans).groups["shipping"]
    for status in (group, *group.topics.values()):
        plain, found = sums(status.rows()), status.sums
        for name in type(found).__dataclass_fields__:
            expected, value = getattr(plain, name), getattr(found, name)
            if isinstance(expected, float):
                assert value == pytest.approx(expected, abs=1e-6), name
            else:
                assert value == expected, name


@given(SCANS)
def test_every_cause_but_that_of_ok_says_something(scans):
    for row in taken(scans).rows():
        assert bool(row.cause) == (row.state is not QueueState.OK)


@given(SCANS)
def test_a_snapshot_never_changes(scans):
    backlog, kept = Backlog(), []
    for n, (orders, _, groups) in enumerate(scans):
        found = backlog.take(
            scan(
                AT + 30 * n,
                {"orders": [s for s, _ in orders]},
                {"shipping": {"orders": [c for _, c in orders]}},
                groups,
            )
        )
        kept.append((found, list(found.rows())))
    for found, rows in kept:
        assert list(found.rows()) == rows


# --- what comes and goes -------------------------------------------------------------------------


def one(at, span=(0, 10), committed=4, **fields):
    return scan(at, {"orders": [span]}, {"shipping": {"orders": [committed]}}, **fields)


def test_a_group_that_is_gone_is_gone_at_once_and_forgotten_after_two_scans():
    backlog = Backlog()
    backlog.take(one(AT))
    assert not backlog.take(scan(AT + 15, committed={})).groups
    assert backlog.history("shipping") == (Point(AT, 6),)
    backlog.take(scan(AT + 30, committed={}))
    assert backlog.history("shipping") == ()


def test_what_only_a_silent_broker_knew_is_unknown_not_gone():
    backlog = Backlog()
    backlog.take(one(AT))
    silent = {"broker-a": BrokerReading("broker-a", error="no answer")}
    for n in range(1, 6):
        found = backlog.take(scan(AT + 15 * n, {}, {}, brokers=silent))
        assert [row.state for row in found.rows()] == [QueueState.UNKNOWN]
        assert found.groups["shipping"].sums.backlog is None


def test_a_group_without_offsets_is_seen():
    found = Backlog().take(scan(AT, groups={"idle": GroupReading("idle")}))
    assert found.groups["idle"].sums.queues == 0
    assert found.groups["idle"].sums.backlog is None


def test_a_queue_that_is_added_leaves_what_is_known_of_the_others():
    backlog = Backlog()
    for n in range(10):
        backlog.take(one(AT + 30 * n))
    found = backlog.take(
        scan(AT + 300, {"orders": [(0, 10), (0, 0)]}, {"shipping": {"orders": [4, NEVER]}})
    )
    assert [row.state for row in found.rows()] == [QueueState.STALL, QueueState.NEW]


def test_the_history_of_a_group_adds_up_its_topics():
    backlog = Backlog()
    for n in range(70):
        backlog.take(
            scan(
                AT + n,
                {"orders": [(0, 10 + n)], "returns": [(0, 5)]},
                {"shipping": {"orders": [0], "returns": [0]}},
            )
        )
    points = backlog.history("shipping")
    assert len(points) == 60
    assert points[-1] == (AT + 69, 84)
    assert backlog.history("shipping", "returns")[-1] == (AT + 69, 5)
    assert backlog.history("nobody") == ()


def test_an_unknown_scan_is_unknown_in_the_history():
    backlog = Backlog()
    backlog.take(one(AT, span=None))
    assert backlog.history("shipping") == (Point(AT, None),)


# --- single figures ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("span", "committed", "state", "backlog", "lost"),
    [
        ((0, 10), 3, QueueState.OK, 7, 0),
        ((0, 10), 10, QueueState.OK, 0, 0),
        ((5, 10), 2, QueueState.LOST, 5, 3),
        ((10, 10), 2, QueueState.LOST, 0, 8),
        ((0, 10), 11, QueueState.AHEAD, None, 0),
        ((0, 10), NEVER, QueueState.NEW, None, 0),
        ((7, 7), NEVER, QueueState.NEW, 0, 0),
        ((0, 10), NOT_READ, QueueState.UNKNOWN, None, 0),
        (None, 3, QueueState.UNKNOWN, None, 0),
    ],
)
def test_states_of_offsets(span, committed, state, backlog, lost):
    (row,) = Backlog().take(one(AT, span, committed)).rows()
    assert (row.state, row.backlog, row.lost) == (state, backlog, lost)


def test_no_backlog_means_nothing_to_wait_for():
    (row,) = Backlog().take(one(AT, committed=10)).rows()
    assert (row.head_age, row.drain_eta, row.retention_eta) == (0.0, 0.0, math.inf)


def test_retention_eats_the_head():
    backlog = Backlog()
    reading = GroupReading(
        "shipping", delays={topic_reading("orders", [(0, 10)]).queues[0]: 259_000.0}, delays_at=AT
    )
    (row,) = backlog.take(one(AT, groups={"shipping": reading})).rows()
    assert row.head_age == pytest.approx(259_000.0)
    assert row.retention_eta == pytest.approx(200.0)


def test_skew_is_that_of_the_inflow():
    backlog = Backlog()
    for n in range(3):
        spans = [(0, 30 * n), (0, 10 * n), (0, 0)]
        found = backlog.take(scan(AT + 10 * n, {"orders": spans}, {"s": {"orders": [0, 0, 0]}}))
    skew = found.groups["s"].topics["orders"].skew
    assert skew.busiest.queue_id == 0
    assert skew.top_share == pytest.approx(0.75)
    assert skew.max_over_mean == pytest.approx(2.25)
    assert skew.gini == pytest.approx(0.5)


def test_a_topic_without_inflow_has_no_skew():
    backlog = Backlog()
    for n in range(3):
        found = backlog.take(one(AT + n))
    assert found.groups["shipping"].topics["orders"].skew is None


def test_an_age_that_is_not_known_does_not_become_0_by_another_topic():
    found = Backlog().take(
        scan(
            AT,
            {"orders": [(0, 10)], "returns": [(0, 10)]},
            {"shipping": {"orders": [10], "returns": [4]}},
        )
    )
    sums = found.groups["shipping"].sums
    assert (sums.head_age, sums.drain_eta, sums.retention_eta) == (None, None, None)
    assert found.groups["shipping"].topics["orders"].sums.head_age == 0.0


def test_the_age_of_a_queue_that_could_not_be_read_is_in_no_sum():
    backlog = Backlog()
    for at, span in ((AT, (0, 0)), (AT + 10, (0, 10)), (AT + 100, None)):
        last = (0, 10) if span is None else (0, 0)
        found = backlog.take(scan(at, {"orders": [span, last]}, {"shipping": {"orders": [0, 0]}}))
    sums = found.groups["shipping"].sums
    assert sums.head_age == [row.head_age for row in found.rows()][1]


def states(window, step=15.0, settings=None):
    """The state after each scan of (end, committed)."""
    backlog, found = Backlog(settings), []
    for n, (end, committed) in enumerate(window):
        span = None if end is None else (0, end)
        snapshot = backlog.take(
            scan(AT + step * n, {"orders": [span]}, {"shipping": {"orders": [committed]}})
        )
        found += [row.state for row in snapshot.rows()]
    return found


def played(events, scans, step):
    """What scans see of (time, messages stored or committed) events of a topic."""
    window, stored, committed = [], 0, 0
    waiting = sorted(events)
    for n in range(scans):
        while waiting and waiting[0][0] <= n * step:
            _, what, count = waiting.pop(0)
            stored += count if what == "store" else 0
            committed = count if what == "commit" else committed
        window.append((stored, min(committed, stored)))
    return window


def seldom(period, delay):
    """One message a period, committed `delay` seconds later."""
    return [
        event
        for n in range(40)
        for event in (
            (n * period + 1, "store", 1),
            (n * period + 1 + delay, "commit", n + 1),
        )
    ]


def bursts(size, every, rate):
    """A burst now and then, worked off at a rate, committed each 5 s."""
    events = [(n * every, "store", size) for n in range(12)]
    for n in range(12):
        events += [
            (n * every + t, "commit", n * size + min(size, t * rate))
            for t in range(5, size // rate + 6, 5)
        ]
    return events


FALSE_ALARMS = {
    "a slow topic": played(seldom(60, 6), 200, 15),
    "one message an hour": played(seldom(3600, 10), 2000, 15),
    "a message an hour, seen while it waits": played(seldom(3600, 14), 2000, 15),
    "a quiet topic": [(50, 50)] * 100,
    "a topic that was never used": [(0, 0)] * 100,
    "bursts": played(bursts(2000, 300, 20), 200, 15),
    "the same offset committed again and again": [(10, 10)] * 50,
    "a steady backlog of one": [(100 + n, 99 + n) for n in range(100)],
    "a backlog that jumps and stays": [(0, 0)] + [(30 + n, n) for n in range(60)],
    "a new backlog on a queue long idle": [(50, 50)] * 100 + [(60, 50)] * 3,
}


@pytest.mark.parametrize("name", FALSE_ALARMS)
def test_no_false_alarm(name):
    assert set(states(FALSE_ALARMS[name])) == {QueueState.OK}


@pytest.mark.parametrize("step", [1.0, 2.0, 5.0, 7.0, 15.0, 30.0, 60.0])
def test_a_consumer_that_commits_every_five_seconds_is_fine_at_any_scan_interval(step):
    events = [(n / 10, "store", 1) for n in range(9000)]
    events += [(t, "commit", t * 10 - 8) for t in range(5, 900, 5)]
    assert set(states(played(events, int(900 / step), step), step)) == {QueueState.OK}


def test_few_scans_are_no_window():
    window = [(10 + n, 5) for n in range(2)]
    assert states(window, step=500.0) == [QueueState.OK] * 2


def test_a_stall_is_told_after_its_window():
    found = states([(10, 5)] * 20)
    assert found[:8] == [QueueState.OK] * 8
    assert set(found[8:]) == {QueueState.STALL}  # 8 * 15 s = 120 s


def test_a_stall_while_messages_come_in_is_a_stall():
    assert states([(10 + n, 5) for n in range(20)])[-1] is QueueState.STALL


def test_a_stall_ends_with_the_first_commit():
    assert states([(10, 5)] * 20 + [(10, 6)])[-1] is QueueState.OK


def test_a_backlog_that_never_shrinks_grows():
    found = states([(10 + 3 * n, 5 + n) for n in range(20)])
    assert found[7] is QueueState.OK
    assert set(found[8:]) == {QueueState.GROWING}


def test_a_backlog_that_grows_in_steps_grows():
    window = [(10 + n + n // 2, 5 + n) for n in range(20)]
    assert states(window)[-1] is QueueState.GROWING


def test_a_backlog_that_shrinks_once_in_the_window_does_not_grow():
    window = [(10 + 3 * n + (n % 7 == 6) * -9, 5 + n) for n in range(40)]
    ends = [max(end for end, _ in window[: n + 1]) for n in range(40)]
    commits = [committed + 10 * (n // 7) for n, (_, committed) in enumerate(window)]
    assert QueueState.GROWING not in states(list(zip(ends, commits, strict=True)))


def test_an_offset_that_goes_back_is_a_rewind_until_it_caught_up():
    window = [(100, 80), (100, 20), (100, 50), (100, 79), (100, 80), (100, 100)]
    assert states(window) == [
        QueueState.OK, QueueState.REWIND, QueueState.REWIND, QueueState.REWIND,
        QueueState.OK, QueueState.OK,
    ]  # fmt: skip


def test_a_rewind_is_told_for_the_window_only():
    window = [(1000, 800)] + [(1000, 100 + n) for n in range(40)]
    found = states(window)
    assert found[20] is QueueState.REWIND
    assert found[22] is QueueState.OK


def test_an_outage_of_the_broker_is_no_stall_of_the_group():
    window = [(10, 5)] * 3 + [(None, 5)] * 40 + [(12, 5)] * 2
    assert states(window)[-1] is QueueState.OK


def test_an_offset_lost_in_an_outage_is_a_rewind():
    window = [(10, 5)] * 3 + [(None, 5)] * 4 + [(12, 2)]
    assert states(window)[-1] is QueueState.REWIND


def test_a_topic_that_may_be_created_anew_is_ahead_then_judged_afresh():
    """Its log may be cut, too: without a proof nothing is said."""
    window = [(100, 100)] * 3 + [(5, 100), (5, 5), (7, 5)]
    found = states(window)
    assert found[3] is QueueState.AHEAD
    assert found[-1] is QueueState.REWIND


def anew(window, recreations, step=15.0):
    """As `states`, with what is known of the queue's topic in each scan."""
    backlog, found = Backlog(), []
    for n, ((end, committed), known) in enumerate(zip(window, recreations, strict=True)):
        recreated = {} if known is None else {MessageQueue("orders", "broker-a", 0): known}
        groups = {"shipping": GroupReading("shipping", recreated=recreated)}
        offsets = {"shipping": {"orders": [committed]}}
        snapshot = backlog.take(scan(AT + step * n, {"orders": [(0, end)]}, offsets, groups))
        found += [row.state for row in snapshot.rows()]
    return found


def test_an_offset_that_a_new_topic_set_back_is_no_rewind():
    window = [(100, 100), (5, -1), (5, 0), (5, 5), *[(6, 6)] * 6]
    waits = Recreation(100, AT + 15)
    went_on = Recreation(100, AT + 15, moved=True, gone_on_at=AT + 45)
    found = anew(window, [None, waits, waits, *[went_on] * 7])
    assert found == [QueueState.OK, *[QueueState.RECREATED] * 6, *[QueueState.OK] * 3]


def test_one_that_somebody_sets_back_in_the_new_topic_is_a_rewind():
    window = [(100, 100), (5, 5), *[(6, 6)] * 6, (6, 2)]
    went_on = Recreation(100, AT + 15, moved=True, gone_on_at=AT + 15)
    found = anew(window, [None, *[went_on] * 8])
    assert found[-1] is QueueState.REWIND


def test_what_never_comes_back_is_told_for_the_window_only():
    window = [(100, 100)] + [(5, 100)] * 30
    found = anew(window, [None, *[Recreation(100, AT + 15)] * 30])
    assert found[1:22] == [QueueState.RECREATED] * 21
    assert set(found[22:]) == {QueueState.AHEAD}


def test_a_short_window_can_be_asked_for():
    quick = EvaluationSettings(window=20.0, min_window=4.0, min_points=3)
    assert states([(10, 5)] * 3, step=2.0, settings=quick)[-1] is QueueState.STALL


# --- drain ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_drain_eta_of_a_linear_drain_is_within_a_fifth(seed):
    """Random scan times, commits each 5 s, arrivals and work that vary by a third."""
    chance = random.Random(seed)
    arriving, working = chance.uniform(0, 50), chance.uniform(60, 200)
    backlog = Backlog()
    at, stored, done, committed, next_commit = 0.0, 40_000.0, 0.0, 0, 5.0
    for _ in range(30):
        step = chance.uniform(5, 20)
        while next_commit <= at + step:
            span = 5.0
            stored += arriving * span * chance.uniform(0.67, 1.33)
            done += working * span * chance.uniform(0.67, 1.33)
            committed, next_commit = int(done), next_commit + 5.0
        at += step
        (row,) = backlog.take(
            scan(AT + at, {"orders": [(0, int(stored))]}, {"s": {"orders": [committed]}})
        ).rows()
        if row.drain_eta is None or row.backlog < 2000 or at < 60:
            continue
        truth = row.backlog / (working - arriving)
        assert row.drain_eta == pytest.approx(truth, rel=0.2)


def test_an_eta_needs_several_commits():
    backlog = Backlog()
    for n in range(6):
        (row,) = backlog.take(
            scan(AT + 5 * n, {"orders": [(0, 900)]}, {"s": {"orders": [10 * n]}})
        ).rows()
        assert row.drain_eta is None
    (row,) = backlog.take(scan(AT + 30, {"orders": [(0, 900)]}, {"s": {"orders": [60]}})).rows()
    assert row.drain_eta == pytest.approx(420.0)


def test_who_works_slower_than_messages_come_never_finishes():
    backlog = Backlog()
    for n in range(5):
        (row,) = backlog.take(
            scan(AT + 15 * n, {"orders": [(0, 100 + 10 * n)]}, {"s": {"orders": [9 * n]}})
        ).rows()
    assert row.drain_eta == float("inf")


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_busy_queue_that_keeps_up_is_drained_in_a_moment(more):
    """What one commit brings is under way: whether a bit more or less of it does not matter."""
    backlog = Backlog()
    for n in range(5):
        stored = 1500 * n + 200 + more * n
        (row,) = backlog.take(
            scan(AT + 15 * n, {"orders": [(0, stored)]}, {"s": {"orders": [1500 * n]}})
        ).rows()
    assert row.drain_eta == pytest.approx(2.0, rel=0.1)


def test_the_drain_eta_of_a_group_is_that_of_its_slowest_queue():
    backlog = Backlog()
    for n in range(5):
        found = backlog.take(
            scan(
                AT + 15 * n,
                {"orders": [(0, 1000), (0, 1000)]},
                {"s": {"orders": [100 * n, 10 * n]}},
            )
        )
    assert found.groups["s"].sums.drain_eta == max(row.drain_eta for row in found.rows())
    assert found.groups["s"].sums.drain_eta == pytest.approx(960 / (10 / 15))


# --- by key: finished ahead of the committed offset ----------------------------------------------


def by_key(window, step=15.0):
    """The last state where scans see (end, unfinished), and the group's offset stays at 0."""
    backlog, queue = Backlog(), MessageQueue("orders", "broker-a", 0)
    for n, (end, unfinished) in enumerate(window):
        record = {queue: QueueRecord(unfinished, 0)}
        reading = GroupReading("shipping", records=record)
        snapshot = backlog.take(
            scan(
                AT + step * n,
                {"orders": [(0, end)]},
                {"shipping": {"orders": [0]}},
                {"shipping": reading},
            )
        )
    return next(snapshot.rows()).state


def test_a_key_that_holds_the_offset_is_no_stall_while_others_are_finished():
    assert by_key([(10 + n, 5) for n in range(40)]) is QueueState.OK


def test_what_is_not_finished_by_key_either_is_a_stall():
    assert by_key([(10, 5)] * 40) is QueueState.STALL
    assert by_key([(10 + min(n, 5), 5) for n in range(40)]) is QueueState.STALL
