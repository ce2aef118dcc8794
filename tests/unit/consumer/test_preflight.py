"""What is checked before a consumer joins: refusals, warnings, and what stops nobody."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from structlog.testing import CapturingLogger

from orderly.config import ConsumerConfig
from orderly.consumer.preflight import (
    check_filter,
    check_members,
    check_readable,
    check_settings,
    check_start,
    subscription_differences,
)
from orderly.errors import BrokerError, ConfigError, RequestTimeout, RouteError
from orderly.model import BrokerData, Permission, QueueData, TopicRoute
from orderly.protocol.group_config import GroupConfig
from orderly.protocol.heartbeat import ConsumeType, MessageModel, Subscription
from orderly.protocol.stats_bodies import ConsumerConnection, ConsumerConnections
from orderly.protocol.topic_config import TopicConfig

CLUSTERING = ConsumerConfig()
BY_KEY = ConsumerConfig(order="key")
BROADCASTING = ConsumerConfig(model="broadcasting", instance="i")
READ, WRITE = Permission.READ, Permission.WRITE


def route(permission=READ | WRITE, read=4):
    broker = BrokerData("broker-a", "c", {0: "127.0.0.1:1"})
    return TopicRoute("orders", (QueueData("broker-a", read, 4, permission),), (broker,))


def tags(expression, topic="orders"):
    return Subscription.from_expression(topic, expression, 1)


def sql(expression):
    return Subscription("orders", expression, expression_type="SQL92")


def members(**changed):
    fields = {
        "connections": (ConsumerConnection("other@1", "127.0.0.1:1", "JAVA", 0),),
        "consume_type": ConsumeType.PASSIVELY,
        "message_model": MessageModel.CLUSTERING,
        "consume_from": "CONSUME_FROM_LAST_OFFSET",
        "subscriptions": {"orders": tags("a"), "%RETRY%g": tags("*", "%RETRY%g")},
    }
    return ConsumerConnections(**(fields | changed))


@pytest.fixture
def log():
    return CapturingLogger()


@pytest.mark.parametrize("closed", [route(WRITE), route(read=0)])
def test_a_topic_without_a_queue_to_read_is_refused(closed):
    check_readable(route(READ))
    with pytest.raises(ConfigError, match="updateTopicPerm"):
        check_readable(closed)


def test_filters_by_tags_are_not_asked_about(log):
    asked = []
    groups = SimpleNamespace(check_filter=lambda *args: asked.append(args))
    client = SimpleNamespace(groups=groups, client_id="me@1")
    check_filter(client, "g", tags("a || b"), log)
    check_filter(client, "g", sql("x > 1"), log)
    assert asked == [("g", sql("x > 1"), "me@1")]


@pytest.mark.parametrize(
    ("settings", "config", "refused"),
    [
        (GroupConfig(name="g", consume_enabled=False), CLUSTERING, "to consume"),
        (GroupConfig(name="g", consume_enabled=False), BROADCASTING, "to consume"),
        (GroupConfig(name="g", broadcast_enabled=False), BROADCASTING, "to broadcast"),
    ],
)
def test_what_the_broker_forbids_is_refused(settings, config, refused, log):
    with pytest.raises(ConfigError, match=f"broker-a forbids group g {refused}"):
        check_settings(settings, "broker-a", config, log)


def test_who_does_not_broadcast_need_not_be_allowed_to(log):
    check_settings(GroupConfig(name="g", broadcast_enabled=False), "b", CLUSTERING, log)
    assert [call.method_name for call in log.calls] == ["info"], "group.not_ordered"
    check_settings(GroupConfig(name="g", orderly=True), "b", CLUSTERING, log)
    assert len(log.calls) == 1


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (members(message_model=MessageModel.BROADCASTING), CLUSTERING),
        (members(), BROADCASTING),
        (members(consume_type=ConsumeType.ACTIVELY), CLUSTERING),
    ],
)
def test_members_that_consume_otherwise_are_a_refusal(there, here, log):
    with pytest.raises(ConfigError, match="Stop them first, or use another group"):
        check_members("g", {"orders": tags("a")}, here, there, log)


def test_nobody_there_is_nobody_to_differ_from(log):
    gone = members(connections=(), message_model=MessageModel.BROADCASTING)
    check_members("g", {"orders": tags("b")}, CLUSTERING, gone, log)
    assert log.calls == []


def test_other_subscriptions_are_a_warning_and_the_retry_topic_is_none(log):
    check_members("g", {"orders": tags("a")}, CLUSTERING, members(), log)
    assert log.calls == []
    check_members("g", {"orders": tags("b")}, CLUSTERING, members(), log)
    (call,) = log.calls
    assert call.method_name == "warning"
    assert call.kwargs["differences"] == ("orders: 'b' here, 'a' there",)
    assert call.kwargs["members"] == ("other@1",)


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (tags("a||b"), tags("b || a"), ()),
        (tags("*"), tags(""), ()),
        (tags("d||c||b||a"), tags("e"), ("orders: 'a || b || c || d' here, 'e' there",)),
        (tags("*"), tags("a"), ("orders: '*' here, 'a' there",)),
        (sql("a > 1"), sql("a > 1"), ()),
        (sql("a > 1"), sql("a > 2"), ("orders: SQL92 'a > 1' here, SQL92 'a > 2' there",)),
        (sql("a"), tags("a"), ("orders: SQL92 'a' here, 'a' there",)),
        (None, tags("a"), ("orders: not subscribed here, 'a' there",)),
        (tags("a"), None, ("orders: 'a' here, not subscribed there",)),
    ],
)
def test_differences_are_named_topic_by_topic(ours, theirs, said):
    table = {"same": tags("x", "same")}
    here = table | ({"orders": ours} if ours else {})
    there = table | ({"orders": theirs} if theirs else {})
    assert subscription_differences(here, there) == said


class Brokers:
    """A client whose brokers answer as told; an exception is raised."""

    client_id = "me@1"

    def __init__(self, settings, there=None, config=None):
        self._answers = settings, there, config
        self.asked = []
        self.routes = SimpleNamespace(get=lambda _: route())
        self.groups = SimpleNamespace(group_config=lambda *_: self._answer(0))
        self.admin = SimpleNamespace(
            consumer_connections=lambda _: self._answer(1), topic_config=self._topic_config
        )

    def _topic_config(self, topic, broker):
        self.asked.append((topic, broker.broker_name))
        return self._answer(2)

    def _answer(self, index):
        answer = self._answers[index]
        if isinstance(answer, Exception):
            raise answer
        return answer


FINE = GroupConfig(name="g", orderly=True)


NOT_ORDERED = GroupConfig(name="g")


def typed(kind):
    attributes = {} if kind is None else {"message.type": kind}
    return TopicConfig(name="orders", read_queues=4, write_queues=4, attributes=attributes)


def test_a_fifo_topic_wants_a_group_that_the_broker_knows_as_ordered(log):
    with pytest.raises(
        ConfigError, match=r"orders is of type FIFO, but broker broker-a .* -o true"
    ):
        check_start(Brokers(NOT_ORDERED, config=typed("FIFO")), "g", [tags("a")], CLUSTERING, log)
    marked = Brokers(FINE, config=typed("FIFO"))
    check_start(marked, "g", [tags("a")], CLUSTERING, log)
    assert marked.asked == [], "an ordered group costs no question"


@pytest.mark.parametrize("config", [typed(None), typed("NORMAL"), typed("MIXED"), None])
def test_other_topics_only_say_so(config, log):
    check_start(Brokers(NOT_ORDERED, config=config), "g", [tags("a")], CLUSTERING, log)
    assert [call.args for call in log.calls] == [("group.not_ordered",)]


@pytest.mark.parametrize("config", [replace(CLUSTERING, require_ordered_group=False), BROADCASTING])
def test_who_says_that_no_grpc_client_joins_may_start_on_a_fifo_topic(config, log):
    brokers = Brokers(NOT_ORDERED, config=typed("FIFO"))
    check_start(brokers, "g", [tags("a")], config, log)
    assert brokers.asked == []


def test_a_type_that_is_not_told_stops_nobody(log):
    refused = Brokers(NOT_ORDERED, config=BrokerError("no permission", code=16))
    check_start(refused, "g", [tags("a")], CLUSTERING, log)
    assert [call.args[0] for call in log.calls] == ["group.not_ordered", "start.not_checked"]


def test_a_broker_that_does_not_tell_stops_nobody(log):
    for client in (
        Brokers(BrokerError("no permission", code=16)),
        Brokers(FINE, BrokerError("no permission", code=16)),
    ):
        check_start(client, "g", [tags("a")], CLUSTERING, log)
    assert [call.method_name for call in log.calls] == ["warning", "warning"]


@pytest.mark.parametrize("error", [RouteError("no master"), RequestTimeout("it hangs")])
def test_one_broker_that_is_not_there_keeps_nobody_from_starting(error, log):
    check_start(Brokers(error, error), "g", [tags("a")], CLUSTERING, log)
    assert [call.method_name for call in log.calls] == ["warning", "warning"]


def test_members_are_compared_at_the_start(log):
    with pytest.raises(ConfigError, match="Stop them first"):
        check_start(Brokers(FINE, members()), "g", [tags("a")], BROADCASTING, log)


def test_how_members_keep_order_is_compared_at_the_start(log):
    client = Brokers(FINE, members())
    check_start(client, "g", [tags("a")], CLUSTERING, log)
    with pytest.raises(ConfigError, match=r"order by queue: other@1 \(JAVA\)"):
        check_start(client, "g", [tags("a")], BY_KEY, log)


def test_broadcasting_members_share_nothing_to_be_mixed(log):
    there = members(message_model=MessageModel.BROADCASTING)
    config = replace(BROADCASTING, order="key")
    check_start(Brokers(FINE, there), "g", [tags("a")], config, log)
