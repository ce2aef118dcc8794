"""A wrong setting is refused when it is made, and the error says what would be right."""

import pytest

from orderly.errors import ConfigError, NotAvailableYet
from orderly.listener import Block, Listener, Retry
from orderly.ordering.outcomes import Ack, DeadLetter, Park


def ship(message, attempt):
    return Ack()


async def ship_async(message, attempt):
    return Ack()


class AsyncShip:
    async def __call__(self, message, attempt):
        return Ack()


NAN = float("nan")


@pytest.mark.parametrize(
    "settings",
    [
        {"attempts": 0},
        {"attempts": 1.5},
        {"attempts": True},
        {"first_wait": -0.1},
        {"first_wait": "1"},
        {"first_wait": 6.0},
        {"max_wait": -1},
        {"max_wait": float("inf")},
        {"max_seconds": NAN},
        {"max_seconds": float("inf")},
        {"max_seconds": None},
        {"fatal": ValueError},
        {"fatal": (KeyboardInterrupt,)},
        {"fatal": ("ValueError",)},
    ],
    ids=str,
)
def test_a_wrong_retry_is_refused(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Retry(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"suspend": 0.001},
        {"suspend": 3601},
        {"suspend": NAN},
        {"suspend": 5, "max_suspend": 1},
        {"max_suspend": 3601},
        {"limit": -1},
        {"limit": 1.0},
        {"limit": True},
        {"then": "dead_letter"},
        {"then": DeadLetter("instance")},
        {"then": Park},
        {"then": Ack},
        {"retry": 3},
    ],
    ids=str,
)
def test_a_wrong_setting_of_the_listener_is_refused(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Listener(ship, **settings)


def test_the_edges_are_accepted():
    retry = Retry(attempts=1, first_wait=0, max_wait=0, max_seconds=0, fatal=(ValueError, KeyError))
    Listener(ship, retry=retry, suspend=0.01, max_suspend=0.01, limit=0, then=DeadLetter)
    Listener(ship, suspend=3600, max_suspend=3600, limit=None, then=Block)


def test_the_function_must_be_callable():
    with pytest.raises(ConfigError, match="callable"):
        Listener("ship")


@pytest.mark.parametrize("function", [ship_async, AsyncShip()])
def test_an_async_function_is_not_available_yet(function):
    with pytest.raises(NotAvailableYet, match="plain function"):
        Listener(function)
