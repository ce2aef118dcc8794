from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.spark.jobs.backlog.analysing import FOUND, KEY, Rules, analysed, covered

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()
RULES = Rules({"backlog": 10.0, "head_age": 60.0}, join=0.0, stuck_after=60.0)


def samples(backlog, head_age=0.0, committed=5):
    """Every 15 s from noon on."""
    count = len(backlog)
    key = {"level": "queue", "group": "shipping", "topic": "orders", "broker": "a", "queue_id": 3}
    columns = {name: pa.array([key[name]] * count, KEY.field(name).type) for name in KEY.names}
    columns |= {
        "at": pa.array([NOON + 15 * n for n in range(count)]),
        "interval": pa.array([15.0] * count),
        "backlog": pa.array(backlog, pa.int64()),
        "head_age": pa.array([head_age] * count, pa.float64()),
        "committed": pa.array([committed] * count, pa.int64()),
        "maximum": pa.array([5 + (n or 0) for n in backlog], pa.int64()),
        "counted": pa.array([1] * count),
        "whole": pa.array([n is not None for n in backlog]),
        "aged": pa.array([True] * count),
    }
    return pa.table(columns)


def at(seconds):
    return datetime.fromtimestamp(NOON + seconds, UTC)


def test_a_series_becomes_one_row_with_all_its_periods():
    table = samples([0, 20, 30, 20, 20, 20, None, None, None, None, 1])
    found = analysed(table, RULES)
    assert found.schema == FOUND
    [row] = found.to_pylist()
    assert [row[name] for name in KEY.names] == ["queue", "shipping", "orders", "a", 3]
    [breach] = row["incidents"]
    assert breach == {
        "measure": "backlog", "limit": 10.0, "begin": at(15), "end": at(75),
        "ended": "not measured", "worst": 30.0, "worst_at": at(30), "samples": 5,
    }  # fmt: skip
    [stuck] = row["stuck"]
    assert (stuck["begin"], stuck["end"], stuck["backlog"]) == (at(15), at(75), 20)
    assert row["gaps"] == [{"begin": at(75), "end": at(150)}]
    assert (row["breached_seconds"], row["stuck_seconds"]) == (60, 60)
    assert (row["samples"], row["measured"], row["most"], row["most_at"]) == (11, 7, 30, at(30))


def test_samples_may_come_in_any_order():
    table = samples([0, 20, 30, 20, 0, 0, 0])
    shuffled = table.take([3, 0, 6, 1, 5, 2, 4])
    assert analysed(shuffled, RULES) == analysed(table, RULES)


def test_two_promises_broken_at_once_count_their_time_once():
    [row] = analysed(samples([20, 20, 20, 0], head_age=90.0), RULES).to_pylist()
    assert {each["measure"] for each in row["incidents"]} == {"backlog", "head_age"}
    assert row["breached_seconds"] == 45


def test_a_series_without_a_value_has_a_row():
    [row] = analysed(samples([None, None]), RULES).to_pylist()
    assert (row["samples"], row["measured"], row["incidents"], row["mean"]) == (2, 0, [], None)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted)))
def test_covered_counts_each_second_once(periods):
    seconds = {second for begin, end in periods for second in range(begin, end)}
    assert covered(map(tuple, periods)) == pytest.approx(len(seconds))
