"""One held queue's pulls against a broker that answers when and what the test says."""

import threading

import pytest

from orderly.client.pulling import PullResult, PullStatus, read_pull_reply
from orderly.config import ClientConfig
from orderly.consumer.control import Control
from orderly.consumer.puller import Puller
from orderly.consumer.session import now
from orderly.errors import (
    BrokerBusy,
    ConnectFailed,
    LockLost,
    ProtocolError,
    ReplyTooLarge,
    RequestTimeout,
    TopicNotFound,
)
from orderly.model import MessageQueue, UndecodableMessage
from orderly.ordering import lanes as lanes_module
from orderly.ordering.calls import OffsetReset
from orderly.ordering.drop import Drop
from orderly.ordering.explain import Why, explain
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.results import Disposition
from orderly.protocol import stored_message
from orderly.protocol.compression import compress_zlib
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


class Asked:
    """What the broker knows of the topic when it is asked; it may not answer until it is let."""

    def __init__(self):
        self.times, self.error, self.let = 0, None, threading.Event()
        self.answer = lambda held: None
        self.ended = False
        self.let.set()

    def __call__(self, held):
        self.times += 1
        assert self.let.wait(30)
        try:
            if self.error is not None:
                raise self.error
            self.answer(held)
        finally:
            self.ended = True


@pytest.fixture
def find_out():
    return Asked()


@pytest.fixture
def puller(session, broker, schedule, arrived, find_out):
    def ready(held):
        if held.owned.request_run():
            arrived.append(held)

    puller = Puller(session, ready, find_out)
    yield puller
    puller.close()


@pytest.fixture
def hold(session):
    def hold(*, expression="*", asked_at=None, max_messages=2, **settings):
        lease = Lease(now() if asked_at is None else asked_at, 30)
        limits = {"max_messages": max_messages, "max_bytes": 1_000_000}
        owned = OwnedQueue(QUEUE, START, lease, **limits, **settings)
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


@pytest.mark.parametrize(("end", "goes_on_at"), [(7, 5), (5, 5), (3, 3)])
def test_a_broker_that_lost_its_newest_messages_has_no_older_one_skipped(
    end, goes_on_at, held, broker
):
    """A machine that crashed, or another replica in its place: less is there than was pulled."""
    broker.answer(reply(PullStatus.FOUND, 5, 6, next_offset=8))
    broker.asked(2)
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=end, end=end))
    eventually(lambda: held.owned.dropped)
    assert held.owned.dropped is Drop.OFFSET_ILLEGAL
    assert held.owned.offset == goes_on_at


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


def test_of_a_pull_with_one_broken_message_nothing_is_taken_or_passed_over(
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


def test_what_was_left_of_a_reply_is_pulled_next(held, broker, monkeypatch):
    """Messages that are too many, or too large, only together."""
    monkeypatch.setattr(stored_message, "MAX_MESSAGES", 2)
    bodies = [encode_stored_message(message(offset)) for offset in (5, 6, 9)]
    ext = {"nextBeginOffset": "10", "minOffset": "0", "maxOffset": "99"}
    ext["suggestWhichBrokerId"] = "0"
    answer = RemotingCommand(0, 1, flag=1, ext=ext, body=b"".join(bodies))
    broker.answer(read_pull_reply(broker.pulls[-1][0], answer))
    assert broker.asked(2) == [5, 9]
    assert state(held) == (5, 9, 2)


class PackedLog:
    """A log of small messages that are large when unpacked; answers pulls as a broker does."""

    END = START + 20

    def __init__(self, size):
        whole, flags = compress_zlib(bytes(size)), 0x301
        self._stored = {
            offset: encode_stored_message(
                message(offset, f"k{offset % 4}", QUEUE).changed(body=whole, sys_flag=flags)
            )
            for offset in range(START, self.END)
        }

    def reply_to(self, query):
        rest = [data for offset, data in self._stored.items() if offset >= query.offset]
        end = str(self.END)
        ext = {"nextBeginOffset": end, "minOffset": "0", "maxOffset": end}
        ext["suggestWhichBrokerId"] = "0"
        code = 0 if rest else 19
        return read_pull_reply(
            query, RemotingCommand(code, 1, flag=1, ext=ext, body=b"".join(rest))
        )


@pytest.mark.parametrize("by_key", [False, True], ids=["queue", "key"])
@pytest.mark.parametrize("kept", [64, 1], ids=["all bodies", "bodies are pulled again"])
def test_what_is_unpacked_stays_within_the_limit_and_one_body(
    by_key, kept, hold, puller, broker, monkeypatch
):
    """Stored, all of them together are smaller than one of them unpacked."""
    monkeypatch.setattr(lanes_module, "LANE_BODIES", kept)
    size, limit = 100_000, 450_000
    log, answered, taken, most = PackedLog(size), 0, [], 0
    held = hold(by_key=by_key, max_messages=1000, max_runs=9)
    held.owned.limit(1000, limit)
    puller.start(held)
    broker.asked(1)
    while len(taken) < log.END - START:
        while answered < len(broker.pulls):
            query, on_result, _ = broker.pulls[answered]
            answered += 1
            if query.offset < log.END:  # at the end the broker keeps the pull
                on_result(log.reply_to(query))
            most = max(most, held.owned.messages.size)
            assert most <= limit + size + 4096
        taken += work(held)
        puller.reopen(held)
    assert sorted(taken) == list(range(START, log.END))
    assert most > limit - size, "as much as fits is taken"
    assert held.owned.messages.size == 0


def test_a_body_that_cannot_be_read_is_told_and_handed_on(held, broker, arrived, caplog):
    bad = UndecodableMessage(message(6), "it is garbage")
    broker.answer(PullResult(PullStatus.FOUND, [message(5), bad], 7, 0, 99, 0))
    assert (state(held), arrived) == ((5, 7, 2), [held])
    assert "message.undecodable" in caplog.text
    assert "offset=6" in caplog.text


# --- replies that are too large ----------------------------------------------------------------

TOO_LARGE = ReplyTooLarge("made by the test", size=1000)


def most(broker):
    """How many messages each pull asked for."""
    return [query.max_messages for query, _, _ in broker.pulls]


def test_after_a_reply_that_was_too_large_fewer_are_asked_for_and_by_and_by_more(held, broker):
    for _ in range(3):
        broker.answer(TOO_LARGE)
    assert most(broker) == [32, 16, 8, 4]
    assert broker.asked(4) == [5] * 4
    for offset in (5, 6):
        broker.answer(reply(PullStatus.FOUND, offset, next_offset=offset + 1))
        held.owned.finish(held.owned.take(1, now()), Disposition.COMMIT, now())
    assert most(broker)[4:] == [5, 6]


def test_one_message_that_is_too_large_is_named_and_never_skipped(
    session, held, broker, schedule, caplog
):
    for _ in range(5):
        broker.answer(TOO_LARGE)
    assert "message.too_large" not in caplog.text
    broker.answer(TOO_LARGE)
    assert most(broker) == [32, 16, 8, 4, 2, 1]
    assert "message.too_large" in caplog.text
    assert "offset=5" in caplog.text
    assert explain(held.owned, now()).why is Why.TOO_LARGE
    assert f"{QUEUE} at offset 5" in str(explain(held.owned, now()))
    assert not held.doubtful
    schedule.ring()
    assert broker.asked(7)[-1] == 5
    broker.answer(reply(PullStatus.FOUND, 5, next_offset=6))
    assert explain(held.owned, now()).too_large is None


def test_a_queue_in_doubt_is_asked_about_before_fewer_are_pulled(held, broker, find_out):
    """Or nobody would pull it again."""
    held.doubtful = True
    broker.answer(TOO_LARGE)
    assert broker.asked(2) == [5, 5]
    assert find_out.times == 1


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

    puller = Puller(session, broken, lambda _: None)
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


@pytest.mark.parametrize("late", [RequestTimeout("no"), ReplyTooLarge("no")], ids=repr)
def test_after_close_nothing_is_pulled_or_tried_again(late, puller, held, broker, schedule):
    puller.close()
    broker.answer(late)
    puller.start(held)
    puller.reopen(held)
    assert (broker.asked(1), schedule.waiting) == ([5], [])


# --- a topic that may have been made anew ------------------------------------------------------

BEYOND = reply(PullStatus.OFFSET_ILLEGAL, next_offset=3, end=3)


def test_a_reset_within_the_log_is_obeyed_without_a_question(held, broker, find_out):
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=50))
    assert (held.owned.dropped, find_out.times) == (Drop.OFFSET_ILLEGAL, 0)


def test_an_offset_beyond_the_log_is_asked_about_before_anything_is_skipped(held, broker, find_out):
    find_out.let.clear()
    broker.answer(BEYOND)
    eventually(lambda: find_out.times)
    assert (held.owned.dropped, state(held), broker.asked(1)) == (None, (5, 5, 0), [5])
    find_out.let.set()
    eventually(lambda: held.owned.dropped)
    assert (held.owned.dropped, held.owned.offset) == (Drop.OFFSET_ILLEGAL, 3)
    assert find_out.times == 1


def test_a_queue_of_a_topic_that_was_made_anew_is_not_corrected_to_its_end(
    held, broker, find_out, schedule, caplog
):
    """Whoever found it out has dropped it, and committed the new minimum."""

    def recreated(held):
        held.owned.drop(Drop.RECREATED)
        raise LockLost("made anew")

    find_out.answer = recreated
    broker.answer(BEYOND)
    eventually(lambda: held.owned.dropped)
    eventually(lambda: find_out.ended)
    assert (held.owned.dropped, state(held)) == (Drop.RECREATED, (5, 5, 0))
    assert (broker.asked(1), schedule.waiting) == ([5], [])
    assert "offset.illegal" not in caplog.text


def test_while_it_cannot_be_known_nothing_is_pulled_or_skipped(held, broker, find_out, schedule):
    find_out.error = RequestTimeout("late")
    broker.answer(BEYOND)
    for times in (1, 2, 3):
        eventually(lambda: schedule.waiting)
        assert find_out.times == times
        assert (held.owned.dropped, broker.asked(1)) == (None, [5])
        if times == 3:
            find_out.error = None
        schedule.ring()
    eventually(lambda: held.owned.dropped)
    assert held.owned.offset == 3


def test_a_log_that_got_shorter_brings_nothing_before_it_is_known_to_be_the_same(
    held, broker, find_out, arrived
):
    broker.answer(reply(PullStatus.FOUND, 5, next_offset=6, end=99))
    assert broker.asked(2) == [5, 6]
    find_out.let.clear()
    broker.answer(reply(PullStatus.FOUND, 6, next_offset=7, end=98))
    eventually(lambda: find_out.times)
    assert (state(held), broker.asked(2)) == ((5, 6, 1), [5, 6])
    find_out.let.set()
    assert broker.asked(3) == [5, 6, 6], "it was only cut: the same offset again"
    broker.answer(reply(PullStatus.FOUND, 6, next_offset=7, end=98))
    assert state(held) == (5, 7, 2)
    assert find_out.times == 1


@pytest.mark.parametrize(
    "error", [TopicNotFound("no"), RequestTimeout("late"), ConnectFailed("no")]
)
def test_after_a_broken_connection_or_an_unknown_topic_it_is_asked_first(
    error, held, broker, find_out, schedule
):
    broker.answer(error)
    find_out.let.clear()
    schedule.ring()
    eventually(lambda: find_out.times)
    assert broker.asked(1) == [5]
    find_out.let.set()
    assert broker.asked(2) == [5, 5]


@pytest.mark.parametrize("error", [BrokerBusy("busy", code=2), ProtocolError("nonsense")])
def test_other_failures_are_no_suspicion(error, held, broker, find_out, schedule):
    broker.answer(error)
    schedule.ring()
    assert (broker.asked(2), find_out.times) == ([5, 5], 0)


def test_a_reset_that_the_question_was_told_of_is_obeyed(held, broker, find_out):
    """A broker tells it only once."""
    find_out.error = OffsetReset(QUEUE, 50)
    broker.answer(BEYOND)
    eventually(lambda: held.owned.dropped)
    assert (held.owned.dropped, held.owned.offset) == (Drop.OFFSET_ILLEGAL, 50)


# --- by key ------------------------------------------------------------------------------------


def keyed(status, keys, *, first=START, end=None):
    """A reply with one message for each key, from `first` on."""
    found = [message(first + place, key, QUEUE) for place, key in enumerate(keys)]
    return PullResult(status, found, first + len(keys) if end is None else end, 0, 99, 0)


@pytest.fixture
def lanes(puller, broker, hold, session, monkeypatch):
    """A queue by key whose first pull, at START, is open; a lane keeps one body."""
    monkeypatch.setattr(lanes_module, "LANE_BODIES", 1)
    held = hold(by_key=True, max_runs=9, max_messages=100, max_span=3)
    puller.start(held)
    assert broker.asked(1) == [START]
    return held


def work(held, count=1):
    """Take and commit; returns the offsets."""
    taken = []
    for _ in range(count):
        batch = held.owned.take(1, now())
        held.owned.finish(batch, Disposition.COMMIT, now())
        taken += [m.queue_offset for m in batch.messages]
    return taken


def test_each_key_has_its_lane(lanes, broker):
    broker.answer(keyed(PullStatus.FOUND, ["a", "b", None]))
    assert len(lanes.owned.messages) == 3


def test_a_key_function_that_raises_holds_the_queue_in_front_of_the_message(
    lanes, session, broker, schedule, caplog
):
    def key(message):
        if message.queue_offset == START + 1:
            raise KeyError("tenant")
        return [] if message.queue_offset == START + 2 else message.sharding_key

    session.key = key
    broker.answer(keyed(PullStatus.FOUND, ["a", "b", "c"]))
    assert lanes.owned.messages.unfinished() == [START]
    assert "key_function.raised" in caplog.text
    assert schedule.seconds == [session.config.pull_retry]
    schedule.ring()
    assert broker.asked(2) == [START, START + 1]
    session.key = lambda message: message.sharding_key
    broker.answer(keyed(PullStatus.FOUND, ["b", "c"], first=START + 1))
    assert lanes.owned.messages.unfinished() == [START, START + 1, START + 2]


@pytest.mark.parametrize(("redacts", "told"), [(False, "KeyError: 'jane'"), (True, "KeyError")])
def test_how_a_key_function_fails_is_told_without_the_message_where_keys_are_hidden(
    lanes, session, broker, redacts, told
):
    def key(message):
        raise KeyError("jane")

    session.key, session.redacts = key, redacts
    broker.answer(keyed(PullStatus.FOUND, ["a"]))
    assert lanes.owned.no_key == told


def test_a_key_that_cannot_be_hashed_is_a_failure_of_the_key_function(lanes, session, broker):
    session.key = lambda message: ["tenant"]
    broker.answer(keyed(PullStatus.FOUND, ["a"]))
    assert (lanes.owned.messages.unfinished(), lanes.owned.next_pull) == ([], START)


def test_bodies_that_were_not_kept_are_pulled_again_beside_the_pull(lanes, puller, broker):
    broker.answer(keyed(PullStatus.FOUND, "aaa"))
    assert lanes.owned.messages.deferred == 2
    assert work(lanes) == [START]
    puller.reopen(lanes)
    puller.reopen(lanes)
    assert broker.asked(3) == [START, START + 3, START + 1], "once"
    query, _, _ = broker.pulls[-1]
    assert query.suspend == 0, "no long poll: they are there"
    broker.answer(keyed(PullStatus.FOUND, "aa", first=START + 1))
    assert work(lanes, 2) == [START + 1, START + 2]


@pytest.mark.parametrize("failure", [RequestTimeout("late"), RuntimeError("a defect")], ids=repr)
def test_a_failed_refill_is_tried_again_once_however_many_batches_end(
    failure, lanes, puller, broker, schedule, session
):
    broker.answer(keyed(PullStatus.FOUND, "aab"))
    assert work(lanes, 2) == [START, START + 2]
    broker.fail = failure
    for _ in range(5):
        puller.reopen(lanes)
    assert schedule.seconds == [session.config.pull_retry]
    broker.fail = None
    schedule.ring()
    assert broker.asked(3)[-1] == START + 1


@pytest.mark.parametrize("answer", [RequestTimeout("late"), "nonsense"], ids=repr)
def test_after_a_reply_that_failed_bodies_are_asked_for_again(
    answer, lanes, puller, broker, schedule
):
    broker.answer(keyed(PullStatus.FOUND, "aa"))
    work(lanes)
    puller.reopen(lanes)
    broker.answer(answer)
    assert lanes.owned.messages.unfinished() == [START + 1]
    schedule.ring()
    assert broker.asked(4)[-1] == START + 1


def test_bodies_that_are_too_large_together_are_pulled_again_one_by_one(
    lanes, puller, broker, schedule, caplog
):
    broker.answer(keyed(PullStatus.FOUND, "aaa"))
    work(lanes)
    puller.reopen(lanes)
    for count in range(3, 8):
        broker.answer(TOO_LARGE)
        assert broker.asked(count + 1)[-1] == START + 1
    assert most(broker)[2:] == [32, 16, 8, 4, 2, 1]
    broker.answer(TOO_LARGE)
    assert "message.too_large" in caplog.text
    schedule.ring()
    assert broker.asked(9)[-1] == START + 1
    broker.answer(keyed(PullStatus.FOUND, "a", first=START + 1))
    assert work(lanes) == [START + 1]


def test_where_it_must_not_connect_another_thread_pulls_the_bodies(lanes, puller, broker):
    broker.answer(keyed(PullStatus.FOUND, "aa"))
    work(lanes)
    broker.connected = False
    puller.reopen(lanes)
    assert broker.asked(3)[-1] == START + 1


def test_bodies_missed_during_a_pause_are_pulled_when_it_ends(lanes, puller, broker, session):
    broker.answer(keyed(PullStatus.FOUND, "aa"))
    work(lanes)
    lanes.owned.pause()
    puller.reopen(lanes)
    assert broker.asked(2) == [START, START + 2]
    Control(session, puller, lambda held: None).resume([QUEUE])
    assert broker.asked(3)[-1] == START + 1


def test_a_queue_at_its_span_end_goes_on_when_what_it_waits_for_turns_out_to_be_lost(
    lanes, puller, broker, arrived, caplog
):
    """Nothing else would ever reopen it."""
    broker.answer(keyed(PullStatus.FOUND, "aabbb"))
    assert lanes.owned.throttled
    broker.pulls.clear()
    assert work(lanes, 2) == [START, START + 2]
    puller.reopen(lanes)
    assert broker.asked(1) == [START + 1]
    broker.answer(PullResult(PullStatus.NO_MATCH, [], START + 5, START + 5, 99, 0))
    assert "message.deleted" in caplog.text
    assert broker.asked(3)[1:] == [START + 5, START + 3], "the pull goes on, and the next refill"


@pytest.mark.parametrize("correct", [2, 50])
def test_a_reset_that_a_refill_is_told_of_moves_the_queue_there(correct, lanes, puller, broker):
    broker.answer(keyed(PullStatus.FOUND, "aa"))
    work(lanes)
    puller.reopen(lanes)
    broker.answer(PullResult(PullStatus.OFFSET_ILLEGAL, [], correct, 0, 99, 0))
    assert (lanes.owned.dropped, lanes.owned.offset) == (Drop.OFFSET_ILLEGAL, correct)


def test_bodies_that_come_after_a_seek_do_not_undo_it(lanes, puller, broker):
    broker.answer(keyed(PullStatus.FOUND, "aa"))
    work(lanes)
    puller.reopen(lanes)
    lanes.owned.restart_at(2, Drop.MOVED)
    broker.answer(keyed(PullStatus.FOUND, "a", first=START + 1))
    assert lanes.owned.unsaved(now()) == 2


# --- when bodies are pulled again, and when not ------------------------------------------------


def test_a_key_that_misses_bodies_gets_them_also_if_nothing_of_it_is_in_work(lanes, broker):
    """A manual commit keeps all it has in hand: no batch ends that could ask for more."""
    broker.answer(keyed(PullStatus.FOUND, "aa"))
    lanes.owned.finish(lanes.owned.take(1, now()), Disposition.KEEP, now())
    broker.answer(keyed(PullStatus.FOUND, "b", first=START + 2))
    assert START + 1 in broker.asked(3)


def test_bodies_the_broker_does_not_show_yet_are_asked_for_again_after_a_while(
    lanes, puller, broker, schedule, session
):
    broker.answer(keyed(PullStatus.FOUND, "aa"))
    work(lanes)
    puller.reopen(lanes)
    broker.answer(PullResult(PullStatus.NO_NEW, [], START + 1, 0, 99, 0))
    puller.reopen(lanes)
    assert broker.asked(3) == [START, START + 2, START + 1], "not at once"
    assert schedule.seconds == [session.config.pull_retry]
    schedule.ring()
    assert broker.asked(4)[-1] == START + 1


def test_bodies_of_keys_that_waited_are_pulled_once_for_several(lanes, puller, broker, schedule):
    """A timer asks for them when the first has no more patience; one for all."""
    owned, moment = lanes.owned, now()
    broker.answer(keyed(PullStatus.FOUND, "abc"))
    owned.limit(4, 10**6)  # one body for all that wait
    for wait in (0.0, 80.0, 88.0):
        owned.finish(owned.take(1, moment), Disposition.PUT_BACK, moment, wait=wait)
    owned.wake(moment + 80.0)
    puller.reopen(lanes)
    puller.reopen(lanes)
    assert broker.asked(2) == [START, START + 3]
    assert [round(seconds) for seconds in schedule.seconds] == [85], "5 s after it woke"
    owned.wake(moment + 88.0)
    schedule.ring()
    assert broker.asked(3)[-1] == START + 1
    broker.answer(keyed(PullStatus.FOUND, "bc", first=START + 1))
    assert owned.messages.refill_from is not None, "beyond a quarter of the room"
    assert work(lanes, 2) == [START, START + 1]


def test_no_bodies_are_pulled_again_while_there_is_no_room_for_them(lanes, puller, broker):
    broker.answer(keyed(PullStatus.FOUND, "aabc"))
    work(lanes)
    lanes.owned.limit(1, 10**6)
    puller.reopen(lanes)
    assert START + 1 not in broker.asked(1)
    assert not lanes.owned.wants_bodies(now())
    work(lanes)
    assert lanes.owned.wants_bodies(now())
    puller.reopen(lanes)
    assert broker.asked(2)[-1] == START + 1


def test_a_reset_is_told_from_deleted_messages_also_below_the_oldest_one(lanes, puller, broker):
    broker.answer(keyed(PullStatus.FOUND, "aa"))
    work(lanes)
    puller.reopen(lanes)
    broker.answer(PullResult(PullStatus.OFFSET_ILLEGAL, [], 50, START + 9, 99, 0))
    assert (lanes.owned.dropped, lanes.owned.offset) == (Drop.OFFSET_ILLEGAL, 50)


def test_a_key_function_that_exits_does_not_end_the_reader_thread(lanes, session, broker, schedule):
    def leave(message):
        raise SystemExit(3)

    session.key = leave
    broker.answer(keyed(PullStatus.FOUND, "a"))
    assert schedule.seconds == [session.config.pull_retry]
