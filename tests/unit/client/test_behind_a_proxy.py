"""A client whose name server is a proxy in cluster mode; the fake's answers as the real one's."""

import time

import pytest
from structlog.testing import CapturingLogger

from orderly import ConsumerConfig
from orderly.client.broker import PullQuery
from orderly.client.dialogues import performer
from orderly.client.pipeline import Pipeline
from orderly.client.preflight import BehindProxy, check_start
from orderly.client.state_topics import StateTopics
from orderly.errors import (
    BrokerError,
    BrokerUnavailable,
    ConfigError,
    NotAtProxy,
    RequestTimeout,
    TopicNotFound,
)
from orderly.model import MessageQueue
from orderly.monitoring.collecting.questions import topic_stats
from orderly.ordering.broker_calls import SaveOffset
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.heartbeat import Subscription
from orderly.testing import Fail, FakeBroker, Fault
from tests.support.topics import make_state_topics
from tests.support.waiting import eventually, patient_client

BROKERS = ("broker-a", "broker-b")
QUEUE = MessageQueue("orders", "broker-b", 1)
SUBSCRIPTION = Subscription.from_expression("orders", "*", 1)


@pytest.fixture
def fake():
    with FakeBroker(brokers=BROKERS) as fake:
        fake.create_topic("orders", queues=4)
        yield fake


@pytest.fixture
def operator(fake):
    with patient_client(fake.namesrv) as client:
        yield client


@pytest.fixture
def client(fake):
    with patient_client(fake.proxy) as client:
        yield client


def join(client, group="g"):
    client.heartbeat.register_consumer(
        group, subscriptions=lambda: (SUBSCRIPTION,), on_members_changed=lambda: None
    )
    client.heartbeat.heartbeat_now()


def test_it_is_known_from_the_first_route_found_or_not(client, operator):
    assert not client.behind_proxy
    with pytest.raises(TopicNotFound):
        client.routes.get("nowhere")
    assert client.behind_proxy
    operator.routes.get("orders")
    assert not operator.behind_proxy


def test_every_brokers_address_is_the_proxys_and_each_is_asked_by_name(client, operator, fake):
    assert client.routes.broker_addresses() == ()
    client.routes.get("orders")
    assert client.routes.broker_addresses() == (fake.proxy,)
    for number, broker in enumerate(BROKERS):
        queue = MessageQueue("orders", broker, 1)
        client.brokers.pull_now(_pull(queue))  # which makes the group
        client.brokers.update_offset("g", queue, number)
        assert operator.brokers.query_offset("g", queue) == number


def _pull(queue):
    return PullQuery("g", queue, 0, 1, SUBSCRIPTION, 0.0)


def test_locks_are_the_brokers_by_client_id(client, operator):
    mine = {MessageQueue("orders", "broker-b", number) for number in (0, 1)}
    assert client.brokers.lock_queues("g", "broker-b", mine) == mine
    assert not operator.brokers.lock_queues("g", "broker-b", mine)
    client.brokers.unlock_queues("g", "broker-b", [QUEUE])
    assert operator.brokers.lock_queues("g", "broker-b", mine) == {QUEUE}
    assert client.brokers.lock_queues("g", "broker-a", {QUEUE}) == frozenset(), "of the other one"


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.admin.topics(),
        lambda c: c.admin.cluster(),
        lambda c: c.admin.create_topic("new", 4),
        lambda c: c.admin.consumer_connections("g"),
        lambda c: c.housekeeping.delete_topic("orders"),
        lambda c: c.admin.topic_stats("orders"),
        lambda c: c.admin.topic_config("orders", c.routes.get("orders").brokers[0]),
        lambda c: c.groups.running_info("g", "nobody@1"),
    ],
)
def test_what_only_brokers_answer_is_refused_with_the_way_out(client, fake, ask):
    with pytest.raises(NotAtProxy, match=f"{fake.proxy}.*is a proxy.*name the cluster's name serv"):
        ask(client)


def test_so_are_many_questions_at_once(client, fake):
    client.routes.get("orders")
    asked = [topic_stats("orders")]
    (answer,) = Pipeline(client.connections).ask(fake.proxy, asked, time.monotonic() + 10)
    assert isinstance(answer, NotAtProxy)


def test_a_broker_that_is_named_in_its_place_is_none(fake):
    with patient_client(fake.broker_address) as client, pytest.raises(BrokerError) as refused:
        client.admin.topics()
    assert not isinstance(refused.value, NotAtProxy)


def test_members_are_the_proxys(client, operator):
    join(client)
    found = client.admin.consumer_connections("g")
    assert [member.client_id for member in found.connections] == [client.client_id]
    assert client.brokers.consumer_ids("g", "orders") == (client.client_id,)
    assert operator.admin.consumer_connections("g") is None


def test_who_has_moved_to_another_proxy_leaves_the_former(client, fake):
    """Or it would be listed twice there, for as long as it leaves the connection open."""
    join(client)
    with patient_client(fake.proxy) as onlooker:
        onlooker.routes.get("orders")
        assert onlooker.brokers.consumer_ids("g", "orders") == (client.client_id,)
        client.routes.forget("orders")  # as if all routes led elsewhere now
        client.heartbeat._learn_routes = lambda _: None
        client.heartbeat.heartbeat_now()
        assert onlooker.brokers.consumer_ids("g", "orders") == ()


def test_a_proxy_that_finds_no_such_broker_says_nothing_of_the_topic(client, fake):
    client.routes.get("orders")
    remark = "CODE: 17  DESC: No topic route info in name server for the topic: broker-b"
    fault = Fault(RequestCode.SEND_MESSAGE_V2, Fail(ResponseCode.TOPIC_NOT_EXIST, remark))
    fake.script(fault, Fault(RequestCode.QUERY_CONSUMER_OFFSET, fault.action))
    with pytest.raises(BrokerUnavailable, match="finds no such broker"):
        client.brokers.query_offset("g", QUEUE)


def test_a_broker_that_is_away_does_not_answer(fake):
    """A real proxy answers, under a number of its own."""
    with patient_client(fake.proxy) as client:
        client.routes.get("orders")
        fake.kill_broker("broker-b")
        with pytest.raises(RequestTimeout):
            client.brokers.lock_queues("g", "broker-b", [QUEUE], timeout=0.2)
        fake.restart_broker("broker-b")
        assert client.brokers.lock_queues("g", "broker-b", [QUEUE]) == {QUEUE}


def test_a_broker_learns_of_a_group_with_its_first_commit(client, operator):
    """A heartbeat that a proxy takes makes the group at one broker at most."""
    perform = performer("g", client.brokers)
    perform(SaveOffset(QUEUE, 0))
    assert operator.brokers.query_offset("g", QUEUE) == 0


# --- a start --------------------------------------------------------------------------------------


def test_a_start_says_once_what_it_could_not_check(client):
    found = list(check_start(client, "g", [SUBSCRIPTION], ConsumerConfig()))
    assert found == [BehindProxy()]


def test_a_topic_that_was_made_a_moment_ago_is_asked_for_twice(client, fake, monkeypatch):
    """A proxy answers with what it knew, and looks then."""
    monkeypatch.setattr("orderly.client.routes._LOOKS_ANEW", 0.01)
    fault = Fault(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, Fail(ResponseCode.TOPIC_NOT_EXIST, "as it was"), times=1
    )
    with pytest.raises(TopicNotFound):
        client.routes.get("nowhere")
    fake.script(fault)
    assert client.routes.get_anew("orders").read_queues()


@pytest.mark.parametrize("group", ["shipping"])
def test_order_by_key_names_both_topics_and_the_command(client, operator, group):
    names = [kind(group, "orders") for kind in (state_topic, park_topic)]
    topics = StateTopics(client, group, create=True, log=CapturingLogger())
    with pytest.raises(ConfigError) as refused:
        topics.ensure("orders")
    for text in (*names, f"orderly topic create orders --for-group {group}"):
        assert text in str(refused.value)
    wanted = client.routes.get("orders").read_queues()
    assert topics.ready(wanted) == ()
    assert f"--for-group {group}" in str(topics.fault(QUEUE)), "as explain() says"
    make_state_topics(operator, group, "orders")
    topics.ensure("orders")
    assert topics.ready(wanted) == wanted


def test_a_source_topic_that_grew_is_served_as_far_as_its_state_goes(client, operator, fake):
    make_state_topics(operator, "g", "orders")
    fake.create_topic("orders", queues=6)
    log = CapturingLogger()
    topics = StateTopics(client, "g", create=True, log=log)
    wanted = client.routes.get("orders").read_queues()
    ready = topics.ready(wanted)
    assert {queue.queue_id for queue in ready} == set(range(4))
    operator.routes.refresh("orders")
    make_state_topics(operator, "g", "orders")
    eventually(lambda: topics.ready(wanted) == wanted)
