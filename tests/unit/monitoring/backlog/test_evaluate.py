"""Scans in, snapshots out: sums agree with rows, and what is unknown never looks like 0."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.monitoring.backlog.evaluate import Backlog, Point
from orderly.monitoring.backlog.reading import NEVER, NOT_READ, BrokerReading, GroupReading
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
