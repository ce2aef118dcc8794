"""Pinned layouts: a key never moves unseen."""

from __future__ import annotations

import asyncio
import logging

import pytest
from structlog.testing import capture_logs

from orderly.config import ProducerConfig
from orderly.errors import (
    ConfigError,
    InvalidMessage,
    LayoutChanged,
    NoPermission,
    RequestTimeout,
    RouteError,
)
from orderly.message import Message
from orderly.model import MessageQueue
from orderly.protocol.topics import APPEARS_LATER, MessageType
from orderly.selectors import single_queue

KEYED = Message("T", b"x", sharding_key="k")
WITHOUT_ORDER = [
    MessageType.DELAY,
    MessageType.TRANSACTION,
    MessageType.PRIORITY,
    MessageType.LITE,
]


@pytest.mark.parametrize("kind", WITHOUT_ORDER)
def test_a_keyed_message_is_refused_by_name_before_anything_is_sent(start, client, broker, kind):
    client.types["T"] = kind
    producer = start()
    with pytest.raises(ConfigError, match=f"declared for messages of type {kind}: .* --type fifo"):
        producer.send(KEYED)
    with pytest.raises(ConfigError, match="messages that need order"):
        asyncio.run(producer.asend(KEYED))
    with pytest.raises(ConfigError, match="under a selector"):
        producer.send(Message("T", b"x"), selector=single_queue)
    assert broker.requests == []


def test_a_message_without_a_key_wants_no_order(start, client, broker):
    client.types["T"] = MessageType.DELAY
    start().send(Message("T", b"x"))
    assert client.asked_types == []
    assert broker.stored == [b"x"]


@pytest.mark.parametrize("kind", [*sorted(set(MessageType) - set(WITHOUT_ORDER)), "OF_THE_FUTURE"])
def test_all_other_types_keep_order_and_are_asked_for_once(start, client, broker, kind):
    client.types["T"] = kind
    producer = start(config=ProducerConfig(send_timeout=7.5))
    for body in (b"1", b"2", b"3"):
        producer.send(Message("T", body, sharding_key="k"))
        client.routes.refresh("T")  # as it happens every 30 s
    assert broker.stored == [b"1", b"2", b"3"]
    assert client.asked_types == [("T", "a", 2.5)]


def test_a_topic_whose_type_was_changed_is_taken_at_the_next_send(start, client, broker):
    client.types["T"] = MessageType.DELAY
    producer = start()
    with pytest.raises(ConfigError):
        producer.send(KEYED)
    client.types["T"] = MessageType.FIFO
    producer.send(KEYED)
    assert broker.stored == [b"x"]


@pytest.mark.parametrize("error", [NoPermission("may not ask", code=16), RequestTimeout("hangs")])
def test_a_broker_that_does_not_tell_stops_nobody(start, client, broker, error):
    client.types["T"] = error
    with capture_logs() as logs:
        start().send(KEYED)
    assert broker.stored == [b"x"]
    told = [entry for entry in logs if entry["event"] == "topic.type_unknown"]
    assert [(entry["topic"], entry["error"]) for entry in told] == [("T", str(error))]


@pytest.mark.parametrize("told", [MessageType.FIFO, RequestTimeout("hangs")])
def test_a_producer_that_waits_for_its_pin_does_not_ask_with_each_send(start, client, told):
    client.types["T"] = told
    producer = start(config=ProducerConfig(layout="a:8"))
    for _ in range(3):
        with pytest.raises(LayoutChanged):
            producer.send(KEYED)
    assert len(client.asked_types) == 1


@pytest.mark.parametrize("name", sorted(APPEARS_LATER))
def test_a_property_that_has_the_message_appear_later_is_refused(start, broker, name):
    producer = start()
    with pytest.raises(
        InvalidMessage, match=f"with property {name} the broker would show .* later"
    ):
        producer.send(Message("T", b"x", properties={name: "3"}))
    assert broker.requests == []


KEYLESS = Message("T", b"x")


@pytest.fixture
def change_route(client, routes_of):
    def change(**arguments):
        client.table["T"] = routes_of("T", **arguments)
        client.routes.refresh("T")

    return change


@pytest.fixture(autouse=True)
def record(caplog):
    caplog.set_level(logging.INFO, "orderly.producer")


@pytest.mark.parametrize(
    ("brokers", "pin", "level"),
    [({"a": 4}, "a:4", logging.INFO), ({"a": 4, "b": 4}, "a:4;b:4", logging.WARNING)],
    ids=["one broker", "several"],
)
def test_the_first_route_pins_the_layout_and_an_event_names_it_once(
    brokers, pin, level, start, change_route, caplog
):
    """A broker of several may be away just then: that is warned of."""
    change_route(**brokers)
    producer = start()
    producer.send(KEYED)
    producer.send(KEYED)
    pinned = [r for r in caplog.records if "layout.pinned" in r.getMessage()]
    assert len(pinned) == 1
    assert f"layout='{pin}'" in pinned[0].getMessage()
    assert pinned[0].levelno == level


def test_another_layout_is_refused_before_anything_is_sent(start, broker, change_route):
    producer = start()
    producer.send(KEYED)
    change_route(a=8)
    for _ in range(2):
        with pytest.raises(LayoutChanged, match="a:8 but this producer is pinned to a:4"):
            producer.send(KEYED)
    assert len(broker.stored) == 1


def test_a_layout_that_is_back_is_accepted_at_once(start, broker, client, change_route, routes_of):
    producer = start()
    producer.send(KEYED)
    change_route(a=8)
    client.table["T"] = routes_of("T", a=4)  # the cached route is still the other one
    producer.send(KEYED)
    assert len(broker.stored) == 2


def test_a_new_broker_is_a_change(start, change_route):
    producer = start()
    producer.send(KEYED)
    change_route(a=4, b=4)
    with pytest.raises(LayoutChanged):
        producer.send(KEYED)


def test_a_configured_pin_holds_from_the_first_message_and_warns_nobody(start, broker, caplog):
    assert start(group="one", config=ProducerConfig(layout="a:4")).send(KEYED)
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
    with pytest.raises(LayoutChanged, match="pinned to a:8"):
        start(group="two", config=ProducerConfig(layout="a:8")).send(KEYED)
    assert len(broker.stored) == 1


def test_the_order_configuration_is_a_pin_with_its_own_order(start, change_route, caplog):
    change_route(a=1, b=1, order_conf="b:1;a:1")
    producer = start()
    assert producer.queues("T") == (MessageQueue("T", "b", 0), MessageQueue("T", "a", 0))
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
    change_route(a=1, b=1, order_conf="a:1;b:1")
    with pytest.raises(LayoutChanged):
        producer.send(KEYED)


def test_loose_follows_changes_and_logs_them(start, change_route, caplog):
    producer = start(config=ProducerConfig(layout="loose"))
    producer.send(KEYED)
    change_route(a=8)
    assert len(producer.queues("T")) == 8
    changes = [r.getMessage() for r in caplog.records if "layout.changed" in r.getMessage()]
    assert len(changes) == 1
    assert "before='a:4'" in changes[0]


def test_keyless_messages_follow_the_route_and_pin_nothing(start, broker, change_route, caplog):
    producer = start()
    producer.send(KEYLESS)
    change_route(a=8)
    for _ in range(8):
        producer.send(KEYLESS)
    assert len(broker.logs) == 8
    assert "layout" not in caplog.text


def test_no_writable_queue_is_an_error_that_heals(start, broker, client, routes_of):
    client.table["T"] = routes_of("T")
    producer = start()
    with pytest.raises(RouteError, match="no queue of T"):
        producer.send(KEYED)
    client.table["T"] = routes_of("T", a=4)
    client.routes.refresh("T")
    producer.send(KEYED)
    assert len(broker.stored) == 1


def test_a_refused_topic_does_not_flood_the_name_server(start, client, change_route):
    producer = start()
    producer.send(KEYED)
    change_route(a=8)
    client.asked.clear()
    for _ in range(20):
        with pytest.raises(LayoutChanged):
            producer.send(KEYED)
    assert len(client.asked) <= 3
