"""What is checked before a consumer joins: refusals, warnings, and what stops nobody."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly.client import preflight
from orderly.client.preflight import (
    NotOrdered,
    NotReported,
    StartRefused,
    SubscriptionsDiffer,
    check_filter,
    check_members,
    check_orders,
    check_settings,
    check_start,
    check_topic,
    speaks_grpc,
    subscription_differences,
)
from orderly.config import ConsumerConfig
from orderly.errors import BrokerError, ConfigError, RequestTimeout, RouteError
from orderly.model import BrokerData, Permission, QueueData, TopicRoute
from orderly.protocol.groups import GroupConfig
from orderly.protocol.heartbeat import ConsumeType, MessageModel, Subscription
from orderly.protocol.members import RunningInfo
from orderly.protocol.statistics import ConsumerConnection, ConsumerConnections
from orderly.protocol.topics import TopicConfig

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


def refused(findings):
    """The text of the refusal, which is the only one."""
    (text,) = [str(it.error) for it in findings if isinstance(it, StartRefused)]
    return text


def kinds(findings):
    return [type(it) for it in findings]


@pytest.mark.parametrize("closed", [route(WRITE), route(read=0)])
def test_a_topic_without_a_queue_to_read_is_refused(closed):
    def found(told):
        client = SimpleNamespace(routes=SimpleNamespace(get_anew=lambda _: told))
        return list(check_topic(client, "orders"))

    assert found(route(READ)) == []
    assert "updateTopicPerm" in refused(found(closed))


def test_filters_by_tags_are_not_asked_about():
    asked = []
    groups = SimpleNamespace(check_filter=lambda *args: asked.append(args))
    client = SimpleNamespace(groups=groups, client_id="me@1")
    assert list(check_filter(client, "g", tags("a || b"))) == []
    assert list(check_filter(client, "g", sql("x > 1"))) == []
    assert asked == [("g", sql("x > 1"), "me@1")]


@pytest.mark.parametrize(
    ("settings", "config", "text"),
    [
        (GroupConfig(name="g", consume_enabled=False), CLUSTERING, "to consume"),
        (GroupConfig(name="g", consume_enabled=False), BROADCASTING, "to consume"),
        (GroupConfig(name="g", broadcast_enabled=False), BROADCASTING, "to broadcast"),
    ],
)
def test_what_the_broker_forbids_is_refused(settings, config, text):
    found = check_settings(settings, "broker-a", config)
    assert f"broker-a forbids group g {text}" in refused(found)


def test_who_does_not_broadcast_need_not_be_allowed_to():
    closed = GroupConfig(name="g", broadcast_enabled=False)
    assert list(check_settings(closed, "b", CLUSTERING)) == [NotOrdered("b")]
    assert list(check_settings(GroupConfig(name="g", orderly=True), "b", CLUSTERING)) == []


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (members(message_model=MessageModel.BROADCASTING), CLUSTERING),
        (members(), BROADCASTING),
        (members(consume_type=ConsumeType.ACTIVELY), CLUSTERING),
    ],
)
def test_members_that_consume_otherwise_are_a_refusal(there, here):
    found = check_members("g", {"orders": tags("a")}, here, there)
    assert "Stop them first, or use another group" in refused(found)


def test_nobody_there_is_nobody_to_differ_from():
    gone = members(connections=(), message_model=MessageModel.BROADCASTING)
    assert list(check_start(Brokers(FINE, gone), "g", [tags("b")], CLUSTERING)) == []


def test_other_subscriptions_are_a_warning_and_the_retry_topic_is_none():
    assert list(check_members("g", {"orders": tags("a")}, CLUSTERING, members())) == []
    (found,) = check_members("g", {"orders": tags("b")}, CLUSTERING, members())
    assert found == SubscriptionsDiffer(("orders: 'b' here, 'a' there",), ("other@1",))


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
        self.routes = SimpleNamespace(get=lambda _: route(), get_anew=lambda _: route())
        self.behind_proxy = False
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


def starting(brokers, config, *, on="a"):
    return list(check_start(brokers, "g", [tags(on)], config))


def test_a_fifo_topic_wants_a_group_that_the_broker_knows_as_ordered():
    found = starting(Brokers(NOT_ORDERED, config=typed("FIFO")), CLUSTERING)
    assert "orders is of type FIFO, but broker broker-a" in refused(found)
    assert "-o true" in refused(found)
    marked = Brokers(FINE, config=typed("FIFO"))
    assert starting(marked, CLUSTERING) == []
    assert marked.asked == [], "an ordered group costs no question"


@pytest.mark.parametrize("config", [typed(None), typed("NORMAL"), typed("MIXED"), None])
def test_other_topics_only_say_so(config):
    assert starting(Brokers(NOT_ORDERED, config=config), CLUSTERING) == [NotOrdered("broker-a")]


@pytest.mark.parametrize("config", [replace(CLUSTERING, require_ordered_group=False), BROADCASTING])
def test_who_says_that_no_grpc_client_joins_may_start_on_a_fifo_topic(config):
    brokers = Brokers(NOT_ORDERED, config=typed("FIFO"))
    assert starting(brokers, config) == [NotOrdered("broker-a")]
    assert brokers.asked == []


def test_a_type_that_is_not_told_stops_nobody():
    refuses = Brokers(NOT_ORDERED, config=BrokerError("no permission", code=16))
    assert kinds(starting(refuses, CLUSTERING)) == [NotOrdered, NotReported]


def test_a_broker_that_does_not_tell_stops_nobody():
    error = BrokerError("no permission", code=16)
    assert starting(Brokers(error), CLUSTERING) == [NotReported(error, "broker-a")]
    assert starting(Brokers(FINE, error), CLUSTERING) == [NotReported(error)]


@pytest.mark.parametrize("error", [RouteError("no master"), RequestTimeout("it hangs")])
def test_one_broker_that_is_not_there_keeps_nobody_from_starting(error):
    assert kinds(starting(Brokers(error, error), CLUSTERING)) == [NotReported, NotReported]


def test_members_are_compared_at_the_start():
    assert "Stop them first" in refused(starting(Brokers(FINE, members()), BROADCASTING))


def test_how_members_keep_order_is_compared_at_the_start():
    client = Brokers(FINE, members())
    assert starting(client, CLUSTERING) == []
    assert "order by queue: other@1 (JAVA)" in refused(starting(client, BY_KEY))


GRPC = "host-1@24357@0@dn5itc746cue"


@pytest.mark.parametrize("config", [CLUSTERING, BY_KEY])
def test_members_over_grpc_are_a_refusal(config):
    """What a proxy told of a member that the official Python client is."""
    there = members(connections=(ConsumerConnection(GRPC, "127.0.0.1:1", "PYTHON", 513),))
    (said, *_) = [it.error for it in starting(Brokers(FINE, there), config)]
    assert "over gRPC, which take no lock of a queue, so two members" in str(said)
    assert GRPC in str(said)


@pytest.mark.parametrize(
    "client_id", ["127.0.0.1@26380#26af434c", "10.0.0.1@7#81", "10.0.0.1@7@unit@STREAM", "a@1@b@c"]
)
def test_no_other_members_look_like_those(client_id):
    assert not speaks_grpc(ConsumerConnection(client_id))


def test_broadcasting_members_share_nothing_to_be_mixed():
    there = members(message_model=MessageModel.BROADCASTING)
    config = replace(BROADCASTING, order="key")
    assert starting(Brokers(FINE, there), config) == []


# --- how members keep order --------------------------------------------------------------------

HANGS = RequestTimeout("no answer")


class Group:
    """Members by client id: a language, or the order that a member of ours tells."""

    client_id = "me@1"

    def __init__(self, **told):
        self.members = {self.client_id: "queue", **{f"{name}@2": it for name, it in told.items()}}
        self.asked = []
        self.groups = self

    def running_info(self, _group, client_id):
        self.asked.append(client_id)
        told = self.members[client_id]
        if isinstance(told, Exception):
            raise told
        return RunningInfo({"order": told} if told else {})

    def check(self, order):
        there = [
            ConsumerConnection(name, "", told if told in ("JAVA", "GO") else "PYTHON", 0)
            for name, told in self.members.items()
        ]
        return list(check_orders(self, "g", order, there))


@pytest.mark.parametrize(
    ("ours", "theirs", "fits"),
    [
        ("key", "key", True),
        ("queue", "queue", True),
        ("key", "queue", False),
        ("queue", "key", False),
        ("key", "JAVA", False),
        ("key", "GO", False),
        ("queue", "JAVA", True),
        ("key", "", False),  # Python, but not one of ours
        ("queue", "", True),
    ],
)
def test_who_keeps_order_in_another_way_is_a_refusal(ours, theirs, fits):
    found = Group(other=theirs).check(ours)
    if fits:
        assert found == []
    else:
        assert re.search(r"order by .*: other@2 \(.*Stop them first", refused(found))


def test_only_our_own_members_are_asked_and_never_oneself():
    group = Group(java="JAVA", other="queue")
    group.check("queue")
    assert group.asked == ["other@2"]


@pytest.mark.parametrize("told", [HANGS, BrokerError("it refused", code=1)])
def test_who_does_not_answer_is_a_warning(told):
    assert Group(other=told).check("key") == [NotReported(told, member="other@2")]


def test_who_left_meanwhile_is_nobody_to_warn_of():
    assert Group(gone=ConfigError("no such member is online")).check("key") == []


def test_members_that_hang_do_not_add_up(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(preflight, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    group = Group(**{f"hangs{n}": HANGS for n in range(9)})
    answer = group.running_info

    def after_ten_seconds(*args):
        clock[0] += 10
        return answer(*args)

    group.running_info = after_ten_seconds
    group.check("key")
    assert len(group.asked) == 1
