"""What a consumer says of itself: each queue's reason, its health, its running info."""

import re
import time
from types import SimpleNamespace

import pytest

from orderly.clock import now
from orderly.config import ClientConfig, ConsumerConfig
from orderly.consumer import introspection
from orderly.consumer.introspection import ConsumerInspector, SpanEnds, held_queues, troubled
from orderly.consumer.session import Outlook
from orderly.consumer.statistics import ReturnType
from orderly.ordering import pull_window
from orderly.ordering.explain import Why
from orderly.ordering.fingerprint import Fingerprint
from orderly.ordering.owned_queue import Drop, Lease
from orderly.ordering.pull_window import Limit
from orderly.ordering.results import Disposition
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.members import queue_reports
from tests.support.messages import QUEUE, message
from tests.support.standstill import HandClock, can_stand_still

OUTLOOK = Outlook((QUEUE,), frozenset((QUEUE,)))


@pytest.fixture
def insight(session):
    return ConsumerInspector(session)


@pytest.fixture
def queues(cluster):
    return cluster.route("orders").read_queues()


def start_handler(session):
    held = session.held()[0]
    held.owned.pull_gate(now())
    held.owned.pulled([message(0, queue=held.queue)], 1)
    held.owned.take(1, now())
    return held


def prove(session):
    """A pull of each queue that is held has succeeded."""
    for held in session.held():
        held.owned.pull_gate(now())
        held.owned.pulled([], 0)


def reasons(insight):
    return [explanation.why for explanation in insight.explain()]


def test_before_the_first_round_nothing_is_known(insight):
    assert insight.explain() == ()
    health = insight.health("running")
    assert (health.live, health.ready) == (True, False)
    assert health.reasons == ("topic orders: no rebalance round has succeeded yet",)


def test_the_retry_topic_is_nobodys_business(insight, rebalancer, session):
    session.subscriptions |= {"%RETRY%group": Subscription("%RETRY%group")}
    rebalancer.round()
    assert {e.queue.topic for e in insight.explain()} == {"orders"}
    assert {queue.topic for queue in held_queues(session)} == {"orders"}
    assert {held.queue.topic for held in session.held()} == {"orders", "%RETRY%group"}
    del session.outlook["%RETRY%group"]
    prove(session)
    assert insight.health("running").ready


def test_what_is_being_given_up_is_explained_but_not_assigned(insight, rebalancer, session):
    rebalancer.round()
    prove(session)
    session.held()[0].owned.drop(Drop.REVOKED)
    assert reasons(insight)[0] is Why.RELEASING
    assert len(held_queues(session)) == 3
    assert insight.health("running").ready
    session.held()[1].owned.drop(Drop.LOST)
    assert not insight.health("running").ready


@pytest.mark.parametrize("reason", [None, Drop.REVOKED])
def test_a_handler_over_its_time_makes_it_dead(reason, insight, rebalancer, session):
    rebalancer.round()
    held = start_handler(session)
    assert insight.health("running").live
    held.owned.messages.lowest_lane.since -= session.config.consume_timeout
    if reason:
        held.owned.drop(reason)
    health = insight.health("running")
    assert not health.live
    said = rf"{re.escape(str(held.queue))}: a handler has been running for 9\d\d s"
    assert re.match(said, health.reasons[0])


@pytest.mark.parametrize("stands_still", [True, False])
def test_a_handler_is_not_over_its_time_because_nothing_ran(
    stands_still, insight, rebalancer, session, awake, monkeypatch
):
    rebalancer.round()
    held = start_handler(session)
    stand_still = can_stand_still(monkeypatch)
    if stands_still:
        awake.now()
    stand_still(session.config.consume_timeout)
    held.owned.lease = Lease(now(), 30.0)
    assert Why.HANDLING in reasons(insight)
    assert insight.health("running").live is stands_still


class Running:
    """The handler calls that run, of which one has hung for 7 seconds."""

    def __init__(self, *held):
        self._held = held

    def running(self, seconds):
        if seconds > 7:
            return []
        return [
            SimpleNamespace(context=SimpleNamespace(message_queue=held.queue, key=None), seconds=7)
            for held in self._held
        ]


def test_without_a_limit_nothing_hangs(rebalancer, session):
    rebalancer.round()
    held = start_handler(session)
    insight = ConsumerInspector(session, calls=Running(held))
    assert reasons(insight)[0] is Why.HANDLING
    assert insight.health("running").live


@pytest.mark.parametrize(
    ("state", "live"), [("created", True), ("failed", False), ("closed", False)]
)
def test_who_does_not_run_is_not_ready(state, live, insight, rebalancer):
    rebalancer.round()
    health = insight.health(state)
    assert (health.live, health.ready) == (live, False)
    assert health.reasons == (f"the consumer is {state}",)
    assert health.queues == ()


def test_members_that_keep_order_in_another_way_are_a_reason_not_to_be_ready(session, rebalancer):
    company = SimpleNamespace(mixed=())
    insight = ConsumerInspector(session, company)
    rebalancer.round()
    prove(session)
    assert insight.health("running").ready
    company.mixed = ("java@2 (JAVA)",)
    health = insight.health("running")
    assert (health.live, health.ready) == (True, False)
    assert health.reasons == ("the group mixes order by key and by queue: java@2 (JAVA)",)


@pytest.mark.parametrize("allowed", [False, True])
def test_the_running_info_has_each_queue(allowed, insight, rebalancer, session, queues):
    session.client.config = ClientConfig(namesrv="host:9876")
    session.config = ConsumerConfig(allow_thread_dump=allowed)
    rebalancer.round()
    held = start_handler(session)
    info = insight.running_info(True)
    assert info.properties["PROP_CONSUMEORDERLY"] == "true"
    assert info.properties["PROP_NAMESERVER_ADDR"] == "host:9876"
    assert info.properties["pull_threshold"] == "1000"
    assert info.properties["order"] == "queue", "other members ask for it"
    assert [s.topic for s in info.subscriptions] == list(info.topics) == ["orders"]
    assert set(info.queues) == set(queues)
    queue = info.queues[held.queue]
    assert (queue.in_hand_count, queue.cached_count, queue.locked) == (1, 0, True)
    assert abs(queue.last_consume_time - time.time()) < 60
    assert ("test_introspection" in info.jstack) is allowed
    assert insight.running_info(False).jstack == ""


def test_a_queue_whose_key_function_fails_is_not_ready(insight, rebalancer, session):
    rebalancer.round()
    prove(session)
    assert insight.health("running").ready
    held = start_handler(session)
    held.owned.no_key = "ValueError: no such account"
    health = insight.health("running")
    assert (health.live, health.ready) == (True, False)
    assert health.reasons[0].endswith("failed at offset 1: ValueError: no such account")


def test_who_fails_at_everything_for_longer_than_a_lock_is_trusted_is_not_ready(
    insight, rebalancer, session
):
    rebalancer.round()
    prove(session)
    session.failing_for = lambda: session.config.lock_trust - 1
    assert insight.health("running").ready
    session.failing_for = lambda: session.config.lock_trust + 1
    health = insight.health("running")
    assert (health.live, health.ready) == (True, False)
    assert health.reasons == ("most keys fail, and no message has succeeded for 31 s",)


def test_a_key_that_is_not_given_up_says_why(hold, session, insight):
    held = hold(by_key=True)
    held.owned.pulled([message(n) for n in range(2)], 2, None, ["a", "b"])
    for key, wait in (("a", 9.0), ("b", None)):
        batch = held.owned.take(1, now())
        held.failures.failed(key, batch.messages[0].queue_offset, HOW, now(), "others fail so, too")
        held.owned.finish(batch, Disposition.PUT_BACK, now(), wait=wait)
    found = {e.key: e for e in insight.explain_keys(9)}
    assert (found["a"].why.name, found["a"].because) == ("SUSPENDED", "others fail so, too")
    assert str(found["a"]).endswith("not given up yet: others fail so, too")
    assert (found["b"].why.name, found["b"].because) == ("WAITING", None)


def test_a_queue_full_of_keys_that_wait_is_not_ready(hold, session, monkeypatch):
    monkeypatch.setattr(pull_window, "MAX_KEYS", 2)
    held = hold(by_key=True, max_runs=9)
    owned = held.owned
    owned.pull_gate(now())
    owned.pulled([message(n) for n in range(3)], 3, 9, list("abc"))
    waiting = owned.take(1, now())
    owned.pull_gate(now())
    assert not owned.full_of_waiting, "they go on"
    for batch in (waiting, owned.take(1, now())):
        owned.finish(batch, Disposition.PUT_BACK, now(), wait=60.0)
    insight = ConsumerInspector(session)
    health = insight.health("running")
    assert (health.live, health.ready) == (True, False)
    (reason,) = [r for r in health.reasons if str(held.queue) in r]
    assert f"nothing more is pulled: {Limit.KEYS}; 2 of its 3 keys wait" in reason
    owned.finish(owned.take(1, now()), Disposition.COMMIT, now())
    owned.pull_gate(now())
    assert not owned.full_of_waiting


# --- which queues a running info reports ----------------------------------------------------------


HOW = Fingerprint("0123", "ValueError (shop:ship)")


def pulled(held, *keys):
    """Messages 0, 1 and so on; with keys they are ordered by."""
    held.owned.pull_gate(now())
    batch = [message(number, queue=held.queue) for number in range(len(keys))]
    held.owned.pulled(batch, len(keys), None, list(keys) if held.owned.by_key else None)
    return held


def fail(held, at, wait=5.0):
    batch = held.owned.take(1, at)
    held.failures.failed(batch.key, batch.messages[0].queue_offset, HOW, at)
    held.owned.finish(batch, Disposition.PUT_BACK, at, wait=wait)


def report_of(held, hung=(), at=None):
    found = dict(troubled([held], frozenset(hung), now() if at is None else at))
    return found.get(held.queue)


def test_a_queue_that_goes_on_has_no_report(hold):
    held = pulled(hold(), None, None)
    assert report_of(held) is None
    held.owned.take(1, now())
    assert report_of(held) is None, "its handler began just now"


def test_a_long_call_is_reported_from_its_first_second_on(hold):
    held = pulled(hold(), None)
    begun = now()
    held.owned.take(1, begun)
    report = report_of(held, at=begun + 2)
    assert (report.why, report.offset, report.attempts, report.failing_for) == (
        "HANDLING",
        0,
        1,
        None,
    )
    assert report.seconds == pytest.approx(2, abs=0.5)


def test_a_failed_message_is_reported_with_its_tries_and_how_it_fails(hold):
    held = pulled(hold(), None, None)
    failed = now()
    fail(held, failed)
    report = report_of(held, at=failed + 1)
    assert (report.why, report.offset, report.attempts) == ("SUSPENDED", 0, 1)
    assert (report.fingerprint, report.reason) == (HOW.digest, HOW.text)
    assert report.failing_for == pytest.approx(1, abs=0.5)
    assert report.seconds == pytest.approx(4, abs=0.5)
    held.owned.wake(now() + 9)
    held.owned.take(1, now() + 9)
    assert report_of(held, at=now() + 9).attempts == 2, "the one that runs counts"


def test_by_key_the_first_message_is_reported_whatever_other_keys_do(hold):
    held = pulled(hold(by_key=True), "a", "b")
    fail(held, now())
    held.owned.take(1, now())  # "b"
    report = report_of(held, at=now() + 3)
    assert (report.why, report.key, report.attempts) == ("SUSPENDED", "a", 1)


def test_a_first_message_that_waits_for_its_turn_is_not_said_to_be_handled(hold):
    held = pulled(hold(by_key=True), "a", "b")
    fail(held, now())
    held.owned.take(1, now())  # "b"
    held.owned.wake(now() + 9)
    assert report_of(held, at=now() + 9).why == "WAITING"


def test_only_the_key_that_hangs_makes_its_queue_hang(hold):
    held = pulled(hold(by_key=True), "a", "b")
    held.owned.take(1, now())
    held.owned.take(1, now())
    assert report_of(held, [(held.queue, "b")], now() + 2).why == "HANDLING"
    assert report_of(held, [(held.queue, "a")], now() + 2).why == "HUNG"


def test_a_queue_that_is_given_up_says_so(hold):
    held = pulled(hold(), None)
    fail(held, now())
    held.owned.drop(Drop.LOST)
    assert report_of(held).why == "LOCK_LOST"


def test_a_queue_that_is_given_up_names_the_call_it_waits_for(hold):
    held = pulled(hold(by_key=True, max_runs=9), "a", "b", "c")
    fail(held, now())
    begun = now()
    held.owned.take(1, begun)  # "b"
    held.owned.take(1, begun + 1)  # "c"
    held.owned.drop(Drop.REVOKED)
    report = report_of(held, at=begun + 9)
    assert (report.why, report.key, report.offset, report.attempts) == ("LEAVING", "b", 1, 1)
    assert report.seconds == pytest.approx(9, abs=0.5)
    assert (report.failing_for, report.fingerprint) == (None, None), "that is of another key"
    assert report_of(held, [(held.queue, "b")], begun + 9).why == "HUNG"
    assert report_of(held, [(held.queue, "c")], begun + 9).why == "LEAVING"


def test_a_queue_that_is_given_up_while_its_call_merely_ends_has_no_report(hold):
    held = pulled(hold(), None)
    begun = now()
    held.owned.take(1, begun)
    held.owned.drop(Drop.REVOKED)
    assert report_of(held, at=begun + 0.5) is None
    assert report_of(held, at=begun + 2).why == "LEAVING"


def test_parked_keys_are_reported(hold):
    held = hold(by_key=True)
    held.owned.parking.note("a", 5, 40, 100)
    assert report_of(held).parked == 1


def test_the_running_info_carries_them(hold, session):
    session.client.config = ClientConfig(namesrv="host:9876")
    session.config = ConsumerConfig()
    held = pulled(hold(), None, None)
    fail(held, now())
    (report,) = queue_reports(ConsumerInspector(session).running_info(stack=False)).values()
    assert (report.why, report.reason) == ("SUSPENDED", HOW.text)


# --- a queue that waits at its span's end is one warning, which names who holds it ----------------


SPAN = 4


@pytest.fixture
def ends(session):
    return SpanEnds(session)


@pytest.fixture
def queue(hold):
    held = hold(by_key=True, max_runs=9, max_span=SPAN)
    held.owned.pull_gate(now())
    return held.owned


def pull(queue, numbers):
    """Key "stuck" holds offset 0, and is in work; the others are finished."""
    messages = [message(n, key="tenant") for n in numbers]
    keys = ["stuck" if n % 100 == 0 else "a" for n in numbers]
    queue.pulled(messages, numbers[-1] + 1, 999, keys)
    stuck = queue.take(1, now())
    queue.finish(queue.take(99, now()), Disposition.COMMIT, now())
    queue.pull_gate(now())
    return stuck


def test_it_is_logged_once_and_names_the_key_and_offset_that_hold_it(ends, queue, events):
    pull(queue, range(4))
    ends.log_new()
    assert events == [], "just as far as it may be"
    queue.pulled([message(4)], 5, 999, ["a"])
    for _ in range(3):
        ends.log_new()
    (warning,) = events
    assert (warning["key"], warning["offset"], warning["span"]) == ("stuck", 0, 5)
    assert (warning["log_level"], warning["why"]) == ("warning", "HANDLING")


def test_it_is_logged_again_only_after_it_was_pulled_again(ends, queue, events):
    stuck = pull(queue, range(6))
    queue.pull_gate(now())
    ends.log_new()
    queue.finish(stuck, Disposition.COMMIT, now())
    assert queue.wants_pull
    ends.log_new()
    queue.pull_gate(now())
    ends.log_new()
    pull(queue, range(100, 110))
    ends.log_new()
    assert [warning["offset"] for warning in events] == [0, 100]


def test_of_a_queue_that_is_given_up_nobody_is_warned(ends, queue, events):
    pull(queue, range(6))
    queue.drop(Drop.REVOKED)
    ends.log_new()
    assert events == []


# --- what pulls have shown ------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch, session):
    """A clock of the test, and a process that runs all the time."""
    clock = HandClock(now())
    monkeypatch.setattr(introspection, "now", lambda: clock.at)
    monkeypatch.setattr(session.client, "awake", clock)

    def run(seconds):
        for _ in range(seconds):
            clock.at += 1
            clock.look()

    clock.run = run
    return clock


def health_of(session):
    health = ConsumerInspector(session).health("running")
    return health.ready, health.reasons


def pulls(held, clock, error=None):
    held.owned.lease.renew(clock.at)
    held.owned.pull_gate(clock.at)
    if error is None:
        held.owned.pulled([], 0)
    else:
        held.owned.pull_failed(error)


def test_a_queue_is_ready_once_a_pull_has_succeeded(hold, session, clock):
    session.outlook = {"orders": OUTLOOK}
    held = hold()
    assert health_of(session) == (False, (f"{held.queue}: no pull of it has succeeded yet",))
    pulls(held, clock, "you may not")
    assert health_of(session) == (
        False,
        (f"{held.queue}: no pull of it has succeeded yet: you may not",),
    )
    pulls(held, clock)
    assert health_of(session) == (True, ())


def test_an_idle_queue_whose_long_polls_are_answered_stays_ready(hold, session, clock):
    session.outlook = {"orders": OUTLOOK}
    held = hold()
    for _ in range(20):
        pulls(held, clock)
        held.owned.pull_gate(clock.at)
        clock.run(20)
        held.owned.lease.renew(clock.at)
        assert health_of(session) == (True, ())


def test_pulls_that_fail_for_less_than_their_usual_time_are_nothing(hold, session, clock):
    """As while a broker is restarted."""
    session.outlook = {"orders": OUTLOOK}
    held = hold()
    pulls(held, clock)
    for _ in range(9):
        pulls(held, clock, "connection refused")
        clock.run(3)
        assert health_of(session) == (True, ())
    pulls(held, clock)
    assert health_of(session) == (True, ())


def test_pulls_that_go_on_failing_are_a_reason_until_one_succeeds(hold, session, clock):
    session.outlook = {"orders": OUTLOOK}
    held = hold()
    pulls(held, clock)
    for _ in range(10):
        pulls(held, clock, "you may not")
        clock.run(3)
    pulls(held, clock, "you may not")
    reason = f"{held.queue}: no pull of it has succeeded for 30 s: you may not"
    assert health_of(session) == (False, (reason,))
    pulls(held, clock)
    assert health_of(session) == (True, ())


def test_a_pull_without_an_answer_is_a_reason(hold, session, clock):
    session.outlook = {"orders": OUTLOOK}
    held = hold()
    pulls(held, clock)
    held.owned.pull_gate(clock.at)
    clock.run(30)
    held.owned.lease.renew(clock.at)
    reason = f"{held.queue}: no pull of it has succeeded for 30 s"
    assert health_of(session) == (False, (reason,))


def test_a_process_that_stood_still_has_missed_no_pull(hold, session, clock):
    """Its answers may be waiting in the sockets."""
    session.outlook = {"orders": OUTLOOK}
    held = hold()
    held.owned.lease = Lease(clock.at, 10_000.0)
    pulls(held, clock)
    held.owned.pull_gate(clock.at)
    clock.run(10)
    clock.at += 1000
    assert health_of(session) == (True, ())
    clock.look()
    assert health_of(session) == (True, ())
    clock.run(25)
    assert not health_of(session)[0]


@pytest.mark.parametrize(
    ("trouble", "why", "reason"),
    [
        ({"pull": "you may not"}, "PULL_FAILS", "you may not"),
        ({"too_large": "too large by far"}, "TOO_LARGE", "too large by far"),
        ({"no_key": "KeyError: 'order-1001 of Mr. X'"}, "NO_KEY", "KeyError"),
    ],
)
def test_the_monitor_is_told_why_nothing_is_pulled(trouble, why, reason, hold):
    held = hold()
    begun = now()
    held.owned.pull_gate(begun)
    if "pull" in trouble:
        held.owned.pull_failed(trouble["pull"])
    else:
        held.owned.pulled([], 0)
        for name, text in trouble.items():
            setattr(held.owned, name, text)
    report = report_of(held, at=begun + 7)
    assert (report.why, report.reason) == (why, reason)
    assert report.seconds == (7 if why == "PULL_FAILS" else None)


def test_mqadmin_is_told_milliseconds_and_messages_a_second(insight, session):
    """Each figure under its own name: its table has no units."""
    for _ in range(2):
        session.statistics.pulled("orders", 100, 0.25, now())
        session.statistics.consumed("orders", 80, 1.5, ReturnType.SUCCESS, now(), ok=True)
        session.statistics.consumed("orders", 20, 0.5, ReturnType.FAILED, now(), ok=False)
    told = insight.running_info(stack=False).topics["orders"]
    assert (told.pull_rt, told.consume_rt) == (250.0, 1000.0)
    rates = (told.pull_tps, told.consume_ok_tps, told.consume_failed_tps)
    assert [rate / told.consume_failed_tps for rate in rates] == pytest.approx([5, 4, 1])
    assert told.consume_failed_messages == 40
    started = insight.running_info(stack=False).properties["PROP_CONSUMER_START_TIMESTAMP"]
    assert abs(int(started) / 1000 - time.time()) < 3600
