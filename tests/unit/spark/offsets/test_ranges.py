from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue
from orderly.spark.offsets.ranges import QueueRange, split

RANGES = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 5000)), min_size=1, max_size=8
).map(
    lambda spans: [
        QueueRange(MessageQueue("orders", "broker-a", place), start, start + size)
        for place, (start, size) in enumerate(spans)
    ]
)


def offsets(ranges):
    return [(each.queue, at) for each in ranges for at in range(each.start, each.end)]


@given(RANGES, st.integers(1, 40))
def test_parts_cover_each_offset_once_and_in_order(ranges, at_least):
    assert offsets(split(ranges, at_least)) == offsets(ranges)


@given(RANGES, st.integers(1, 200))
def test_there_are_as_many_parts_as_asked_for_and_hardly_more(ranges, at_least):
    parts = split(ranges, at_least)
    messages = sum(each.messages for each in ranges)
    assert min(at_least, messages) <= len(parts) < at_least + len(ranges)
    assert all(part.messages > 0 for part in parts)


@given(RANGES, st.integers(1, 40))
def test_no_part_is_much_larger_than_its_share(ranges, at_least):
    messages = sum(each.messages for each in ranges)
    assert all(part.messages <= messages / at_least + 1 for part in split(ranges, at_least))


def test_nobody_asked_a_part_a_queue():
    ranges = [QueueRange(MessageQueue("orders", "a", n), 0, 10**n) for n in range(4)]
    assert split(ranges) == ranges


def test_empty_ranges_have_no_parts():
    queue = MessageQueue("orders", "broker-a", 0)
    assert split([QueueRange(queue, 7, 7), QueueRange(queue, 9, 3)], 4) == []
