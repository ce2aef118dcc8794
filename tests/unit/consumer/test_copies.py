"""Whether a copy stands before a marked message: by the index, and by the tail where it is none."""

import pytest

from orderly.client.broker import PullQuery, PullResult, PullStatus
from orderly.consumer.copies import TAIL, copies_before
from orderly.errors import BrokerBusy, BrokerError, ReplyTooLarge, RequestTimeout
from orderly.ordering.broker_calls import OffsetReset
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import QUEUE
from tests.unit.ordering.test_repeats import send

UNSUPPORTED = BrokerError("no such request", code=3)


class Broker:
    """A queue's log, and an index that may lack some of it, or fail."""

    def __init__(self, log, *, indexed=None, error=None, minimum=0, reset=None):
        self.log, self.error, self.minimum, self.reset = log, error, minimum, reset
        self.indexed = log if indexed is None else indexed
        self.asked, self.pulled = [], []

    def with_id(self, query, message_id, *, since, until):
        self.asked.append((message_id, since, until))
        if self.error is not None:
            raise self.error
        return [m for m in self.indexed if m.message_id == message_id]

    def pull_now(self, query):
        self.pulled.append(query.offset)
        if self.reset is not None:
            return PullResult(PullStatus.OFFSET_ILLEGAL, [], self.reset, 0, 99, 0)
        if query.offset < self.minimum:
            return PullResult(PullStatus.OFFSET_ILLEGAL, [], self.minimum, self.minimum, 99, 0)
        end = query.offset + query.max_messages
        found = [m for m in self.log if query.offset <= m.queue_offset < end]
        status = PullStatus.FOUND if found else PullStatus.NO_MATCH
        return PullResult(status, found, end, 0, 99, 0)


def look(broker, *marked, floor=0):
    query = PullQuery("group", QUEUE, marked[0].queue_offset, 32, Subscription("orders", "red"))
    return copies_before(broker, query, marked, floor)


LOG = [send(0), send(1, number=1), send(2, attempt=2), send(3, number=4, attempt=2)]


def test_the_index_knows():
    broker = Broker(LOG)
    assert look(broker, LOG[2], LOG[3]) == {2: 0, 3: None}
    assert broker.pulled == [0], "whether it is there"


def test_the_index_may_know_a_message_of_a_former_topic_of_this_name():
    """A broker keeps the index of what is deleted until it deletes the file."""
    former = send(0)
    broker = Broker([send(0, number=5), *LOG[1:]], indexed=[former, *LOG[1:]])
    assert look(broker, LOG[2]) == {2: None}
    later = send(4, attempt=3)
    broker = Broker([send(0, number=5), *LOG[1:], later], indexed=[former, *LOG[1:], later])
    assert look(broker, later) == {4: 2}


def test_a_copy_below_what_somebody_asked_for_does_not_count():
    log = [send(0), send(1), send(2), send(3, attempt=2)]
    for indexed in (log, []):
        assert look(Broker(log, indexed=indexed), log[3], floor=1) == {3: 1}
        assert look(Broker(log, indexed=indexed), log[3], floor=3) == {3: None}


@pytest.mark.parametrize(
    "trouble",
    [{"indexed": []}, {"indexed": [LOG[3]]}, {"error": UNSUPPORTED}, {"error": ReplyTooLarge("")}],
    ids=["off", "late", "none", "too large"],
)
def test_where_the_index_does_not_know_the_message_itself_the_tail_is_read(trouble):
    broker = Broker(LOG, **trouble)
    assert look(broker, LOG[2], LOG[3]) == {2: 0, 3: None}
    assert broker.pulled


def test_an_index_that_is_late_may_know_the_first():
    broker = Broker(LOG, indexed=LOG[:2])
    assert look(broker, LOG[2]) == {2: 0}
    assert broker.pulled == [0]


@pytest.mark.parametrize("error", [RequestTimeout("late"), BrokerBusy("busy")], ids=repr)
def test_what_may_pass_is_no_answer(error):
    with pytest.raises(type(error)):
        look(Broker(LOG, error=error), LOG[2])


def test_the_tail_is_bounded_and_read_once_for_all():
    first, last = send(5), send(TAIL + 5, attempt=2)
    too_far = send(4, number=9), send(TAIL + 5, number=9, attempt=2)
    broker = Broker([first, last, *too_far], indexed=[])
    assert look(broker, last) == {TAIL + 5: 5}
    assert len(broker.pulled) == len(set(broker.pulled))
    assert look(broker, too_far[1]) == {TAIL + 5: None}


def test_the_tail_begins_where_the_queue_does():
    log = [send(7), send(8, attempt=2)]
    broker = Broker(log, indexed=[], minimum=7)
    assert look(broker, log[1]) == {8: 7}


def test_a_reset_that_the_tail_is_told_is_passed_on():
    with pytest.raises(OffsetReset) as told:
        look(Broker(LOG, indexed=[], reset=1), LOG[2])
    assert told.value.offset == 1


def test_a_copy_may_be_born_by_a_clock_that_is_wrong():
    broker = Broker(LOG)
    look(broker, send(2, attempt=2, born=10_000.0, stored=20_000.0))
    _, since, until = broker.asked[0]
    assert since <= 10_000.0 - 3600
    assert until > 20_000.0
