"""What a consumer says of itself: each queue's reason, its health, its running info."""

import time
from types import SimpleNamespace

import pytest

from orderly.config import ClientConfig, ConsumerConfig
from orderly.consumer.introspection import ConsumerInspector, held_queues
from orderly.consumer.session import now
from orderly.ordering import owned_queue
from orderly.ordering.explain import Why
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Disposition
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import message


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
    monkeypatch.setattr(owned_queue, "MAX_KEYS", 2)
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
    assert "nothing more is pulled: 2 of 3 keys wait" in reason
    owned.finish(owned.take(1, now()), Disposition.COMMIT, now())
    owned.pull_gate(now())
    assert not owned.full_of_waiting
