"""What a consumer says of itself: each queue's reason, its health, its running info."""

import time
from types import SimpleNamespace

import pytest

from orderly.config import ClientConfig, ConsumerConfig
from orderly.consumer.session import Outlook, now
from orderly.consumer.telling.insight import Insight, held_queues
from orderly.ordering import window
from orderly.ordering.drop import Drop
from orderly.ordering.explain import Why
from orderly.ordering.explain_keys import KeyWhy
from orderly.ordering.results import Disposition
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import message

OTHER = "other@2"


@pytest.fixture
def insight(session):
    return Insight(session)


@pytest.fixture
def queues(cluster):
    return cluster.route("orders").read_queues()


def start_handler(session):
    held = session.held()[0]
    held.owned.pull_gate(now())
    held.owned.pulled([message(0, queue=held.queue)], 1)
    held.owned.take(1, now())
    return held


def reasons(insight):
    return [explanation.why for explanation in insight.explain()]


def test_before_the_first_round_nothing_is_known(insight):
    assert insight.explain() == ()
    health = insight.health("running")
    assert (health.live, health.ready) == (True, False)
    assert health.reasons == ("topic orders: no rebalance round has succeeded yet",)


def test_every_queue_of_the_topic_has_its_line(insight, rebalancer, cluster, queues):
    cluster.members = ["me@1", OTHER]
    cluster.locks[queues[1]] = OTHER
    rebalancer.round()
    assert [e.queue for e in insight.explain()] == list(queues)
    assert reasons(insight) == [Why.NOT_PULLING, Why.NOT_LOCKED, Why.NOT_OWNED, Why.NOT_OWNED]
    health = insight.health("running")
    assert not health.ready
    assert [q.queue for q in health.queues] == [queues[0]]
    assert health.reasons == (f"{queues[1]}: {Why.NOT_LOCKED}",)


def test_a_member_without_a_share_is_ready(insight, rebalancer, cluster):
    cluster.members = ["a@1", "b@1", "c@1", "d@1", "me@1"]
    rebalancer.round()
    assert insight.health("running").ready


def test_the_retry_topic_is_nobodys_business(insight, rebalancer, session):
    session.subscriptions |= {"%RETRY%group": Subscription("%RETRY%group")}
    rebalancer.round()
    assert {e.queue.topic for e in insight.explain()} == {"orders"}
    assert {queue.topic for queue in held_queues(session)} == {"orders"}
    assert {held.queue.topic for held in session.held()} == {"orders", "%RETRY%group"}
    del session.outlook["%RETRY%group"]
    assert insight.health("running").ready


def test_what_is_being_given_up_is_explained_but_not_assigned(insight, rebalancer, session):
    rebalancer.round()
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
    assert health.reasons[0].startswith(f"{held.queue}: a handler has been running for 900 s")


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


@pytest.mark.parametrize(
    ("reason", "why"), [(None, Why.HUNG), (Drop.REVOKED, Why.LEAVING), (Drop.LOST, Why.LOCK_LOST)]
)
def test_a_handler_that_hangs_makes_it_dead_also_on_its_way_out(reason, why, rebalancer, session):
    session.config = ConsumerConfig(handler_timeout=5)
    rebalancer.round()
    held = start_handler(session)
    insight = Insight(session, calls=Running(held))
    if reason:
        held.owned.drop(reason)
    assert reasons(insight) == [why, *[Why.NOT_PULLING] * 3]
    health = insight.health("running")
    assert not health.live
    said = f"{held.queue}: a handler has been running for 7 s (handler_timeout is 5 s)"
    assert health.reasons[0] == said
    assert reason or health.queues[0].why == "HUNG"


def test_without_a_limit_nothing_hangs(rebalancer, session):
    rebalancer.round()
    held = start_handler(session)
    insight = Insight(session, calls=Running(held))
    assert reasons(insight)[0] is Why.HANDLING
    assert insight.health("running").live


def test_a_key_whose_handler_hangs_says_so(hold, session):
    session.config = ConsumerConfig(order="key", handler_timeout=5)
    held = hold(by_key=True)
    held.owned.pull_gate(now())
    held.owned.pulled([message(0), message(1)], 2, None, [None, "b"])
    insight = Insight(session, calls=Running(held))
    assert [e.why for e in insight.explain_keys(9)] == [KeyWhy.WAITING] * 2, "it ended just now"
    held.owned.take(1, now())
    assert [e.why for e in insight.explain_keys(9)] == [KeyWhy.HUNG, KeyWhy.WAITING]


@pytest.mark.parametrize(
    ("state", "live"), [("created", True), ("failed", False), ("closed", False)]
)
def test_who_does_not_run_is_not_ready(state, live, insight, rebalancer):
    rebalancer.round()
    health = insight.health(state)
    assert (health.live, health.ready) == (live, False)
    assert health.reasons == (f"the consumer is {state}",)
    assert health.queues == ()


def test_an_outlook_of_a_queue_that_is_held_says_what_it_does(insight, rebalancer, session, queues):
    rebalancer.round()
    session.outlook = {"orders": Outlook(queues, frozenset())}
    assert Why.NOT_OWNED not in reasons(insight)


def test_members_that_keep_order_in_another_way_are_a_reason_not_to_be_ready(session, rebalancer):
    company = SimpleNamespace(mixed=())
    insight = Insight(session, company)
    rebalancer.round()
    assert insight.health("running").ready
    company.mixed = ("java@2 (JAVA)",)
    health = insight.health("running")
    assert (health.live, health.ready) == (True, False)
    assert health.reasons == ("the group mixes order by key and by queue: java@2 (JAVA)",)


@pytest.mark.parametrize("allowed", [False, True])
def test_the_running_info_tells_each_queue(allowed, insight, rebalancer, session, queues):
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
    assert abs(queue.last_consume_time - time.time()) < 5
    assert ("test_insight" in info.jstack) is allowed
    assert insight.running_info(False).jstack == ""


def test_a_queue_whose_key_function_fails_is_not_ready(insight, rebalancer, session):
    rebalancer.round()
    assert insight.health("running").ready
    held = start_handler(session)
    held.owned.no_key = "ValueError: no such account"
    health = insight.health("running")
    assert (health.live, health.ready) == (True, False)
    assert health.reasons[0].endswith("failed at offset 1: ValueError: no such account")


def test_a_queue_full_of_keys_that_wait_is_not_ready(hold, session, monkeypatch):
    monkeypatch.setattr(window, "MAX_KEYS", 2)
    held = hold(by_key=True, max_runs=9)
    owned = held.owned
    owned.pull_gate(now())
    owned.pulled([message(n) for n in range(3)], 3, 9, list("abc"))
    waiting = owned.take(1, now())
    owned.pull_gate(now())
    assert not owned.full_of_waiting, "they go on"
    for batch in (waiting, owned.take(1, now())):
        owned.finish(batch, Disposition.PUT_BACK, now(), wait=60.0)
    insight = Insight(session)
    health = insight.health("running")
    assert (health.live, health.ready) == (True, False)
    (reason,) = [r for r in health.reasons if str(held.queue) in r]
    assert "nothing more is pulled: 2 of 3 keys wait" in reason
    owned.finish(owned.take(1, now()), Disposition.COMMIT, now())
    owned.pull_gate(now())
    assert not owned.full_of_waiting


def test_a_message_that_expires_is_a_reason_beside_being_ready(insight, rebalancer, session):
    rebalancer.round()
    held = start_handler(session)
    today = time.time()
    age = today - held.owned.messages.head.store_time
    held.owned.look_at_ages(now(), today, age * 1.5, act=False)
    health = insight.health("running")
    assert (health.live, health.ready) == (True, True)
    (reason,) = health.reasons
    assert "at 0, waits since long; the broker may delete it in" in reason


def test_parked_keys_are_told_by_queue(insight, rebalancer, session):
    rebalancer.round()
    held = session.held()[1]
    held.owned.parking.note("a", 5, 40, 100)
    assert [key.key for key in insight.parked()[held.queue]] == ["a"]
    assert list(insight.parked()) == [held.queue]
    (told,) = [e for e in insight.explain() if e.queue == held.queue]
    assert told.keys_parked == 1
    assert "1 keys parked" in str(told)
    healths = insight.health("running").queues
    assert [q.parked_keys for q in healths if q.queue == held.queue] == [1]
