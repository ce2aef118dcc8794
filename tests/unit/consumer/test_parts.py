"""A handler whose settings contradict the consumer's is refused before anything starts."""

import pytest

from orderly import Ack, AsyncListener, ConsumerConfig, Listener, OrderlyConsumer, Retry
from orderly.consumer.parts import check_handler
from orderly.errors import ConfigError


def ship(message, attempt):
    return Ack()


async def ship_async(message, attempt):
    return Ack()


@pytest.fixture(params=[(Listener, ship), (AsyncListener, ship_async)], ids=["plain", "async"])
def listener(request):
    kind, function = request.param
    return lambda **settings: kind(function, **settings)


@pytest.mark.parametrize(
    ("config", "settings", "named"),
    [
        ({}, {"on_poison": "park_key"}, "order='key'"),
        ({"max_reconsume_times": 0}, {}, "max_reconsume_times"),
        ({"max_reconsume_times": 16}, {"on_poison": "dead_letter"}, "poison=None"),
        ({"lock_trust": 25.0}, {"retry": Retry(max_seconds=26)}, "extend=True"),
    ],
)
def test_a_contradiction_is_refused_and_says_what_to_do(listener, config, settings, named):
    with pytest.raises(ConfigError, match=named):
        check_handler(ConsumerConfig(**config), listener(**settings))


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        ({}, {}),
        ({"order": "key"}, {"on_poison": "park_key"}),
        ({"max_reconsume_times": 16}, {"poison": None}),
        ({"lock_trust": 25.0}, {"retry": Retry(max_seconds=25)}),
        ({"lock_trust": 25.0}, {"retry": Retry(max_seconds=300, extend=True)}),
        (
            {"lock_trust": 25.0, "model": "broadcasting", "instance": "cache-1"},
            {"retry": Retry(max_seconds=26)},
        ),
    ],
)
def test_what_fits_is_accepted(listener, config, settings):
    check_handler(ConsumerConfig(**config), listener(**settings))


def test_the_consumer_refuses_it_when_it_is_made(listener):
    with pytest.raises(ConfigError, match="max_reconsume_times"):
        OrderlyConsumer("group", listener(), config=ConsumerConfig(max_reconsume_times=3))


def test_a_handler_that_is_no_listener_is_asked_nothing():
    check_handler(ConsumerConfig(max_reconsume_times=3), lambda messages, context: Ack())
