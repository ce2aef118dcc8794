from orderly.monitoring.backlog.reading import DeadLetters
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.recording.rows import SCHEMA, batch_of
from orderly.ordering.parking.keys import ParkedKey
from tests.support.snapshots import AT, group, row, snapshot


def test_a_queue_of_a_group_is_a_row_with_all_that_is_known():
    parked = (ParkedKey("k1", 3, 0), ParkedKey("k2", 4, 1))
    dead = DeadLetters(5, None, 5)
    rows = [row(QueueState.STALL, queue_id=2, backlog=7, parked=parked)]
    [told] = batch_of(snapshot(group("shipping", rows, dead=dead)), 15.0).to_pylist()
    assert told.pop("at").timestamp() == AT
    assert told == {
        "interval": 15.0,
        "group": "shipping",
        "topic": "orders",
        "broker": "broker-a",
        "queue_id": 2,
        "state": "STALL",
        "min_offset": 0,
        "committed": 93,
        "max_offset": 100,
        "backlog": 7,
        "head_age": 60.0,
        "in_rate": 1.0,
        "out_rate": 2.0,
        "owner": "client-1",
        "parked": 2,
        "dead": 5,
    }


def test_what_is_not_known_is_null_and_not_0():
    [told] = batch_of(snapshot(row(QueueState.UNKNOWN)), 15.0).to_pylist()
    unknown = {"min_offset", "committed", "max_offset", "backlog", "head_age", "in_rate",
               "out_rate", "owner", "parked", "dead"}  # fmt: skip
    assert {name for name, value in told.items() if value is None} == unknown


def test_a_cluster_without_groups_has_no_rows():
    batch = batch_of(snapshot(), 15.0)
    assert batch.num_rows == 0
    assert batch.schema == SCHEMA


def test_a_scan_that_takes_longer_than_the_interval_tells_its_own_time():
    [told] = batch_of(snapshot(row(), scan_seconds=40.0), 15.0).to_pylist()
    assert told["interval"] == 40.0
