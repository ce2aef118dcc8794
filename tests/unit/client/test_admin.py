import json

import pytest

from orderly.errors import BrokerError, ConfigError, RemotingError, RouteError, TopicNotFound
from orderly.model import MessageQueue
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.frame import reply_to
from orderly.protocol.topics import (
    MessageType,
    TopicConfig,
    encode_topic_config,
    encode_topic_configs,
)

GET = RequestCode.GET_TOPIC_CONFIG
CREATE = RequestCode.UPDATE_AND_CREATE_TOPIC


@pytest.fixture
def two(new_broker, cluster):
    """Two masters of one cluster, both with topic "orders"."""
    brokers = [new_broker(), new_broker()]
    layout = {f"broker-{n}": {0: b.address} for n, b in zip("ab", brokers, strict=True)}
    cluster.add("orders", **layout)
    return brokers


def has(broker, topic="orders", queues=4, message_type=""):
    """Let a broker say that it has the topic; None: that it has not."""
    if queues is None:
        broker.on(GET, code=ResponseCode.TOPIC_NOT_EXIST)
        return
    config = TopicConfig(
        name=topic, read_queues=queues, write_queues=queues,
        attributes={"message.type": message_type} if message_type else {},
    )  # fmt: skip
    broker.on(GET, body=encode_topic_config(config))


def created(*brokers):
    return [len(broker.requests(CREATE)) for broker in brokers]


def test_a_topic_is_created_on_every_master(client, two):
    for broker in two:
        broker.on(CREATE)
    assert client.admin.create_topic("fresh", 4) is True
    for broker in two:
        (asked,) = broker.requests(CREATE)
        assert asked.ext["topic"] == "fresh"
        assert (asked.ext["readQueueNums"], asked.ext["writeQueueNums"]) == ("4", "4")
        assert (asked.ext["order"], asked.ext["perm"]) == ("true", "6")
        assert "attributes" not in asked.ext


def test_a_topic_may_be_created_on_one_broker_and_typed(client, two):
    two[1].on(CREATE)
    client.admin.create_topic(
        "fresh", 1, broker="broker-b", order=False, message_type=MessageType.FIFO
    )
    (asked,) = two[1].requests(CREATE)
    assert asked.ext["attributes"] == "+message.type=FIFO"
    assert asked.ext["order"] == "false"
    assert two[0].received == []


def test_a_created_topics_old_route_is_not_trusted_any_more(client, two, cluster):
    for broker in two:
        broker.on(CREATE)
        has(broker, queues=None)
    client.routes.get("orders")
    del cluster.topics["orders"]  # deleted, and the client does not know
    cluster.add("others", **{"broker-a": {0: two[0].address}, "broker-b": {0: two[1].address}})
    assert client.admin.create_topic("orders", 16) is True
    assert client.routes.cached("orders") is None


def test_a_topic_that_exists_as_wanted_is_left_alone(client, two):
    for broker in two:
        has(broker)
    assert client.admin.create_topic("orders", 4) is False
    assert client.admin.create_topic("orders", 4, broker="broker-b") is False
    assert created(*two) == [0, 0]


@pytest.mark.parametrize("queues", [4, 7], ids=["as it was", "with other queues"])
def test_a_topic_that_only_a_name_server_still_knows_is_created(client, two, queues):
    """It was deleted at the brokers: the name server keeps its route."""
    for broker in two:
        broker.on(CREATE)
        has(broker, queues=None)
    assert client.admin.create_topic("orders", queues) is True
    assert created(*two) == [1, 1]


def test_of_a_broker_that_is_away_the_route_tells_once_another_one_has_the_topic(client, two):
    has(two[0])
    two[1].close()
    assert client.admin.create_topic("orders", 4) is False
    with pytest.raises(RemotingError):
        client.admin.create_topic("orders", 4, message_type=MessageType.FIFO)
    has(two[0], queues=None)
    with pytest.raises(RemotingError):
        client.admin.create_topic("orders", 4)
    assert created(*two) == [0, 0]


def test_a_topic_that_one_broker_lost_is_not_made_there_by_the_way(client, two):
    """Its keys lie where the other broker's queues are: more queues would move them."""
    has(two[0])
    has(two[1], queues=None)
    with pytest.raises(ConfigError, match="queues broker-a: 4; wanted: broker-a: 4, broker-b: 4"):
        client.admin.create_topic("orders", 4)
    with pytest.raises(ConfigError, match="queues broker-a: 4; wanted: broker-b: 4"):
        client.admin.create_topic("orders", 4, broker="broker-b")
    assert created(*two) == [0, 0]


def test_a_topic_that_exists_is_of_the_wanted_type_or_refused(client, two):
    for broker in two:
        has(broker, message_type="DELAY")
    assert client.admin.create_topic("orders", 4, message_type=MessageType.DELAY) is False
    with pytest.raises(ConfigError, match="with type DELAY on broker broker-a; wanted: FIFO"):
        client.admin.create_topic("orders", 4, message_type=MessageType.FIFO)


@pytest.mark.parametrize("queues", [1, 3, 5, 16])
def test_a_topic_is_neither_grown_nor_shrunk(client, two, queues):
    for broker in two:
        has(broker)
    with pytest.raises(ConfigError, match="orderly topic grow orders") as raised:
        client.admin.create_topic("orders", queues)
    assert "broker-a: 4, broker-b: 4" in str(raised.value)
    assert f"broker-a: {queues}, broker-b: {queues}" in str(raised.value)
    assert created(*two) == [0, 0]


def test_a_topic_does_not_spread_to_a_further_broker(client, two, cluster):
    cluster.add("narrow", **{"broker-a": {0: two[0].address}})
    has(two[0], "narrow")
    has(two[1], queues=None)
    with pytest.raises(ConfigError, match="broker-a: 4; wanted: broker-a: 4, broker-b: 4"):
        client.admin.create_topic("narrow", 4)
    assert created(*two) == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("bad topic",), {}),
        (("",), {}),
        (("x" * 128,), {}),
        (("t", 0), {}),
        (("t", 1), {"cluster": "nosuch"}),
        (("t", 1), {"broker": "nosuch"}),
    ],
)
def test_what_cannot_be_created_is_refused_before_a_broker_is_asked(
    client, two, arguments, options
):
    with pytest.raises(ConfigError):
        client.admin.create_topic(*arguments, **options)
    assert two[0].received == two[1].received == []


def test_a_name_server_without_a_broker_is_named_as_the_reason(client):
    with pytest.raises(RouteError, match="no broker is registered"):
        client.admin.create_topic("fresh")


def test_with_several_clusters_one_must_be_named(client, name_server, two):
    info = {
        "brokerAddrTable": {
            "broker-a": {"brokerName": "broker-a", "brokerAddrs": {"0": two[0].address}},
            "broker-b": {"brokerName": "broker-b", "brokerAddrs": {"0": two[1].address}},
        },
        "clusterAddrTable": {"east": ["broker-a"], "west": ["broker-b"]},
    }
    name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, body=json.dumps(info).encode())
    two[1].on(CREATE)
    with pytest.raises(ConfigError, match="east, west"):
        client.admin.create_topic("fresh")
    client.admin.create_topic("fresh", cluster="west")
    assert two[0].received == []
    assert len(two[1].requests(CREATE)) == 1


def test_a_topic_grows_on_one_broker_and_keeps_what_it_is(client, two):
    config = TopicConfig(
        name="orders", read_queues=6, write_queues=2, perm=4, order=True, sys_flag=1
    )
    two[1].on(RequestCode.GET_TOPIC_CONFIG, body=encode_topic_config(config))
    two[1].on(CREATE)
    broker = client.routes.get("orders").broker("broker-b")
    present = client.admin.topic_config("orders", broker)
    assert present == config
    client.admin.grow_topic("orders", broker, 5, present)
    (asked,) = two[1].requests(CREATE)
    assert (asked.ext["readQueueNums"], asked.ext["writeQueueNums"]) == ("6", "5")
    assert (asked.ext["perm"], asked.ext["order"], asked.ext["topicSysFlag"]) == ("4", "true", "1")
    assert two[0].received == []


def test_a_topic_that_a_broker_does_not_have_is_made_there(client, two):
    two[1].on(RequestCode.GET_TOPIC_CONFIG, code=17, remark="No topic in this broker")
    two[1].on(CREATE)
    broker = client.routes.get("orders").broker("broker-b")
    assert client.admin.topic_config("state", broker) is None
    client.admin.grow_topic("state", broker, 5, None)
    (asked,) = two[1].requests(CREATE)
    assert (asked.ext["readQueueNums"], asked.ext["writeQueueNums"]) == ("5", "5")
    assert (asked.ext["perm"], asked.ext["order"]) == ("6", "false")


# --- merged answers ----------------------------------------------------------------------------


def table(broker_name, offsets):
    """What a broker writes: whole queues as keys."""
    rows = ",".join(
        f'{{"brokerName":"{broker_name}","queueId":{queue_id},"topic":"orders"}}:{json.dumps(row)}'
        for queue_id, row in offsets.items()
    )
    return {"body": f'{{"offsetTable":{{{rows}}}}}'.encode()}


def test_a_broker_that_answers_for_all_topics_only_is_asked_for_all(client, two):
    """Before release 5.0."""
    broker = client.admin.cluster().brokers["broker-a"]
    orders = TopicConfig(name="orders", read_queues=4, write_queues=4)
    two[0].on(GET, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    two[0].on(RequestCode.GET_ALL_TOPIC_CONFIG, body=encode_topic_configs([orders], {"counter": 1}))
    assert client.admin.topic_config("orders", broker) == orders
    assert client.admin.topic_config("other", broker) is None
    two[0].on(RequestCode.GET_ALL_TOPIC_CONFIG, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    with pytest.raises(BrokerError, match="the settings of topic 'orders'"):
        client.admin.topic_config("orders", broker)


def test_topic_stats_of_all_masters_are_merged(client, two):
    code = RequestCode.GET_TOPIC_STATS_INFO
    two[0].on(code, **table("broker-a", {0: {"minOffset": 1, "maxOffset": 5}}))
    two[1].on(code, **table("broker-b", {0: {"minOffset": 2, "maxOffset": 7}}))
    stats = client.admin.topic_stats("orders")
    assert {str(q): (o.min_offset, o.max_offset) for q, o in stats.items()} == {
        "orders/broker-a/0": (1, 5),
        "orders/broker-b/0": (2, 7),
    }


def test_consume_stats_of_all_masters_are_merged(client, two):
    code = RequestCode.GET_CONSUME_STATS
    two[0].on(code, **table("broker-a", {0: {"brokerOffset": 9, "consumerOffset": 4}}))
    two[1].on(code, **table("broker-b", {}))
    for topic in ("orders", None):
        stats = client.admin.consume_stats("g", topic)
        (pair,) = stats.values()
        assert list(stats) == [MessageQueue("orders", "broker-a", 0)]
        assert (pair.broker_offset, pair.consumer_offset) == (9, 4)
    assert two[1].requests(code)[0].ext == {"consumerGroup": "g", "topic": "orders"}
    assert two[1].requests(code)[1].ext == {"consumerGroup": "g"}


def test_a_part_is_never_passed_off_as_the_whole(client, two, cluster):
    code = RequestCode.GET_CONSUME_STATS
    two[0].on(code, **table("broker-a", {0: {"brokerOffset": 9, "consumerOffset": 4}}))
    two[1].on(code, code=1, remark="broken")
    with pytest.raises(BrokerError, match="broken"):
        client.admin.consume_stats("g", "orders")
    two[1].close()
    with pytest.raises(RemotingError):
        client.admin.consume_stats("g", "orders")
    cluster.add("orders", **{"broker-a": {0: two[0].address}, "broker-b": {1: "1.2.3.4:5"}})
    client.routes.refresh("orders")
    with pytest.raises(RouteError, match="broker-b"):
        client.admin.consume_stats("g", "orders")


def test_stats_of_an_unknown_topic(client, two):
    with pytest.raises(TopicNotFound):
        client.admin.topic_stats("nosuch")


def connections(*ids):
    members = [
        {"clientId": i, "clientAddr": "127.0.0.1:1", "language": "PYTHON", "version": 513}
        for i in ids
    ]
    return {"body": json.dumps({"connectionSet": members, "messageModel": "CLUSTERING"}).encode()}


def test_members_are_listed_once_whatever_broker_they_are_connected_to(client, two):
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    two[0].on(code, **connections("b", "a"))
    two[1].on(code, **connections("a", "c"))
    found = client.admin.consumer_connections("g")
    assert [c.client_id for c in found.connections] == ["a", "b", "c"]
    assert found.message_model == "CLUSTERING"


def test_a_group_is_online_if_one_broker_says_so(client, two):
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    two[0].on(code, code=206, remark="not online")
    two[1].on(code, **connections("a"))
    assert [c.client_id for c in client.admin.consumer_connections("g").connections] == ["a"]


def test_nobody_online(client, two):
    for broker in two:
        broker.on(RequestCode.GET_CONSUMER_CONNECTION_LIST, code=206)
    assert client.admin.consumer_connections("g") is None


def test_groups_of_all_masters(client, two):
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    for broker, names in zip(two, (("b", "a"), ("a", "c")), strict=True):
        body = {"subscriptionGroupTable": {name: {} for name in names}}
        broker.on(code, body=json.dumps(body).encode())
    assert client.admin.groups() == ("a", "b", "c")


def test_topics_and_cluster_come_from_the_name_server(client, name_server, two):
    name_server.on(
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        lambda request: reply_to(request, body=b'{"topicList":["b","a"]}'),
    )
    assert client.admin.topics() == ("a", "b")
    assert sorted(client.admin.cluster().brokers) == ["broker-a", "broker-b"]


def test_a_brokers_settings_are_told_by_name(client, two):
    two[0].on(RequestCode.GET_BROKER_CONFIG, body=b"fileReservedTime=72\nempty=\nmotd=a=b\n")
    broker = client.routes.get("orders").broker("broker-a")
    told = client.admin.broker_settings(broker)
    assert told == {"fileReservedTime": "72", "empty": "", "motd": "a=b"}
