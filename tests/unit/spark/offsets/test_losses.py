import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue
from orderly.spark.offsets.losses import CUT, EXPIRED, GONE, Loss, Span, data_lost, readable
from orderly.spark.offsets.ranges import QueueRange

QUEUE = MessageQueue("orders", "broker-a", 3)
NUMBERS = st.integers(0, 30)

CASES = {
    "all there": ((10, 20), (0, 30), (10, 20), []),
    "the first ones expired": ((10, 20), (15, 30), (15, 20), [(10, 15, EXPIRED)]),
    "all expired": ((10, 20), (25, 30), (20, 20), [(10, 20, EXPIRED)]),
    "the log was cut": ((10, 20), (0, 14), (10, 14), [(14, 20, CUT)]),
    "made anew": ((10, 20), (0, 3), (10, 10), [(10, 20, CUT)]),
    "both": ((10, 20), (12, 17), (12, 17), [(10, 12, EXPIRED), (17, 20, CUT)]),
    "gone": ((10, 20), None, (20, 20), [(10, 20, GONE)]),
    "nothing wanted": ((10, 10), (50, 60), (10, 10), []),
    "nothing wanted of a queue that is gone": ((10, 10), None, (10, 10), []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_can_be_read_and_what_is_lost(case):
    wanted, span, kept, lost = case
    found = readable(QueueRange(QUEUE, *wanted), Span(*span) if span else None)
    assert found == (QueueRange(QUEUE, *kept), tuple(Loss(QUEUE, *each) for each in lost))


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_every_offset_is_read_or_lost(start, size, low, held):
    wanted, span = QueueRange(QUEUE, start, start + size), Span(low, low + held)
    kept, losses = readable(wanted, span)
    parts = [set(range(kept.start, kept.end))]
    parts += [set(range(loss.start, loss.end)) for loss in losses]
    assert sum(map(len, parts)) == wanted.messages
    assert set().union(*parts) == set(range(wanted.start, wanted.end))
    assert all(span.low <= at < span.high for at in parts[0])


def test_the_error_names_queues_ranges_and_what_to_do():
    losses = [Loss(MessageQueue("orders", "a", n), 0, n + 1, EXPIRED) for n in range(8)]
    text = str(data_lost(losses))
    assert text.startswith("36 messages that were to be read are lost: orders/a/7 [0, 8): expired")
    assert "3 more queues" in text
    assert "failOnDataLoss=false" in text
