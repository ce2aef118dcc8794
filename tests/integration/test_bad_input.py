"""Bad input gets its own error, which says what to do; nothing is half-sent or half-started."""

import pytest

from orderly import (
    Client,
    ConsumerConfig,
    ConsumeResult,
    Message,
    OrderlyConsumer,
    OrderlyProducer,
    Park,
)
from orderly.errors import (
    ConfigError,
    InvalidMessage,
    LifecycleError,
    NameServerUnavailable,
    TopicNotFound,
)
from tests.support.consuming import unique

NOBODY = "127.0.0.1:1"


def handle(messages, context):
    return ConsumeResult.SUCCESS


def test_sending_to_an_unknown_topic_names_the_command_that_makes_it(producer):
    with pytest.raises(TopicNotFound, match="orderly topic create"):
        producer.send(Message(unique("missing"), b"x", sharding_key="k"))


def test_consuming_an_unknown_topic_fails_at_the_start_and_leaves_nothing_running(client):
    consumer = OrderlyConsumer(unique("group"), handle, client=client)
    consumer.subscribe(unique("missing"))
    with pytest.raises(TopicNotFound):
        consumer.start()
    assert consumer.state == "failed"
    with pytest.raises(LifecycleError):
        consumer.start()
    consumer.close()


@pytest.mark.parametrize("group", ["", "späte gruppe", "a b", "g" * 121, None, 7])
def test_group_names(group):
    with pytest.raises(ConfigError, match="group"):
        OrderlyConsumer(group, handle, namesrv=NOBODY)


@pytest.mark.parametrize("handler", [None, "handle", 7])
def test_a_handler_must_be_callable(handler):
    with pytest.raises(ConfigError, match="callable"):
        OrderlyConsumer("group", handler, namesrv=NOBODY)


@pytest.mark.parametrize("namesrv", ["host:port", ":9876", "host:0", "host:70000", "  ;  "])
def test_name_server_addresses(namesrv, monkeypatch):
    monkeypatch.delenv("ORDERLY_NAMESRV", raising=False)
    with pytest.raises(ConfigError, match="name server"):
        Client(namesrv=namesrv)


def test_no_name_server_there():
    with (
        pytest.raises(NameServerUnavailable, match=r"127\.0\.0\.1:1"),
        OrderlyProducer(namesrv=NOBODY) as producer,
    ):
        producer.send(Message("orders", b"x", sharding_key="k"))


@pytest.mark.parametrize(
    "fields",
    [
        {"body": b""},
        {"body": "\ud800"},
        {"topic": "bad topic"},
        {"topic": "t" * 128},
        {"sharding_key": ""},
        {"sharding_key": "a\x01b"},
        {"sharding_key": "\ud800"},
        {"sharding_key": 1.5},
        {"sharding_key": True},
        {"sharding_key": b"k"},
        {"properties": {"UNIQ_KEY": "mine"}},
        {"properties": {"name": "a\x02b"}},
        {"properties": {"name": "v" * 32768}},
    ],
    ids=lambda fields: repr(fields)[:40],
)
def test_messages_a_broker_would_refuse_cut_or_split_cannot_be_made(fields):
    with pytest.raises(ConfigError):
        Message(**{"topic": "orders", "body": b"x"} | fields)


@pytest.mark.parametrize(
    "message",
    [
        Message("orders", b"x" * (4 * 1024 * 1024 + 1)),
        Message("orders", b"x", properties={"name": "v" * 32700}),
    ],
    ids=["body", "properties"],
)
def test_messages_that_are_too_large_are_not_sent(producer, message):
    with pytest.raises(ConfigError):
        producer.submit(message)


def test_a_one_way_send_in_order_is_refused(producer):
    with pytest.raises(ConfigError, match="submit"):
        producer.send_oneway(Message("orders", b"x", sharding_key="k"))


class Parking:
    """A handler, such as a listener with on_poison="park_key", that parks keys."""

    parks = True

    def __call__(self, messages, context):
        return Park("poison")


@pytest.mark.parametrize(
    "settings",
    [{}, {"order": "key", "model": "broadcasting", "instance": "a"}],
    ids=["by queue", "broadcasting"],
)
def test_a_handler_that_parks_keys_needs_keys_to_park(settings):
    with pytest.raises(ConfigError, match="order='key'"):
        OrderlyConsumer("group", Parking(), namesrv=NOBODY, config=ConsumerConfig(**settings))


@pytest.mark.parametrize(
    "setting",
    [
        {"max_reconsume_times": -1},
        {"suspend": 0.001},
        {"suspend": 31},
        {"batch_size": 0},
        {"pull_threshold_topic": 0},
        {"lock_trust": 61},
        {"model": "broadcasting"},
        {"model": "multicast"},
        {"instance": "a"},
        {"consume_from": "yesterday"},
        {"allow_direct_consume": 1},
        {"parking": 1000},
    ],
    ids=str,
)
def test_settings_outside_their_range(setting):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        ConsumerConfig(**setting)


def test_invalid_message_is_a_value_error_too():
    assert issubclass(InvalidMessage, ValueError)
