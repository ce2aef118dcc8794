"""Backlog arithmetic and verdicts: what is not known never becomes 0, and never looks fine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.verdict import (
    QueueBacklog,
    QueueState,
    Thresholds,
    Verdict,
    judge,
    totals,
)

OFFSETS = st.one_of(st.none(), st.integers(0, 2**62))


def row(minimum=0, committed=0, maximum=0, *, queue_id=0, readable=True):
    queue = MessageQueue("orders", "broker-a", queue_id)
    return QueueBacklog("shipping", queue, minimum, committed, maximum, readable=readable)


ROWS = st.lists(
    st.builds(
        row,
        OFFSETS,
        OFFSETS,
        OFFSETS,
        queue_id=st.integers(0, 15),
        readable=st.booleans(),
    ),
    max_size=12,
)
THRESHOLDS = st.tuples(OFFSETS, OFFSETS).map(
    lambda pair: Thresholds(*sorted(pair)) if None not in pair else Thresholds(*pair)
)


@pytest.mark.parametrize(
    ("minimum", "committed", "maximum", "readable", "state", "backlog", "lost"),
    [
        (0, 0, 0, True, QueueState.OK, 0, 0),
        (0, 3, 10, True, QueueState.OK, 7, 0),
        (5, 5, 10, True, QueueState.OK, 5, 0),
        (5, 2, 10, True, QueueState.LOST, 5, 3),
        (10, 2, 10, True, QueueState.LOST, 0, 8),
        (0, 11, 10, True, QueueState.AHEAD, None, 0),
        (0, None, 10, True, QueueState.NEW, None, 0),
        (0, None, 0, True, QueueState.NEW, None, 0),
        (0, None, 10, False, QueueState.UNKNOWN, None, 0),
        (None, 3, None, True, QueueState.UNKNOWN, None, 0),
        (None, None, None, True, QueueState.UNKNOWN, None, 0),
    ],
)
def test_states(minimum, committed, maximum, readable, state, backlog, lost):
    found = row(minimum, committed, maximum, readable=readable)
    assert (found.state, found.backlog, found.lost) == (state, backlog, lost)


@given(ROWS)
def test_a_backlog_is_never_negative_and_unknown_is_never_a_number(rows):
    for found in rows:
        if found.state in (QueueState.OK, QueueState.LOST):
            assert (
                0 <= found.backlog <= found.maximum - found.minimum or found.minimum > found.maximum
            )
        else:
            assert found.backlog is None
        assert found.lost >= 0


@given(ROWS)
def test_totals_count_every_queue_once(rows):
    sums = totals(rows)
    known = [found.backlog for found in rows if found.backlog is not None]
    assert sums.queues == len(rows)
    assert sums.unknown == len(rows) - len(known)
    assert sums.backlog == (sum(known) if known else None)
    assert sums.worst is None or sums.worst.backlog == max(known)


@given(ROWS, THRESHOLDS)
def test_only_a_full_measurement_is_ok_or_a_warning(rows, thresholds):
    verdict = judge(rows, thresholds).verdict
    if not rows or any(found.backlog is None for found in rows):
        assert verdict in (Verdict.UNKNOWN, Verdict.CRITICAL)


@given(ROWS, THRESHOLDS)
def test_critical_means_that_it_was_seen(rows, thresholds):
    judged = judge(rows, thresholds)
    above = (
        thresholds.crit is not None
        and judged.totals.backlog is not None
        and judged.totals.backlog > thresholds.crit
    )
    assert (judged.verdict is Verdict.CRITICAL) == (above or judged.totals.lost > 0)


@given(ROWS, THRESHOLDS)
def test_there_are_reasons_exactly_if_it_is_not_ok(rows, thresholds):
    judged = judge(rows, thresholds)
    assert bool(judged.reasons) == (judged.verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("backlog", "verdict"),
    [(0, Verdict.OK), (10, Verdict.OK), (11, Verdict.WARNING), (100, Verdict.WARNING),
     (101, Verdict.CRITICAL)],
)  # fmt: skip
def test_thresholds_are_the_last_good_value(backlog, verdict):
    assert judge([row(0, 0, backlog)], Thresholds(warn=10, crit=100)).verdict is verdict


def test_the_sum_over_queues_is_compared():
    rows = [row(0, 0, 6, queue_id=0), row(0, 0, 6, queue_id=1)]
    assert judge(rows, Thresholds(warn=10)).verdict is Verdict.WARNING


@pytest.mark.parametrize(
    ("rows", "verdict", "text"),
    [
        ([], Verdict.UNKNOWN, "no queue found"),
        ([row(0, None, 5)], Verdict.UNKNOWN, "NEW 1 queue never committed"),
        ([row(0, 9, 5)], Verdict.UNKNOWN, "AHEAD 1 queue committed above"),
        ([row(0, 0, 5, readable=False)], Verdict.UNKNOWN, "UNKNOWN 1 queue could not be read"),
        ([row(5, 2, 9)], Verdict.CRITICAL, "LOST 3 messages"),
        ([row(0, None, 5), row(0, 0, 101)], Verdict.CRITICAL, "backlog 101 messages > 100"),
        ([row(0, None, 5), row(0, 0, 50)], Verdict.UNKNOWN, "NEW 1 queue never committed"),
    ],
)
def test_the_first_reason_is_the_verdict_s(rows, verdict, text):
    judged = judge(rows, Thresholds(warn=10, crit=100))
    assert judged.verdict is verdict
    assert judged.reasons[0].startswith(text)


@pytest.mark.parametrize(("warn", "crit"), [(-1, None), (None, -1), (10, 9)])
def test_thresholds_that_make_no_sense_are_refused(warn, crit):
    with pytest.raises(ConfigError):
        Thresholds(warn, crit)


def test_verdicts_are_the_exit_codes():
    assert [int(v) for v in (Verdict.OK, Verdict.WARNING, Verdict.CRITICAL, Verdict.UNKNOWN)] == [
        0, 1, 2, 3,
    ]  # fmt: skip
