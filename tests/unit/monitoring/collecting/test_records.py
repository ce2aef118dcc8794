"""What a state record means for the offsets of now."""

import pytest

from orderly.monitoring.backlog.reading import NEVER, QueueRecord
from orderly.monitoring.collecting.records import Recorded, Row, record_of, rows_by_key, span_of
from orderly.ordering.parking.keys import Kept, ParkedKey
from orderly.ordering.state.history import State
from orderly.ordering.state.topic import state_topic
from orderly.protocol.state_record import Entry
from tests.support.scans import queue, scan_of

STATE = state_topic("g", "orders")
PARKED = (ParkedKey("bad", 3, 0, 2, 200),)


def recorded(low=10, previous_low=8, runs=((12, 15), (20, 30)), window=(), **fields):
    entry = Entry(owner="me", token=1, number=1, previous=2, epoch=1, low=low,
                  previous_low=previous_low, runs=runs, window=window)  # fmt: skip
    values = {"state": State(5, entry, runs, Kept(PARKED)), "lost": False}
    return Recorded(0, 6, parked_since=70.0, at=1.0, **(values | fields))


def meaning(one, committed, maximum=40, minimum=0, *, new=False):
    return record_of(one, Row("g", queue(), minimum, committed, maximum), new=new)


@pytest.mark.parametrize("committed", [10, 8])
def test_what_is_finished_above_is_no_backlog(committed):
    assert meaning(recorded(), committed) == QueueRecord(40 - 10 - 3 - 10, 10, PARKED, 70.0)


def test_it_is_worked_out_for_the_present_maximum():
    assert meaning(recorded(), 10, maximum=50).unfinished == 27
    assert meaning(recorded(), 10, maximum=25).unfinished == 25 - 10 - 3 - 5


def test_a_broker_that_was_killed_came_back_with_an_older_offset():
    entry = {"window": (3, 6, 10)}
    assert meaning(recorded(**entry), 6) == meaning(recorded(), 10)
    assert meaning(recorded(**entry), 5).unfinished == 35, "nobody had sent that"


def test_a_broker_that_forgot_the_offset_has_members_go_on_as_recorded():
    assert meaning(recorded(), NEVER) == meaning(recorded(), 10)


def test_after_a_reset_what_was_finished_above_counts_no_more():
    assert meaning(recorded(), 2) == QueueRecord(38, 2, PARKED, 70.0)
    assert meaning(recorded(), 14).unfinished == 26


def test_a_record_written_after_the_offset_was_read_is_ahead_of_it():
    assert meaning(recorded(), 2, new=True).unfinished == 17


def test_progress_with_nothing_finished_ahead_needs_no_new_record():
    assert meaning(recorded(runs=()), 33).unfinished == 7


def test_what_the_broker_deleted_is_no_backlog():
    assert meaning(recorded(runs=()), 10, minimum=30) == QueueRecord(10, 30, PARKED, 70.0)


def test_without_a_record_nothing_is_finished_ahead():
    assert meaning(recorded(state=None), 10) == QueueRecord(30, 10)


def test_without_a_record_and_an_offset_nothing_is_known():
    assert meaning(recorded(state=None), NEVER) is None


def test_what_is_lost_is_not_known():
    assert meaning(recorded(lost=True), 10) is None


def test_only_groups_with_a_state_topic_have_records():
    rows = {
        ("g", "orders"): [(0, 3, 5), (0, -1, 5), (0, 3, -2), (0, -2, 5)],
        ("h", "pays"): [(0, 3, 5)],
    }
    assert list(rows_by_key(scan_of(rows), {"g", "h"})) == []
    scan = scan_of(rows, **{STATE: [(0, 7), (0, -2)]})
    rows = list(rows_by_key(scan, {"g", "h"}))
    assert [(row.group, row.queue) for row in rows] == [("g", queue(0)), ("g", queue(1))]
    assert list(rows_by_key(scan, {"h"})) == []
    assert [span_of(scan, queue(n, STATE)) for n in range(3)] == [(0, 7), None, (0, 0)]
