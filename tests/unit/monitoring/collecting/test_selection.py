"""Which names a selection takes."""

from __future__ import annotations

import pytest

from orderly.errors import ConfigError
from orderly.monitoring.collecting.selection import (
    EVERYTHING,
    Selection,
    group_of_retry_topic,
    is_book_keeping,
    is_internal,
    is_system_group,
    is_system_topic,
    pair_of_state_topic,
)
from orderly.ordering.topic_names import park_topic, state_topic


def test_everything_leaves_out_only_the_systems_own():
    assert EVERYTHING.group("pay")
    assert EVERYTHING.topic("orders")
    assert not EVERYTHING.group("TOOLS_CONSUMER")
    assert not EVERYTHING.topic("TBW102")
    assert Selection(system=True).group("TOOLS_CONSUMER")


def test_one_of_several_globs_is_enough_and_each_fits_the_whole_name():
    selection = Selection(groups=("pay*", "ship"))
    assert [selection.group(name) for name in ("payment", "ship", "shipping", "repay")] == [
        True,
        True,
        False,
        False,
    ]


def test_regular_expressions_fit_the_whole_name():
    selection = Selection(topics=("a|b.*",), regex=True)
    assert [selection.topic(name) for name in ("a", "bc", "ab", "ca")] == [True, True, False, False]


def test_only_names_without_a_wildcard_are_named():
    assert Selection(groups=("pay", "s*", "[ab]", "x?")).named_groups == ("pay",)
    assert Selection(topics=("orders",)).named_topics == ("orders",)
    assert Selection(groups=("pay",), regex=True).named_groups == ()


def test_only_named_is_said_of_groups_without_any_pattern():
    assert Selection(groups=("pay", "ship")).only_named
    assert not Selection(groups=("pay", "s*")).only_named
    assert not Selection(groups=("pay",), regex=True).only_named
    assert not EVERYTHING.only_named


def test_a_malformed_expression_is_refused_with_its_text():
    with pytest.raises(ConfigError, match=r"'\(' is not a regular expression"):
        Selection(groups=("(",), regex=True)


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
