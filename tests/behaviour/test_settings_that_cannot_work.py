"""What no member could run with is refused before anything starts, and the error says why."""

import functools
import threading

import pytest

from orderly import (
    Ack,
    AsyncListener,
    ConsumerConfig,
    ConsumerHooks,
    Listener,
    OrderlyConsumer,
    Retry,
    listener,
)
from orderly.errors import ConfigError, OrderlyError
from orderly.ordering.allocation import averagely
from orderly.ordering.allocation_rooms import machine_room_nearby
from tests.support.waiting import eventually


def handle(messages, context):
    return Ack()


async def handle_async(messages, context):
    return Ack()


async def key_async(message):
    return message.sharding_key


def yields(messages, context):
    yield Ack()


async def yields_async(messages, context):
    yield Ack()


class Yielding:
    def __call__(self, messages, context):
        yield Ack()

    async def method(self, messages, context):
        yield Ack()


def keys(message):
    yield message.sharding_key


SETTINGS = {
    "no window": ({"pull_threshold": 0}, "pull_threshold must be 1 message or more"),
    "no room": ({"pull_threshold_bytes": 0}, "pull_threshold_bytes must be 1 byte or more"),
    "no span": ({"max_span": 0}, "max_span must be 1 offset or more"),
    "nobody": ({"concurrency": 0}, "need 1 <= min_workers <= concurrency"),
    "no wait": ({"suspend": 2.0, "max_suspend": 1.0}, "max_suspend must be from suspend"),
    "no such order": ({"order": "keys"}, "order must be 'queue' or 'key'"),
    "no such executor": ({"executor": "fork"}, "executor must be 'thread' or 'process'"),
}


@pytest.mark.parametrize(("settings", "said"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting(settings, said):
    with pytest.raises(ConfigError, match=said):
        ConsumerConfig(**{"order": "key"} | settings)


FUNCTIONS = {
    "a lambda in a process": (lambda m, c: Ack(), {}, "lambda.* no name a worker process could"),
    "a coroutine in a process": (handle_async, {}, "handle_async is async; .* plain function"),
    "a key that is no function": (handle, {"key": "sharding_key"}, "key must be callable"),
    "an async key": (handle, {"key": key_async}, "key is async"),
    "a generator key": (handle, {"key": keys}, "key has a `yield`"),
    "a generator strategy": (
        handle,
        {"allocate": lambda *_: (yield)},
        "allocate has a `yield`.* return the answer",
    ),
} | {
    f"a generator as handler, {kind}": (handler, {}, r"has a `yield`, .*return Ack\(\)")
    for kind, handler in {
        "plain": yields,
        "async": yields_async,
        "an object": Yielding(),
        "a method": Yielding().method,
        "a partial": functools.partial(yields),
        "of a topic": {"orders": yields},
    }.items()
}


@pytest.mark.parametrize(("handler", "given", "said"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function(handler, given, said, orderly_namesrv, group):
    config = ConsumerConfig(order="key", executor="process")
    before = set(threading.enumerate())
    with pytest.raises(OrderlyError, match=said):
        OrderlyConsumer(group, handler, namesrv=orderly_namesrv, config=config, **given)
    eventually(lambda: set(threading.enumerate()) <= before)


GENERATORS = {
    "a listener": lambda: listener(yields),
    "an async listener": lambda: AsyncListener(yields_async),
    "a listener's decoder": lambda: Listener(handle, decode=keys),
    "a retry rule": lambda: Retry(retry=keys),
    "a hook": lambda: ConsumerHooks(assigned=keys),
    "a room": lambda: machine_room_nearby(averagely, keys, keys),
}


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_a_generator_in_place_of_a_function(make):
    """A call would run nothing of it."""
    with pytest.raises(ConfigError):
        make()


def test_a_key_function_without_order_by_key():
    with pytest.raises(ConfigError, match="order='queue'"):
        OrderlyConsumer("g", handle, namesrv="localhost:9876", key=lambda message: message.body)


def ship(message, attempt):
    return Ack()


async def ship_async(message, attempt):
    return Ack()


CONTRADICTIONS = {
    "parking without keys": ({}, {"on_poison": "park_key"}, "order='key'"),
    "two limits": ({"max_reconsume_times": 0}, {}, "max_reconsume_times"),
    "both give up": ({"max_reconsume_times": 16}, {"on_poison": "dead_letter"}, "poison=None"),
    "a wait beyond the lock": (
        {"lock_trust": 25.0},
        {"retry": Retry(max_seconds=26)},
        "extend=True",
    ),
}
FITS = {
    "defaults": ({}, {}),
    "parking by key": ({"order": "key"}, {"on_poison": "park_key"}),
    "one limit": ({"max_reconsume_times": 16}, {"poison": None}),
    "a wait within the lock": ({"lock_trust": 25.0}, {"retry": Retry(max_seconds=25)}),
    "extended": ({"lock_trust": 25.0}, {"retry": Retry(max_seconds=300, extend=True)}),
    "without a lock": (
        {"lock_trust": 25.0, "model": "broadcasting", "instance": "cache-1"},
        {"retry": Retry(max_seconds=26)},
    ),
}


@pytest.fixture(params=[(Listener, ship), (AsyncListener, ship_async)], ids=["plain", "async"])
def consumer_of(request, orderly_namesrv, group):
    """Make a consumer of a listener with such settings."""
    kind, function = request.param

    def make(config, settings):
        listener, config = kind(function, **settings), ConsumerConfig(**config)
        return OrderlyConsumer(group, listener, namesrv=orderly_namesrv, config=config)

    return make


@pytest.mark.parametrize(
    ("config", "settings", "said"), CONTRADICTIONS.values(), ids=CONTRADICTIONS
)
def test_a_listener_that_contradicts_its_consumer(config, settings, said, consumer_of):
    with pytest.raises(ConfigError, match=said):
        consumer_of(config, settings)


@pytest.mark.parametrize(("config", "settings"), FITS.values(), ids=FITS)
def test_a_listener_that_fits(config, settings, consumer_of):
    consumer_of(config, settings).close()


def test_of_a_function_no_listeners_setting_is_asked(orderly_namesrv):
    config = ConsumerConfig(max_reconsume_times=3)
    OrderlyConsumer("g", handle, namesrv=orderly_namesrv, config=config).close()
