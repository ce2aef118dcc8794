"""One held queue's pulls against a broker that answers when and what the test says."""

import pytest

from orderly.client.pulling import PullResult, PullStatus, read_pull_reply
from orderly.config import ClientConfig
from orderly.consumer.puller import Puller
from orderly.consumer.session import now
from orderly.errors import BrokerBusy, ConnectFailed, ProtocolError, RequestTimeout
from orderly.model import MessageQueue
from orderly.ordering.drop import Drop
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.results import Disposition
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.stored_message import encode_stored_message
from tests.support.messages import message
from tests.support.waiting import eventually

QUEUE = MessageQueue("orders", "broker-a", 0)
START = 5


class Broker:
    """Keeps each pull as (query, on_result, may_connect) until the test answers it.

    `connected`: False lets only pulls through that may connect. `fail`: raised instead.
    """

    def __init__(self):
        self.pulls = []
        self.connected = True
        self.fail = None

    def pull(self, query, on_result, *, may_connect):
        if self.fail is not None:
            raise self.fail
        if not (self.connected or may_connect):
            return False
        self.pulls.append((query, on_result, may_connect))
        return True

    def asked(self, count):
        """The offsets asked for, once there were `count` pulls."""
        eventually(lambda: len(self.pulls) >= count)
        return [query.offset for query, _, _ in self.pulls]

    def answer(self, reply):
        """Answer the newest pull."""
        self.pulls[-1][1](reply)


def reply(status, *offsets, next_offset, end=99):
    found = [message(offset, queue=QUEUE) for offset in offsets]
    return PullResult(status, found, next_offset, 0, end, 0)


@pytest.fixture
def broker(session):
    session.client.config = ClientConfig(namesrv="127.0.0.1:9876")
    session.client.brokers = Broker()
    return session.client.brokers


@pytest.fixture
def schedule(session):
    return session.client.schedule


@pytest.fixture
def arrived():
    return []


@pytest.fixture
def puller(session, broker, schedule, arrived):
    def ready(held):
        if held.owned.request_run():
            arrived.append(held)

    puller = Puller(session, ready)
    yield puller
    puller.close()


@pytest.fixture
def hold(session):
    def hold(*, expression="*", asked_at=None, max_messages=2):
        lease = Lease(now() if asked_at is None else asked_at, 30)
        owned = OwnedQueue(QUEUE, START, lease, max_messages=max_messages, max_bytes=1_000_000)
        return session.add(owned, Subscription.from_expression("orders", expression, 0))

    return hold


@pytest.fixture
def held(puller, broker, hold):
    """A queue whose first pull, at START, is open."""
    held = hold()
    puller.start(held)
    assert broker.asked(1) == [START]
    return held


def state(held):
    owned = held.owned
    return owned.offset, owned.next_pull, owned.messages.count


def test_found_messages_are_handed_on_once_and_the_next_pull_is_sent(held, broker, arrived):
    broker.answer(reply(PullStatus.FOUND, 5, 6, next_offset=7))
    assert state(held) == (5, 7, 2)
    assert arrived == [held]
    broker.answer(reply(PullStatus.FOUND, 7, next_offset=8))
    assert arrived == [held], "its run exists already"
    assert broker.asked(2) == [5, 7]


def test_only_the_first_pull_may_connect(held, broker):
    broker.answer(reply(PullStatus.NO_NEW, next_offset=5))
    assert [may_connect for _, _, may_connect in broker.pulls] == [True, False]


def test_nothing_new_is_asked_for_again_at_the_same_offset(held, broker, arrived):
    broker.answer(reply(PullStatus.NO_NEW, next_offset=5, end=5))
    assert broker.asked(2) == [5, 5]
    assert (state(held), arrived, held.owned.at_end) == ((5, 5, 0), [], True)


def test_what_did_not_match_is_passed_over_and_counts_as_done(held, broker, arrived):
    broker.answer(reply(PullStatus.NO_MATCH, next_offset=9))
    assert broker.asked(2) == [5, 9]
    assert (state(held), arrived) == ((9, 9, 0), [])


def test_a_tag_of_the_same_hash_is_passed_over(puller, broker, hold, arrived):
    held = hold(expression="A")
    puller.start(held)
    broker.asked(1)
    broker.answer(reply(PullStatus.FOUND, 5, 6, next_offset=7))
    assert (state(held), arrived) == ((7, 7, 0), [])


def test_an_illegal_offset_gives_the_queue_up_and_restarts_it(
    session, held, broker, schedule, caplog
):
    attention = []
    session.attention = lambda: attention.append(1)
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=50))
    assert held.owned.dropped is Drop.OFFSET_ILLEGAL
    assert held.owned.unsaved(now()) == 50
    assert (attention, broker.asked(1), schedule.waiting) == ([1], [5], [])
    assert "skipped=45" in caplog.text


FAILURES = {
    "decode error": ProtocolError("made by the test"),
    "time-out": RequestTimeout("made by the test"),
    "flow control": BrokerBusy("made by the test", code=2),
}


@pytest.mark.parametrize("error", FAILURES.values(), ids=FAILURES)
def test_after_a_failed_reply_the_same_offset_is_pulled_again(
    error, session, held, broker, schedule, arrived
):
    broker.answer(error)
    assert (state(held), arrived) == ((5, 5, 0), [])
    assert schedule.seconds == [session.config.pull_retry]
    schedule.ring()
    assert broker.asked(2) == [5, 5]


def test_of_a_pull_with_one_unreadable_message_nothing_is_taken_or_passed_over(
    held, broker, schedule, arrived
):
    """Java drops what it cannot decode and goes on behind it."""
    bodies = [encode_stored_message(message(offset)) for offset in (5, 6, 7)]
    bodies[1] = bodies[1][:-9]
    ext = {"nextBeginOffset": "8", "minOffset": "0", "maxOffset": "8", "suggestWhichBrokerId": "0"}
    answer = RemotingCommand(0, 1, flag=1, ext=ext, body=b"".join(bodies))
    with pytest.raises(ProtocolError) as unreadable:
        read_pull_reply(broker.pulls[-1][0], answer)
    broker.answer(unreadable.value)
    assert (state(held), arrived) == ((5, 5, 0), [])
    schedule.ring()
    assert broker.asked(2) == [5, 5]


@pytest.mark.parametrize("error", [ConnectFailed("no"), RuntimeError("a defect")], ids=repr)
def test_a_pull_that_cannot_be_sent_is_tried_again(error, puller, broker, hold, schedule):
    broker.fail = error
    puller.start(hold())
    eventually(lambda: schedule.waiting)
    broker.fail = None
    schedule.ring()
    assert broker.asked(1) == [5]


def test_a_defect_while_a_reply_is_taken_in_does_not_end_the_pulling(
    session, hold, broker, schedule
):
    def broken(held):
        raise RuntimeError("a defect")

    puller = Puller(session, broken)
    puller.start(hold())
    broker.asked(1)
    broker.answer(reply(PullStatus.FOUND, 5, next_offset=6))
    schedule.ring()
    assert broker.asked(2) == [5, 6]
    puller.close()


def test_where_it_must_not_connect_another_thread_does(held, broker):
    broker.connected = False
    broker.answer(reply(PullStatus.NO_MATCH, next_offset=9))
    assert broker.asked(2) == [5, 9]
    assert broker.pulls[-1][2], "on a thread that may connect"


@pytest.mark.parametrize("late", [reply(PullStatus.FOUND, 5, next_offset=6), RequestTimeout("no")])
def test_a_reply_after_the_drop_changes_nothing(late, held, broker, schedule, arrived):
    held.owned.drop(Drop.REVOKED)
    broker.answer(late)
    for _ in range(len(schedule.waiting)):
        schedule.ring()
    assert (state(held), arrived) == ((5, 5, 0), [])
    assert broker.asked(1) == [5]


@pytest.mark.parametrize("reason", [Drop.REVOKED, Drop.RESUBSCRIBED, Drop.STALLED])
def test_a_reset_that_is_told_while_the_queue_leaves_goes_with_it(reason, held, broker):
    held.owned.drop(reason)
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=50))
    assert held.owned.dropped is reason
    assert held.owned.unsaved(now()) == 50, "the next owner begins there"


def test_an_illegal_offset_after_the_lock_was_lost_moves_nothing(held, broker):
    held.owned.drop(Drop.LOST)
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=50))
    assert state(held) == (5, 5, 0)


def test_a_full_queue_is_pulled_again_when_it_is_reopened(puller, held, broker):
    broker.answer(reply(PullStatus.FOUND, 5, 6, 7, next_offset=8))
    assert broker.asked(1) == [5], "three are more than two"
    puller.reopen(held)
    assert broker.asked(1) == [5]
    held.owned.finish(held.owned.take(2, now()), Disposition.COMMIT, now())
    assert held.owned.wants_pull
    puller.reopen(held)
    assert broker.asked(2) == [5, 8]


def test_never_two_pulls_at_a_time(puller, held, broker):
    puller.reopen(held)
    assert broker.asked(1) == [5]


def test_without_a_valid_lock_nothing_is_pulled_and_the_rebalancer_is_told(
    session, puller, hold, broker
):
    attention = []
    session.attention = lambda: attention.append(1)
    held = hold(asked_at=now() - 31)
    puller.start(held)
    eventually(lambda: attention)
    assert (attention, broker.pulls, held.owned.dropped) == ([1], [], Drop.LOST)


def test_after_close_nothing_is_pulled_or_tried_again(puller, held, broker, schedule):
    puller.close()
    broker.answer(RequestTimeout("no"))
    puller.start(held)
    puller.reopen(held)
    assert (broker.asked(1), schedule.waiting) == ([5], [])
