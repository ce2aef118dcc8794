from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError, LayoutChanged, RouteError
from orderly.model import BrokerData, MessageQueue, Permission, QueueData, TopicRoute
from orderly.selectors import Layout, check_layout, layout_of, parse_layout, queues_of

READ_WRITE = Permission.READ | Permission.WRITE


def route(*queues: QueueData, down: tuple[str, ...] = (), order_conf: str = "") -> TopicRoute:
    brokers = tuple(
        BrokerData(q.broker_name, "C", {} if q.broker_name in down else {0: "127.0.0.1:10911"})
        for q in queues
    )
    return TopicRoute("T", queues, brokers, order_conf)


def data(name: str, writes: int, permission: Permission = READ_WRITE, reads: int = 16) -> QueueData:
    return QueueData(name, reads, writes, permission)


NAMES = st.text("abcdefghijklmnopqrstuvwxyz-_0123456789", min_size=1)
LAYOUTS = st.dictionaries(NAMES, st.integers(1, 512), min_size=1).map(
    lambda brokers: Layout(tuple(brokers.items()))
)


@given(LAYOUTS)
def test_the_text_of_a_layout_reads_back(layout):
    assert parse_layout(str(layout)) == layout


def test_the_pin_of_the_documentation_is_read():
    assert parse_layout(" broker-a:8; broker-b:4 ;") == Layout((("broker-a", 8), ("broker-b", 4)))


@pytest.mark.parametrize(
    "text", ["", ";", "a", "a:", ":8", "a:0", "a:-1", "a:x", "a:1;a:2", "a:1.5", "a:1;b"]
)
def test_a_broken_pin_is_refused(text):
    with pytest.raises(ConfigError, match="layout"):
        parse_layout(text)


def test_without_order_configuration_writable_queues_are_counted_sorted():
    found = layout_of(
        route(data("broker-b", 4), data("broker-a", 8), data("broker-c", 8, Permission.READ))
    )
    assert str(found) == "broker-a:8;broker-b:4"


def test_a_broker_without_a_master_is_not_counted():
    assert str(layout_of(route(data("a", 8), data("b", 8), down=("b",)))) == "a:8"


def test_the_order_configuration_wins_in_its_own_order_and_keeps_dead_brokers():
    found = layout_of(route(data("a", 8), data("b", 8), down=("b",), order_conf="b:4;a:8;gone:2"))
    assert str(found) == "b:4;a:8;gone:2"


def test_a_broken_order_configuration_is_an_error_of_the_route():
    with pytest.raises(RouteError, match="updateOrderConf"):
        layout_of(route(data("a", 8), order_conf="a=8"))


def test_no_writable_queue_is_an_error_of_the_route():
    with pytest.raises(RouteError, match="no queue of T can be written to"):
        layout_of(route(data("a", 8), down=("a",)))


def test_queues_are_counted_broker_by_broker():
    assert queues_of(parse_layout("b:2;a:1"), "T") == (
        MessageQueue("T", "b", 0),
        MessageQueue("T", "b", 1),
        MessageQueue("T", "a", 0),
    )


def test_the_pinned_layout_is_let_through():
    check_layout(parse_layout("a:8;b:8"), route(data("a", 8), data("b", 8)))


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (route(data("a", 9), data("b", 8)), "a:9;b:8"),
        (route(data("a", 8), data("b", 8), data("c", 8)), "a:8;b:8;c:8"),
        (route(data("a", 8), data("b", 8), down=("b",)), "a:8"),
        (route(data("a", 8), data("b", 8), order_conf="b:8;a:8"), "b:8;a:8"),
    ],
)
def test_a_route_that_would_move_keys_is_refused_naming_both_layouts(changed, found):
    with pytest.raises(LayoutChanged) as caught:
        check_layout(parse_layout("a:8;b:8"), changed)
    assert f"are {found} but" in str(caught.value)
    assert "pinned to a:8;b:8" in str(caught.value)
