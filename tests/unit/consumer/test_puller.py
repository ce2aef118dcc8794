"""One held queue's pulls against a broker that answers when and what the test says."""

import math
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly.client.broker import PullResult, PullStatus, read_pull_reply
from orderly.clock import now
from orderly.config import ClientConfig
from orderly.consumer import puller as puller_module
from orderly.consumer.control import Control
from orderly.consumer.puller import Puller
from orderly.errors import (
    BrokerBusy,
    ConnectFailed,
    LockLost,
    NoPermission,
    ProtocolError,
    ReplyTooLarge,
    RequestTimeout,
    TopicNotFound,
)
from orderly.model import BrokerData, MessageQueue, TopicRoute
from orderly.ordering import lanes as lanes_module
from orderly.ordering.broker_calls import OffsetReset
from orderly.ordering.fence import Landmark
from orderly.ordering.owned_queue import Drop, Lease, OwnedQueue
from orderly.ordering.results import Disposition
from orderly.protocol import stored_message
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.properties import ATTEMPT, mark
from orderly.protocol.stored_message import encode_stored_message
from tests.support.messages import message
from tests.support.waiting import eventually

QUEUE = MessageQueue("orders", "broker-a", 0)
START = 5
MASTER, SLAVE = "master:1", "slave:1"


class Broker:
    """Keeps each pull as (query, on_result, may_connect) until the test answers it."""

    def __init__(self):
        self.pulls = []

    def pull(self, query, on_result, *, may_connect):
        self.pulls.append((query, on_result, may_connect))
        return True

    def asked(self, count):
        """The offsets asked for, once there were `count` pulls."""
        eventually(lambda: len(self.pulls) >= count)
        return [query.offset for query, _, _ in self.pulls]

    def went(self, count):
        """The offsets asked for and of whom, as (offset, broker id), once there were `count`."""
        self.asked(count)
        return [(query.offset, query.broker_id) for query, _, _ in self.pulls]

    def answer(self, reply):
        """Answer the newest pull."""
        self.pulls[-1][1](reply)


def reply(status, *offsets, next_offset, end=99, suggested=0, address=""):
    found = [message(offset, queue=QUEUE) for offset in offsets]
    return PullResult(status, found, next_offset, 0, end, suggested, address)


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


def test_only_the_first_pull_may_connect(held, broker):
    broker.answer(reply(PullStatus.NO_NEW, next_offset=5))
    assert [may_connect for _, _, may_connect in broker.pulls] == [True, False]


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


# --- what pulls prove ------------------------------------------------------------------------


def suspends(broker):
    """For how long each pull may be held at the broker, as "now" or "long"."""
    return ["long" if query.suspend else "now" for query, _, _ in broker.pulls]


def test_the_first_pull_is_answered_at_once_and_so_is_the_first_after_a_failure(
    held, broker, schedule
):
    assert not held.owned.proven
    assert held.owned.unproven_since == -math.inf
    broker.answer(reply(PullStatus.NO_NEW, next_offset=5))
    assert held.owned.proven
    broker.answer(NoPermission("you may not"))
    assert (held.owned.proven, held.owned.pull_error) == (False, "you may not")
    schedule.ring()
    broker.asked(3)
    broker.answer(reply(PullStatus.NO_NEW, next_offset=5))
    assert (held.owned.proven, held.owned.pull_error) == (True, None)
    broker.asked(4)
    assert suspends(broker) == ["now", "long", "now", "long"]


def test_failures_count_from_the_first_one_on(held, broker, schedule):
    broker.answer(reply(PullStatus.NO_NEW, next_offset=5))
    broker.asked(2)
    begun = held.owned.pulled_at
    for count in (3, 4):
        broker.answer(RequestTimeout("no answer"))
        schedule.ring()
        broker.asked(count)
    assert held.owned.pulled_at > begun
    assert held.owned.unproven_since == begun


def test_a_defect_says_its_kind_only_where_texts_are_hidden(held, broker, session):
    session.redacts = True
    broker.answer(SimpleNamespace(status=PullStatus.FOUND))
    assert held.owned.pull_error == "AttributeError"


@pytest.mark.parametrize("why", ["paused", "full", "given up"])
def test_where_no_pull_is_expected_none_is_missed(why, held, broker):
    if why == "paused":
        held.owned.pause()
    elif why == "full":
        broker.answer(reply(PullStatus.FOUND, 5, 6, 7, next_offset=8))
        assert held.owned.throttled
    else:
        held.owned.drop(Drop.REVOKED)
    assert held.owned.unproven_since is None


# --- replies that are too large ----------------------------------------------------------------

TOO_LARGE = ReplyTooLarge("made by the test", size=1000)


def most(broker):
    """How many messages each pull asked for."""
    return [query.max_messages for query, _, _ in broker.pulls]


def test_a_queue_in_doubt_is_asked_about_before_fewer_are_pulled(held, broker, find_out):
    """Or nobody would pull it again."""
    held.doubtful = True
    broker.answer(TOO_LARGE)
    assert broker.asked(2) == [5, 5]
    assert find_out.times == 1


@pytest.mark.parametrize("reason", [Drop.REVOKED, Drop.RESUBSCRIBED, Drop.STALLED])
def test_a_reset_that_is_told_while_the_queue_leaves_goes_with_it(reason, held, broker):
    held.owned.drop(reason)
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=50))
    assert held.owned.dropped is reason
    assert held.owned.unsaved(now()) == 50, "the next owner begins there"


@pytest.mark.parametrize("reason", [None, Drop.CLOSING, Drop.REVOKED, Drop.MOVED])
def test_a_reset_that_a_former_ownerships_pull_is_told_of_reaches_who_holds_the_queue(
    reason, held, hold, session, broker, caplog
):
    """Also while it gives the queue up: a broker says it once."""
    held.owned.drop(Drop.LOST)
    session.remove(held)
    present = hold()
    if reason is not None:
        present.owned.drop(reason)
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=50))
    assert present.owned.unsaved(now()) == 50
    assert "offset.illegal_for_former_owner" not in caplog.text


@pytest.mark.parametrize("reason", [None, Drop.LOST, Drop.FENCED])
def test_a_reset_that_reaches_nobody_who_holds_the_queue_is_told_to_people(
    reason, held, hold, session, broker, caplog
):
    held.owned.drop(Drop.LOST)  # as each release does
    session.remove(held)
    if reason is not None:
        hold().owned.drop(reason)
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=50))
    assert "offset.illegal_for_former_owner" in caplog.text


def test_a_reset_to_where_the_queue_is_changes_nothing(held, broker, schedule, caplog):
    """A broker tells of a reset with the next pull, which may be that of who began there."""
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=START))
    assert (held.owned.dropped, state(held)) == (None, (START, START, 0))
    assert "offset.illegal" not in caplog.text
    schedule.ring()
    assert broker.asked(2) == [START, START], "and it is pulled again"


def test_a_reset_to_where_the_queue_is_discards_what_is_finished_ahead(
    puller, hold, broker, caplog
):
    held = hold(by_key=True, finished=((START + 1, START + 3),))
    puller.start(held)
    broker.asked(1)
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=START))
    assert held.owned.dropped is Drop.OFFSET_ILLEGAL
    assert "finished_ahead_discarded=2" in caplog.text


def test_an_illegal_offset_after_the_lock_was_lost_moves_nothing(held, broker):
    held.owned.drop(Drop.LOST)
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=50))
    assert state(held) == (5, 5, 0)


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


def test_where_the_filter_leaves_all_out_it_is_asked_once_which_messages_there_are(
    held, broker, find_out
):
    """Or nothing would ever show that the topic was recreated."""
    find_out.answer = lambda held: setattr(held.owned.fence, "landmark", Landmark(8, 1))
    broker.answer(reply(PullStatus.NO_MATCH, next_offset=9))
    assert broker.asked(2) == [5, 9]
    broker.answer(reply(PullStatus.NO_MATCH, next_offset=12))
    broker.answer(reply(PullStatus.NO_NEW, next_offset=12))
    assert (broker.asked(4), find_out.times) == ([5, 9, 12, 12], 1)


def test_a_pull_that_brings_nothing_asks_for_no_message(held, broker, find_out):
    broker.answer(reply(PullStatus.NO_NEW, next_offset=5))
    assert (broker.asked(2), find_out.times) == ([5, 5], 0)


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


@pytest.mark.parametrize(("redacts", "told"), [(False, "KeyError: 'jane'"), (True, "KeyError")])
def test_how_a_key_function_fails_is_told_without_the_message_where_keys_are_hidden(
    lanes, session, broker, redacts, told
):
    def key(message):
        raise KeyError("jane")

    session.key, session.redacts = key, redacts
    broker.answer(keyed(PullStatus.FOUND, ["a"]))
    assert lanes.owned.no_key == told


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


def test_a_reset_is_told_from_deleted_messages_also_below_the_oldest_one(lanes, puller, broker):
    broker.answer(keyed(PullStatus.FOUND, "aa"))
    work(lanes)
    puller.reopen(lanes)
    broker.answer(PullResult(PullStatus.OFFSET_ILLEGAL, [], 50, START + 9, 99, 0))
    assert (lanes.owned.dropped, lanes.owned.offset) == (Drop.OFFSET_ILLEGAL, 50)


# --- where pulls go, and what a slave's answer is worth: it may lag behind its master


@pytest.fixture
def route(session):
    """Set which of the two addresses the route has."""

    def set_route(**addresses):
        ids = {"master": (0, MASTER), "slave": (1, SLAVE)}
        known = dict(ids[name] for name, up in addresses.items() if up)
        broker = BrokerData("broker-a", "cluster", known)
        found = TopicRoute("orders", (), (broker,))
        session.client.routes = SimpleNamespace(cached=lambda _: found)

    set_route(master=True, slave=True)
    return set_route


@pytest.fixture
def copied(route, held):
    """A held queue of a master and a slave, with room for three messages."""
    held.owned.limit(3, 10**6)
    return held


def test_the_replica_that_the_broker_suggests_is_asked_next(copied, broker):
    broker.answer(reply(PullStatus.FOUND, 5, next_offset=6, suggested=1))
    broker.answer(reply(PullStatus.FOUND, 6, next_offset=7, suggested=0, address=SLAVE))
    assert broker.went(3) == [(5, 0), (6, 1), (7, 0)]


@pytest.mark.parametrize("status", [each for each in PullStatus if each != PullStatus.FOUND])
def test_what_a_slave_does_not_have_the_master_is_asked_for_at_the_same_offset(
    status, copied, broker
):
    broker.answer(reply(PullStatus.FOUND, 5, next_offset=6, suggested=1))
    broker.answer(reply(status, next_offset=2, suggested=1, address=SLAVE))
    assert broker.went(3)[2] == (6, 0)
    assert (copied.owned.dropped, copied.owned.offset) == (None, 5)


def test_a_slave_skips_nothing_for_good(copied, broker):
    broker.answer(reply(PullStatus.FOUND, 5, next_offset=6, suggested=1))
    broker.answer(reply(PullStatus.NO_MATCH, next_offset=40, suggested=1, address=SLAVE))
    assert copied.owned.next_pull == 6


def test_while_the_master_is_down_an_empty_slave_is_asked_at_a_measured_pace(
    session, copied, broker, schedule, route
):
    """It answers at once when it lags, and would be asked thousands of times a second."""
    route(slave=True)
    broker.answer(reply(PullStatus.NO_MATCH, next_offset=5, address=SLAVE))
    assert len(broker.pulls) == 1
    assert schedule.seconds == [session.config.pull_retry]
    schedule.ring()
    assert broker.went(2)[1] == (5, 0), "whoever of them is there by then"


def test_after_a_failure_of_a_slave_the_master_is_asked_at_once_and_for_a_while(
    session, copied, broker, schedule, monkeypatch
):
    broker.answer(reply(PullStatus.FOUND, 5, next_offset=6, suggested=1))
    broker.answer(ConnectFailed("no slave there", SLAVE))
    assert schedule.seconds == [0.0]
    schedule.ring()
    broker.went(3)
    broker.answer(reply(PullStatus.FOUND, 6, next_offset=7, suggested=1))
    assert broker.went(4)[2:] == [(6, 0), (7, 0)]
    later = now() + 11
    monkeypatch.setattr("orderly.consumer.puller.now", lambda: later)
    copied.owned.lease.renew(later)
    copied.owned.finish(copied.owned.take(2, later), Disposition.COMMIT, later)
    broker.answer(reply(PullStatus.FOUND, 7, next_offset=8, suggested=1))
    assert broker.went(5)[4] == (8, 1)


def test_a_master_that_fails_is_not_asked_again_at_once(session, copied, broker, schedule):
    broker.answer(ConnectFailed("no master there", MASTER))
    assert schedule.seconds == [session.config.pull_retry]


@pytest.fixture
def refilling(route, lanes, puller, broker):
    """A held queue that has just asked again for a body at offset 6."""
    broker.answer(reply(PullStatus.FOUND, 5, 6, next_offset=7, suggested=1))
    work(lanes)
    puller.reopen(lanes)
    assert broker.went(3)[2] == (6, 0)
    return lanes


def test_bodies_are_pulled_again_from_the_master_and_a_slave_has_lost_none(refilling, broker):
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=2, address=SLAVE))
    assert (refilling.owned.dropped, refilling.owned.offset) == (None, 6)


def test_while_the_master_is_down_a_slave_that_lags_is_asked_for_bodies_at_a_measured_pace(
    session, refilling, broker, schedule, route
):
    route(slave=True)
    lagging = PullResult(PullStatus.OFFSET_ILLEGAL, [], 2, 0, 2, 0, SLAVE)
    broker.answer(lagging)
    assert len(broker.pulls) == 3
    assert schedule.seconds == [session.config.pull_retry]
    assert (refilling.owned.dropped, refilling.owned.offset) == (None, 6)
    assert not refilling.doubtful, "a slave that lags says nothing of the topic"


def test_a_queue_that_is_lost_while_in_doubt_is_asked_about_no_more(
    held, puller, broker, schedule, find_out
):
    """Its broker is away for long: whoever takes the queue next finds out anew."""
    find_out.error = ConnectFailed("nobody there", MASTER)
    broker.answer(ConnectFailed("nobody there", MASTER))
    schedule.ring()
    eventually(lambda: find_out.times and schedule.waiting)
    with held.lock:
        held.owned.drop(Drop.LOST)
    schedule.ring()
    puller._executor.shutdown()  # what was begun has ended
    assert (find_out.times, schedule.waiting) == (1, [])


# --- messages that were sent again ------------------------------------------------------------


def marked_reply(*offsets, next_offset):
    """A reply whose first message is a second attempt."""
    first, *others = [message(offset, queue=QUEUE) for offset in offsets]
    again = first.changed(properties={ATTEMPT: mark(2, 1000)})
    return PullResult(PullStatus.FOUND, [again, *others], next_offset, 0, 99, 0, marked=True)


@pytest.fixture
def copies(monkeypatch):
    """What looks for first copies: answers, or raises, what the test says."""
    found = SimpleNamespace(answers=[], asked=[])

    def look(brokers, query, marked, floor):
        found.asked.append([m.queue_offset for m in marked])
        answer = found.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(puller_module, "copies_before", look)
    return found


def test_it_is_taken_in_once_it_is_known_what_it_repeats(held, broker, copies):
    copies.answers = [{5: 3}]
    broker.answer(marked_reply(5, 6, next_offset=7))
    broker.asked(2)
    assert copies.asked == [[5]]
    assert held.owned.repeats.firsts == {5: 3}
    assert state(held) == (5, 7, 2)


@pytest.mark.parametrize("error", [RequestTimeout("late"), ValueError("a defect")], ids=repr)
def test_nothing_is_taken_in_as_long_as_that_is_not_known(held, broker, copies, schedule, error):
    copies.answers = [error, {5: None}]
    broker.answer(marked_reply(5, next_offset=6))
    eventually(lambda: held.owned.pull_error)
    assert state(held) == (5, 5, 0)
    schedule.ring()
    broker.asked(2)
    broker.answer(marked_reply(5, next_offset=6))
    broker.asked(3)
    assert state(held) == (5, 6, 1)


def test_a_reset_that_the_look_is_told_counts(held, broker, copies):
    copies.answers = [OffsetReset(QUEUE, 2)]
    broker.answer(marked_reply(5, next_offset=6))
    eventually(lambda: held.owned.dropped)
    assert (held.owned.dropped, held.owned.offset) == (Drop.OFFSET_ILLEGAL, 2)


def test_a_queue_that_is_lost_meanwhile_takes_nothing_in(held, broker, copies):
    copies.answers = [{5: None}]
    held.owned.drop(Drop.LOST)
    broker.answer(marked_reply(5, next_offset=6))
    eventually(lambda: copies.asked and not held.owned.pulling)
    assert state(held) == (5, 5, 0)


@pytest.mark.parametrize("topic", ["%RETRY%group", "%DLQ%group"])
def test_what_was_sent_back_is_not_looked_at(puller, broker, hold, copies, topic):
    """A send-back keeps the id, and maybe the mark, of the message."""
    held = hold()
    puller.start(held)
    broker.asked(1)
    answer = marked_reply(5, next_offset=6)
    queue = MessageQueue(topic, "broker-a", 0)
    broker.answer(replace(answer, messages=[m.changed(queue=queue) for m in answer.messages]))
    broker.asked(2)
    assert copies.asked == []


def test_who_wants_the_raw_log_asks_nothing(held, broker, copies, session):
    session.config = replace(session.config, skip_repeats=False)
    broker.answer(marked_reply(5, next_offset=6))
    broker.asked(2)
    assert copies.asked == []
