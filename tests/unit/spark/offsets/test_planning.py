import pytest

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.offsets.losses import CUT, EXPIRED, GONE, Loss, Span
from orderly.spark.offsets.planning import check_named, check_order, planned, vanished, within
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.options.positions import Edge, Exact

QUEUE, OTHER = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)
SPAN = Span(10, 50)


def exact(**offsets):
    return Exact(
        {{"queue": QUEUE, "other": OTHER}[name]: at for name, at in offsets.items()}, Edge.EARLIEST
    )


CASES = {
    "inside": (20, 30, (20, 30), []),
    "to the end": (20, 50, (20, 50), []),
    "from an expired offset": (5, 50, (10, 50), [(5, 10, EXPIRED)]),
    "from beyond the end": (70, 50, (50, 50), [(50, 70, CUT)]),
    "from beyond to further beyond": (70, 90, (70, 70), [(70, 90, CUT)]),
    "to beyond the end": (20, 70, (20, 50), [(50, 70, CUT)]),
    "from the oldest to what expired": (10, 3, (3, 3), []),
    "backwards": (40, 20, (20, 20), []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_range_is_planned_within_its_queue(case):
    start, end, kept, lost = case
    found, losses = planned(QUEUE, start, end, SPAN)
    assert found == QueueRange(QUEUE, *kept)
    assert losses == [Loss(QUEUE, *each) for each in lost]


def test_what_a_broker_finds_for_a_time_is_moved_into_the_queue():
    assert [within(at, SPAN) for at in (0, 30, 99)] == [10, 30, 50]


def test_offsets_for_queues_that_are_not_read_are_refused():
    check_named(exact(queue=1), [QUEUE, OTHER], "startingOffsets")
    check_named(Edge.LATEST, [], "startingOffsets")
    with pytest.raises(ConfigError, match=r"startingOffsets names orders/a/1, .*: orders/a/0"):
        check_named(exact(queue=1, other=1), [QUEUE], "startingOffsets")


def test_a_queue_that_ends_before_it_begins_is_refused():
    check_order(exact(queue=5), exact(queue=5))
    check_order(exact(queue=5), exact(queue=-1, other=3))
    with pytest.raises(ConfigError, match="orders/a/0 would begin at 5 and end at 4"):
        check_order(exact(queue=5), exact(queue=4))


def test_an_assigned_queue_that_is_gone_is_a_loss_if_its_range_was_pinned():
    losses = vanished([QUEUE, OTHER], exact(queue=5, other=3), exact(queue=9, other=3), {})
    assert losses == [Loss(QUEUE, 5, 9, GONE)]


def test_an_assigned_queue_that_never_was_is_an_error():
    with pytest.raises(ConfigError, match=r"assign names orders/a/1, which does not exist"):
        vanished([QUEUE, OTHER], Edge.EARLIEST, Edge.LATEST, {QUEUE: SPAN})
