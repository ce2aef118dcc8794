"""What a change says, and when it is written instead of everything."""

from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.parking.keys import Kept, ParkedKey
from orderly.ordering.state.content import Part, Remembered, change
from orderly.protocol.java_json import dumps
from orderly.protocol.parked_key import parked_to_json
from orderly.protocol.state_record import RUN_BYTES

numbers = st.integers(0, 3)
keys = st.one_of(st.sampled_from(["a", "b", "c" * 30, "d" * 300]), numbers)
tables = st.dictionaries(keys, numbers, max_size=6)
runs = st.sampled_from([(), ((5, 7),), ((5, 7), (9, 10)), ((9, 10),)])


def remembered(table, runs):
    parked = sorted((ParkedKey(key, at, at) for key, at in table.items()), key=str)
    return Remembered(runs=runs, kept=Kept(tuple(parked)))


def size(part):
    told = [parked_to_json(each) for each in part.parked] + list(part.released)
    return len(part.runs) * RUN_BYTES + sum(len(dumps(each)) + 1 for each in told)


@given(tables, tables, runs, runs)
def test_a_change_is_written_if_it_is_less_than_everything(before, after, runs_before, runs_after):
    last, content = remembered(before, runs_before), remembered(after, runs_after)
    told = Part(
        tuple(run for run in runs_after if run not in runs_before),
        tuple(each for each in content.kept.parked if each not in last.kept.parked),
        tuple(each.key for each in last.kept.parked if each.key not in after),
    )
    can_say = set(runs_before) <= set(runs_after)
    less = size(told) < size(Part(runs_after, content.kept.parked))
    assert change(last, content) == (told if can_say and less else None)
