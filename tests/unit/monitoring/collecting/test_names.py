"""Whose a topic is."""

import pytest

from orderly.monitoring.collecting.names import (
    group_of_retry_topic,
    is_book_keeping,
    is_internal,
    is_system_group,
    is_system_topic,
    pair_of_state_topic,
)
from orderly.ordering.state.topic import park_topic, state_topic


@pytest.mark.parametrize(
    ("topic", "group"),
    [
        ("%RETRY%pay", "pay"),
        ("%RETRY%pay_orders", "pay"),  # POP, before release 5.3
        ("%RETRY%pay+orders", "pay"),
        ("%RETRY%pay_eu", "pay_eu"),
        ("%RETRY%pay_eu_orders", "pay_eu"),
        ("%RETRY%pay_unknown", None),
        ("%RETRY%nobody", None),
        ("orders", None),
        ("%DLQ%pay", None),
    ],
)
def test_a_retry_topic_belongs_to_the_longest_group_that_fits(topic, group):
    assert group_of_retry_topic(topic, {"pay", "pay_eu"}, {"orders", "eu_orders"}) == group


@pytest.mark.parametrize(
    ("group", "topic"), [("g", "orders"), ("shop%g", "shop%orders"), ("shop%g", "bank%orders")]
)
def test_states_and_parked_messages_are_book_keeping(group, topic):
    assert is_book_keeping(state_topic(group, topic))
    assert is_book_keeping(park_topic(group, topic))
    assert not is_book_keeping(topic)


def test_rocketmqs_own_names_are_known():
    assert is_system_topic("TBW102")
    assert is_system_topic("rmq_sys_REVIVE_LOG_DefaultCluster")
    assert is_system_group("CID_RMQ_SYS_TRANS")
    assert is_system_group("CID_DefaultHeartBeatSyncerTopic")
    assert not is_system_topic("orders")
    assert not is_system_group("pay")


def test_what_no_program_writes_to_is_internal():
    found = ["%RETRY%g", "%DLQ%g", "%RETRY%shop%g", "TBW102", park_topic("g", "t"), "orders"]
    assert [topic for topic in found if not is_internal(topic)] == ["orders"]


@pytest.mark.parametrize(
    ("group", "topic"),
    [
        ("pay", "orders"),
        ("pay-eu", "orders-late"),
        ("pay", "eu-orders-late"),
        ("shop%pay", "shop%orders"),
        ("shop%pay-eu", "orders"),  # another tenant's topic
    ],
)
def test_a_state_topic_tells_group_and_topic(group, topic):
    groups = {"pay", "pay-eu", "shop%pay", "shop%pay-eu"}
    topics = {"orders", "eu-orders-late", "orders-late", "shop%orders"}
    name = state_topic(group, topic)
    assert pair_of_state_topic(name, groups, topics) == (group, topic)
    assert pair_of_state_topic(name, groups - {group}, topics) is None
    assert pair_of_state_topic(name, groups, topics - {topic}) is None


def test_only_a_state_topic_does():
    assert pair_of_state_topic(park_topic("pay", "orders"), {"pay"}, {"orders"}) is None
    assert pair_of_state_topic("orderly-state-pay-orders-0123", {"pay"}, {"orders"}) is None
    assert pair_of_state_topic("orderly-state-", {"pay", ""}, {"orders", ""}) is None
