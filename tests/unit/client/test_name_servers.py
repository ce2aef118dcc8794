import json
from contextlib import suppress

import pytest

from orderly.errors import (
    BrokerError,
    ConnectFailed,
    NameServerUnavailable,
    ProtocolError,
    TopicNotFound,
)
from orderly.model import MessageQueue
from orderly.protocol.codes import PROTOCOL_VERSION, RequestCode

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
TOPICS = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
DEAD = "127.0.0.1:1"
QUEUE = MessageQueue("orders", "broker-a", 0)


def topics(*names):
    return json.dumps({"topicList": names}).encode()


@pytest.fixture
def three(new_server, new_client):
    """Three name servers, each telling of another topic, and a client of them."""
    servers = [new_server() for _ in range(3)]
    for number, server in enumerate(servers):
        server.on(TOPICS, body=topics(f"topic-{number}"))
    client = new_client(";".join(s.address for s in servers))
    return servers, client.name_servers


def test_a_route_is_asked_for_in_standard_json(client, broker, name_server):
    route = client.name_servers.route("orders")
    assert [q.queue_id for q in route.read_queues()] == [0, 1, 2, 3]
    assert route.broker("broker-a").master == broker.address
    (asked,) = name_server.requests(ROUTE)
    assert asked.ext["topic"] == "orders"
    assert asked.version == PROTOCOL_VERSION >= 401


def test_the_first_one_that_answers_is_kept(three):
    servers, name_servers = three
    assert [name_servers.topics() for _ in range(3)] == [("topic-0",)] * 3
    assert [len(s.requests(TOPICS)) for s in servers] == [3, 0, 0]


def test_a_dead_first_one_is_passed_over_and_not_asked_again(new_server, new_client):
    server = new_server()
    server.on(TOPICS, body=topics("t"))
    name_servers = new_client(f"{DEAD};{server.address}").name_servers
    assert name_servers.topics() == ("t",)
    assert name_servers._current == 1
    assert name_servers.topics() == ("t",)


def test_the_next_one_is_asked_when_the_kept_one_falls_silent_and_is_kept_then(three):
    servers, name_servers = three
    name_servers.topics()
    servers[0].on(TOPICS, lambda _: None)
    assert name_servers.topics() == ("topic-1",)
    servers[0].on(TOPICS, body=topics("topic-0"))
    assert name_servers.topics() == ("topic-1",)
    assert len(servers[2].received) == 0


def test_the_search_goes_round(three):
    servers, name_servers = three
    name_servers._current = 2
    servers[2].close()
    assert name_servers.topics() == ("topic-0",)


def test_none_answers(new_client):
    name_servers = new_client(f"{DEAD};127.0.0.1:2").name_servers
    with pytest.raises(NameServerUnavailable, match=r"127\.0\.0\.1:1, 127\.0\.0\.1:2") as raised:
        name_servers.topics()
    assert "nothing listens" in str(raised.value)
    assert raised.value.__cause__ is not None
    assert raised.value.retriable


def test_a_topic_is_unknown_only_when_all_that_answer_say_so(new_server, new_client, cluster):
    young, old = new_server(), new_server()
    young.on(ROUTE, code=17)
    old.on(ROUTE, cluster.answer_route)
    cluster.add("orders", **{"broker-a": {0: "1.2.3.4:5"}})
    name_servers = new_client(f"{young.address};{old.address};{DEAD}").name_servers
    assert name_servers.route("orders").topic == "orders"
    with pytest.raises(TopicNotFound, match="'nosuch'"):
        name_servers.route("nosuch")


def test_one_that_is_not_ready_is_passed_over(new_server, new_client):
    booting, ready = new_server(), new_server()
    booting.on(TOPICS, code=1, remark="name server not ready")
    ready.on(TOPICS, body=topics("t"))
    assert new_client(f"{booting.address};{ready.address}").name_servers.topics() == ("t",)


def test_a_refusal_by_all_is_raised_as_it_is(new_server, new_client):
    server = new_server()
    server.on(TOPICS, code=1, remark="no")
    with pytest.raises(BrokerError, match="all topics"):
        new_client(server.address).name_servers.topics()


def test_an_answer_that_cannot_be_read(new_server, new_client):
    server = new_server()
    server.on(TOPICS, body=b"oops")
    with pytest.raises(ProtocolError):
        new_client(server.address).name_servers.topics()


def test_the_cluster(client, broker):
    info = client.name_servers.cluster()
    assert info.brokers["broker-a"].master == broker.address
    assert info.clusters == {"C": ("broker-a",)}


KEYS = {"access_key": "app", "secret_key": "secret12345"}
REACHED = {
    "a heartbeat": lambda client: client.heartbeat.heartbeat_now(),
    "a question about a queue": lambda client: client.brokers.max_offset(QUEUE),
    "administration": lambda client: client.admin.groups(),
}


@pytest.mark.parametrize("ask", REACHED.values(), ids=REACHED)
def test_no_request_follows_a_name_server_to_a_host_that_is_not_allowed(
    new_client, name_server, cluster, new_broker, ask, caplog
):
    """It may lie, or somebody else may answer for it: keys and messages stay here."""
    stranger = new_broker()
    address = stranger.address.replace("127.0.0.1", "localhost")
    cluster.add("orders", **{"broker-a": {0: address}})
    client = new_client(broker_hosts="127.0.0.0/8;*.mq.example.com", **KEYS)
    client.heartbeat.register_producer("p")
    client.routes.get("orders")
    try:
        ask(client)
        said = caplog.text  # a heartbeat that fails is logged
    except ConnectFailed as error:
        said = str(error)
    assert "broker_hosts (ORDERLY_BROKER_HOSTS)" in said
    assert stranger.accepted == 0
    allowed = new_client(broker_hosts="localhost", **KEYS)
    allowed.heartbeat.register_producer("p")
    allowed.routes.get("orders")
    with suppress(BrokerError):  # it answers nothing but heartbeats
        ask(allowed)
    assert stranger.accepted == 1
    assert "Signature" in stranger.received[0][1].ext
    assert all("Signature" not in command.ext for _, command in name_server.received)
