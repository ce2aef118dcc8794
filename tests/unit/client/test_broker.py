import json

import pytest

from orderly.errors import (
    BrokerBusy,
    BrokerError,
    BrokerUnavailable,
    ConnectFailed,
    ConnectionLost,
    GroupNotFound,
    NoPermission,
    OffsetNotFound,
    ProtocolError,
    RequestTimeout,
    RouteError,
    TopicNotFound,
)
from orderly.model import MessageQueue
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import reply_to
from orderly.protocol.statistics import TopicOffset, encode_topic_stats
from tests.support.waiting import eventually

QUEUE = MessageQueue("orders", "broker-a", 2)
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def queues(*numbers, broker="broker-a"):
    return [MessageQueue("orders", broker, number) for number in numbers]


def as_json(queue):
    return {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id}


def granting(*granted):
    body = json.dumps({"lockOKMQSet": [as_json(queue) for queue in granted]}).encode()
    return {"body": body}


# --- locks -------------------------------------------------------------------------------------


def test_lock_asks_for_all_queues_at_once_and_returns_those_granted(client, broker):
    broker.on(RequestCode.LOCK_BATCH_MQ, **granting(*queues(0, 2)))
    granted = client.brokers.lock_queues("g", "broker-a", queues(2, 1, 0))
    assert granted == set(queues(0, 2))
    (asked,) = broker.requests(RequestCode.LOCK_BATCH_MQ)
    assert json.loads(asked.body) == {
        "consumerGroup": "g",
        "clientId": client.client_id,
        "onlyThisBroker": False,
        "mqSet": [as_json(queue) for queue in queues(0, 1, 2)],
    }


def test_a_lock_nobody_asked_for_is_not_taken_for_granted(client, broker):
    broker.on(RequestCode.LOCK_BATCH_MQ, **granting(*queues(0, 1)))
    assert client.brokers.lock_queues("g", "broker-a", queues(1)) == set(queues(1))


def test_no_queues_no_request(client, broker):
    assert client.brokers.lock_queues("g", "broker-a", []) == frozenset()
    client.brokers.unlock_queues("g", "broker-a", ())
    assert broker.received == []


def test_unlock_names_group_client_and_queues(client, broker):
    broker.on(RequestCode.UNLOCK_BATCH_MQ)
    client.brokers.unlock_queues("g", "broker-a", queues(1, 0))
    (asked,) = broker.requests(RequestCode.UNLOCK_BATCH_MQ)
    body = json.loads(asked.body)
    assert (body["consumerGroup"], body["clientId"]) == ("g", client.client_id)
    assert body["mqSet"] == [as_json(queue) for queue in queues(0, 1)]


def test_locks_are_asked_of_the_queues_own_broker(client, new_broker, cluster):
    one, other = new_broker(), new_broker()
    cluster.add("orders", **{"broker-a": {0: one.address}, "broker-b": {0: other.address}})
    other.on(RequestCode.LOCK_BATCH_MQ, **granting(*queues(0, broker="broker-b")))
    wanted = queues(0, broker="broker-b")
    assert client.brokers.lock_queues("g", "broker-b", wanted) == set(wanted)
    assert one.received == []


def test_locks_of_a_topic_that_is_gone_are_asked_of_their_broker_all_the_same(
    client, broker, error_of
):
    gone = MessageQueue("gone", "broker-a", 0)
    wanted = [gone, *queues(0)]
    assert isinstance(
        error_of(client.brokers.unlock_queues, "g", "broker-a", [gone]), TopicNotFound
    )
    broker.on(RequestCode.LOCK_BATCH_MQ, **granting(*wanted))
    broker.on(RequestCode.UNLOCK_BATCH_MQ)
    client.routes.refresh("orders")
    assert client.brokers.lock_queues("g", "broker-a", wanted) == set(wanted)
    client.brokers.unlock_queues("g", "broker-a", [gone])
    (asked,) = broker.requests(RequestCode.UNLOCK_BATCH_MQ)
    assert json.loads(asked.body)["mqSet"] == [as_json(gone)]


def test_a_lock_is_not_awaited_for_long(client, broker, error_of):
    broker.on(RequestCode.LOCK_BATCH_MQ, lambda _: None)
    error = error_of(client.brokers.lock_queues, "g", "broker-a", queues(0), timeout=0.01)
    assert isinstance(error, RequestTimeout)


# --- offsets -----------------------------------------------------------------------------------


def test_query_offset(client, broker):
    broker.on(RequestCode.QUERY_CONSUMER_OFFSET, ext={"offset": "7"})
    assert client.brokers.query_offset("g", QUEUE) == 7
    (asked,) = broker.requests(RequestCode.QUERY_CONSUMER_OFFSET)
    assert asked.ext == {
        "consumerGroup": "g",
        "topic": "orders",
        "queueId": "2",
        "bname": "broker-a",
        "setZeroIfNotFound": "false",
    }


def test_only_code_22_means_that_no_offset_is_stored(client, broker):
    broker.on(RequestCode.QUERY_CONSUMER_OFFSET, code=22)
    assert client.brokers.query_offset("g", QUEUE) is None


@pytest.mark.parametrize("code", [1, 2, 3, 14, 16, 17, 26, 1500])
def test_no_other_code_means_it(client, broker, error_of, code):
    broker.on(RequestCode.QUERY_CONSUMER_OFFSET, code=code)
    error = error_of(client.brokers.query_offset, "g", QUEUE)
    assert isinstance(error, BrokerError)
    assert not isinstance(error, OffsetNotFound)
    assert error.code == code


def test_a_success_without_an_offset_is_an_error_not_a_zero(client, broker, error_of):
    broker.on(RequestCode.QUERY_CONSUMER_OFFSET, ext={})
    assert isinstance(error_of(client.brokers.query_offset, "g", QUEUE), ProtocolError)


def test_a_group_has_offsets_where_its_first_queue_has_one(client, broker):
    broker.on(RequestCode.QUERY_CONSUMER_OFFSET, ext={"offset": "7"})
    assert client.brokers.has_offsets("g", queues(0, 1, 2, 3))
    assert not broker.requests(RequestCode.QUERY_TOPICS_BY_CONSUMER)


@pytest.mark.parametrize("first", [{"code": 22}, {"ext": {"offset": "0"}}], ids=["none", "zero"])
@pytest.mark.parametrize(
    ("topics", "has"), [(["orders"], True), (["orders-2", "%RETRY%g"], False), ([], False)]
)
def test_or_where_the_broker_lists_the_topic_for_it(client, broker, first, topics, has):
    """0 may be what a broker before 5.0 says where there is none."""
    broker.on(RequestCode.QUERY_CONSUMER_OFFSET, **first)
    broker.on(RequestCode.QUERY_TOPICS_BY_CONSUMER, body=json.dumps({"topicList": topics}).encode())
    assert client.brokers.has_offsets("g", queues(0, 1, 2, 3)) == has
    (asked,) = broker.requests(RequestCode.QUERY_TOPICS_BY_CONSUMER)
    assert asked.ext["group"] == "g"
    assert len(broker.requests(RequestCode.QUERY_CONSUMER_OFFSET)) == 1


@pytest.mark.parametrize("code", [1, 3, 16])
@pytest.mark.parametrize("has", [True, False])
def test_or_where_any_queue_has_one_if_the_broker_does_not_answer_that(client, broker, code, has):
    def answer(request):
        there = has and request.ext["queueId"] == "3"
        return reply_to(request, ext={"offset": "7"}) if there else reply_to(request, 22)

    broker.on(RequestCode.QUERY_CONSUMER_OFFSET, answer)
    broker.on(RequestCode.QUERY_TOPICS_BY_CONSUMER, code=code)
    assert client.brokers.has_offsets("g", queues(0, 1, 2, 3)) == has


@pytest.mark.parametrize("code", [2, 14, 1500])
def test_a_broker_that_is_busy_or_ends_says_nothing_of_it(client, broker, error_of, code):
    broker.on(RequestCode.QUERY_CONSUMER_OFFSET, code=22)
    broker.on(RequestCode.QUERY_TOPICS_BY_CONSUMER, code=code)
    assert error_of(client.brokers.has_offsets, "g", queues(0, 1)).code == code


def test_where_queues_end_a_slave_says_too_while_the_master_is_away(client, new_broker, cluster):
    slave = new_broker()
    cluster.add("orders", **{"broker-a": {1: slave.address}})
    slave.on(RequestCode.GET_TOPIC_STATS_INFO, body=encode_topic_stats({QUEUE: TopicOffset(1, 5)}))
    assert client.brokers.topic_stats(QUEUE) == {QUEUE: TopicOffset(1, 5)}


@pytest.mark.parametrize(
    ("code", "answer"), [(1, {}), (3, {}), (16, {}), (2, BrokerBusy), (17, TopicNotFound)]
)
def test_what_a_broker_does_not_tell_of_a_topic_can_be_asked_otherwise(
    client, broker, error_of, code, answer
):
    broker.on(RequestCode.GET_TOPIC_STATS_INFO, code=code)
    if answer == {}:
        assert client.brokers.topic_stats(QUEUE) == answer
    else:
        assert isinstance(error_of(client.brokers.topic_stats, QUEUE), answer)


def test_update_offset_is_acknowledged_by_the_broker(client, broker):
    broker.on(RequestCode.UPDATE_CONSUMER_OFFSET)
    client.brokers.update_offset("g", QUEUE, 9)
    (asked,) = broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)
    assert asked.ext == {
        "consumerGroup": "g",
        "topic": "orders",
        "queueId": "2",
        "bname": "broker-a",
        "commitOffset": "9",
    }
    assert not asked.is_oneway


def test_an_offset_nobody_acknowledged_is_not_committed(client, broker, error_of):
    broker.on(RequestCode.UPDATE_CONSUMER_OFFSET, lambda _: broker.cut())
    assert isinstance(error_of(client.brokers.update_offset, "g", QUEUE, 9), ConnectionLost)


def test_max_min_and_search(client, broker):
    broker.on(RequestCode.GET_MAX_OFFSET, ext={"offset": "30"})
    broker.on(RequestCode.GET_MIN_OFFSET, ext={"offset": "10"})
    broker.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext={"offset": "20"})
    calls = client.brokers
    assert (
        calls.min_offset(QUEUE),
        calls.search_offset(QUEUE, 1.5008),
        calls.max_offset(QUEUE),
    ) == (
        10,
        20,
        30,
    )
    (asked,) = broker.requests(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    assert asked.ext["timestamp"] == "1500"
    assert asked.ext["queueId"] == "2"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (2, BrokerBusy),
        (14, BrokerUnavailable),
        (16, NoPermission),
        (17, TopicNotFound),
        (26, GroupNotFound),
        (1500, BrokerUnavailable),
    ],
)
def test_an_error_names_group_queue_and_address(client, broker, error_of, code, kind):
    broker.on(RequestCode.UPDATE_CONSUMER_OFFSET, code=code, remark="because")
    error = error_of(client.brokers.update_offset, "my-group", QUEUE, 9)
    assert type(error) is kind
    for part in ("my-group", "orders/broker-a/2", broker.address, "because"):
        assert part in str(error)


# --- members -----------------------------------------------------------------------------------

MEMBERS = RequestCode.GET_CONSUMER_LIST_BY_GROUP


def members(*ids):
    return {"body": json.dumps({"consumerIdList": ids}).encode()}


@pytest.fixture
def two(new_broker, cluster):
    brokers = [new_broker(), new_broker()]
    cluster.add(
        "orders", **{f"broker-{n}": {0: b.address} for n, b in zip("ab", brokers, strict=True)}
    )
    return brokers


def test_member_ids_are_sorted(client, broker):
    broker.on(MEMBERS, **members("b", "c", "a"))
    assert client.brokers.consumer_ids("g", "orders") == ("a", "b", "c")


def test_one_broker_that_knows_members_is_enough(client, two):
    two[0].on(MEMBERS, **members("a"))
    assert client.brokers.consumer_ids("g", "orders") == ("a",)
    assert two[1].received == []


@pytest.mark.parametrize("first", [{"code": 1, "remark": "no consumer"}, {"code": 2}, members()])
def test_the_next_broker_is_asked_when_one_knows_none_or_fails(client, two, first):
    two[0].on(MEMBERS, **first)
    two[1].on(MEMBERS, **members("a"))
    assert client.brokers.consumer_ids("g", "orders") == ("a",)


def test_a_dead_broker_is_passed_over(client, two):
    two[0].close()
    two[1].on(MEMBERS, **members("a"))
    assert client.brokers.consumer_ids("g", "orders") == ("a",)


def test_a_broker_that_did_not_answer_is_asked_last_until_it_does(client, two):
    """One that hangs costs a request's time-out once, and not each round."""
    for broker in two:
        broker.on(MEMBERS, **members("a"))
    client.brokers._silent.add("broker-a")
    assert client.brokers.consumer_ids("g", "orders") == ("a",)
    assert (len(two[0].received), len(two[1].received)) == (0, 1)
    two[1].close()
    assert client.brokers.consumer_ids("g", "orders") == ("a",)
    assert client.brokers.consumer_ids("g", "orders") == ("a",)
    assert len(two[0].received) == 2


def test_nobody_known_anywhere_is_empty(client, two):
    two[0].close()
    two[1].on(MEMBERS, code=1)
    assert client.brokers.consumer_ids("g", "orders") == ()


def test_no_answer_anywhere_is_an_error_not_an_empty_group(client, two, error_of):
    for broker in two:
        broker.close()
    assert isinstance(error_of(client.brokers.consumer_ids, "g", "orders"), ConnectFailed)


def test_a_topic_without_brokers(client, cluster, error_of):
    cluster.add("orders")
    assert isinstance(error_of(client.brokers.consumer_ids, "g", "orders"), RouteError)


def test_members_are_asked_of_a_slave_while_the_master_is_down(client, new_broker, cluster):
    slave = new_broker()
    slave.on(MEMBERS, **members("a"))
    cluster.add("orders", **{"broker-a": {1: slave.address}})
    assert client.brokers.consumer_ids("g", "orders") == ("a",)


# --- the way there -----------------------------------------------------------------------------


def test_a_queue_of_a_broker_without_master(client, new_broker, cluster, error_of):
    cluster.add("orders", **{"broker-a": {1: new_broker().address}})
    assert isinstance(error_of(client.brokers.max_offset, QUEUE), RouteError)


def test_a_moved_broker_is_found_after_a_failure(client, broker, new_broker, cluster):
    broker.on(RequestCode.GET_MAX_OFFSET, ext={"offset": "1"})
    client.brokers.max_offset(QUEUE)
    client.routes._asked_at["orders"] -= 10  # fetched long ago
    moved = new_broker()
    moved.on(RequestCode.GET_MAX_OFFSET, ext={"offset": "2"})
    cluster.add("orders", **{"broker-a": {0: moved.address}})
    broker.close()
    failures = set()

    def found():
        try:
            return client.brokers.max_offset(QUEUE)
        except (ConnectionLost, ConnectFailed) as error:
            failures.add(type(error))
            return None

    assert eventually(found) == 2
    assert failures


def test_a_lost_connection_fails_the_request_and_the_next_one_connects(client, broker, error_of):
    def cut(request):
        broker.on(RequestCode.GET_MAX_OFFSET, ext={"offset": "5"})
        broker.cut()

    broker.on(RequestCode.GET_MAX_OFFSET, cut)
    assert isinstance(error_of(client.brokers.max_offset, QUEUE), ConnectionLost)
    assert client.brokers.max_offset(QUEUE) == 5
    assert broker.accepted == 2


def test_an_ill_formed_reply_body(client, broker, error_of):
    broker.on(RequestCode.LOCK_BATCH_MQ, lambda request: reply_to(request, body=b"oops"))
    assert isinstance(
        error_of(client.brokers.lock_queues, "g", "broker-a", queues(0)), ProtocolError
    )
