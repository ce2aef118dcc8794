import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue
from orderly.monitoring.skew.what_if import Trial, queues_if
from orderly.selectors import KEYED, parse_layout
from orderly.spark.jobs.skew.trying import TRIED, head_loads, plan, tried

TOPIC = "orders"
LAYOUT = parse_layout("a:2;b:1")
NUMBERS = (1, 2, 3, 5, 8)
PLACES = [MessageQueue(TOPIC, "a", 0), MessageQueue(TOPIC, "a", 1), MessageQueue(TOPIC, "b", 0)]


def batch(rows):
    """(key, queue, n)"""
    return pa.record_batch(
        {
            "key": pa.array([key for key, _, _ in rows], pa.string()),
            "broker": pa.array([queue.broker_name for _, queue, _ in rows], pa.string()),
            "queue_id": pa.array([queue.queue_id for _, queue, _ in rows], pa.int32()),
            "n": pa.array([n for _, _, n in rows], pa.int64()),
        }
    )


def sums(batches, of):
    """By selector and number: loads, and how many moved."""
    [told] = tried(batches, of)
    assert told.schema == TRIED
    found = {}
    for row in told.to_pylist():
        loads, moved = found.get((row["selector"], row["queues"]), ([], 0))
        found[row["selector"], row["queues"]] = (
            [*loads, row["messages"]], moved + row["moved"],
        )  # fmt: skip
    return found


utf8 = st.text(st.characters(codec="utf-8"), min_size=1)
rows_of = st.lists(
    st.tuples(
        st.one_of(utf8, st.integers().map(str)),
        st.sampled_from([*PLACES, MessageQueue(TOPIC, "gone", 4)]),
        st.integers(1, 10**12),
    ),
    max_size=30,
)


@given(st.lists(rows_of, max_size=3))
def test_it_counts_what_the_selectors_themselves_choose(parts):
    rows = [row for part in parts for row in part]
    of = plan(LAYOUT, TOPIC, [queue for _, queue, _ in rows], NUMBERS)
    found = sums(map(batch, parts), of)
    for selector in KEYED:
        for number in {3, *NUMBERS}:
            queues = queues_if(LAYOUT, TOPIC, number)
            trial = Trial(selector, queues)
            for key, _, _ in rows:
                trial.add(key, queues[0])
            if trial.outcome() is None:
                assert found[selector, 0] == ([0], 0)
                assert (selector, number) not in found
                continue
            loads = dict.fromkeys(queues, 0)
            moved = 0
            for key, queue, n in rows:
                loads[trial.place(key)] += n
                moved += n * (trial.place(key) != queue)
            assert found[selector, number] == (list(loads.values()), moved)


def test_queues_that_are_written_to_no_longer_come_last():
    gone = MessageQueue(TOPIC, "gone", 4)
    of = plan(LAYOUT, TOPIC, [gone, PLACES[1]], (4,))
    assert of.present == (*PLACES, gone)
    assert of.tried == {number: queues_if(LAYOUT, TOPIC, number) for number in (3, 4)}
    found = sums([batch([("k", gone, 5)])], of)
    assert found["hash_mod", 4][1] == 5


def test_the_proxy_counts_brokers_by_name():
    layout = parse_layout("b:1;a:2")
    places = [Trial("proxy_hash", queues_if(layout, TOPIC, 3)).place(str(n)) for n in range(50)]
    rows = [(str(number), place, 1) for number, place in enumerate(places)]
    loads, moved = sums([batch(rows)], plan(layout, TOPIC, PLACES, ()))["proxy_hash", 3]
    assert moved == 0
    assert loads == [places.count(queue) for queue in PLACES]


def test_a_partition_without_keys_tells_zeros():
    found = sums([], plan(LAYOUT, TOPIC, PLACES, ()))
    assert found["hash_mod", 3] == ([0, 0, 0], 0)


@pytest.mark.parametrize("selector", KEYED)
def test_loads_of_the_head_are_part_of_all_loads(selector):
    keys, counts = ["7", "12", "9"], [100, 50, 1]
    found = sums([batch([(key, PLACES[0], n) for key, n in zip(keys, counts, strict=True)])],
                 plan(LAYOUT, TOPIC, PLACES, (5,)))  # fmt: skip
    assert head_loads(selector, keys, counts, 5).tolist() == found[selector, 5][0]
