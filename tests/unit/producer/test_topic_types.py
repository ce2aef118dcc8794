"""Topics that are declared to have no order take no message that wants one."""

import asyncio

import pytest
from structlog.testing import capture_logs

from orderly.config import ProducerConfig
from orderly.errors import (
    ConfigError,
    InvalidMessage,
    LayoutChanged,
    NoPermission,
    RequestTimeout,
)
from orderly.model import Message
from orderly.protocol.message_types import APPEARS_LATER, MessageType
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
    with pytest.raises(ConfigError, match="what wants order"):
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
