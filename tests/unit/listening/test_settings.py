"""A wrong setting is refused when it is made, and the error says what would be right."""

from functools import partial, wraps

import pytest
import tenacity
import tenacity.asyncio

import orderly
from orderly import Ack, AsyncListener, Listener, PoisonRules, Retry
from orderly.errors import ConfigError
from orderly.listening.settings import Rules
from tests.support.case_ids import shown

NAN = float("nan")


def ship(message, attempt):
    return Ack()


async def ship_async(message, attempt):
    return Ack()


class AsyncShip:
    async def __call__(self, message, attempt):
        return Ack()


def policy(message, attempt, verdict):
    return Ack()


@pytest.mark.parametrize(
    "settings",
    [
        {"stop": 3},
        {"wait": 0.1},
        {"retry": "OSError"},
        {"stop": None},
        {"stop": tenacity.stop_after_attempt},
        {"wait": tenacity.wait_fixed},
        {"retry": tenacity.retry_if_exception_type},
        {"retry": tenacity.asyncio.retry_if_exception(ship_async)},
        {"retry": ship_async},
        {"max_seconds": -1},
        {"max_seconds": NAN},
        {"max_seconds": None},
        {"extend": 1},
    ],
    ids=shown,
)
def test_a_wrong_retry_is_refused(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Retry(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_seconds": 30.1},
        {"max_seconds": 3601, "extend": True},
        {"stop": tenacity.stop_after_delay(60)},
        {"stop": tenacity.stop_before_delay(25)},
        {"stop": tenacity.stop_after_attempt(3) & tenacity.stop_after_delay(60)},
    ],
    ids=shown,
)
def test_a_retry_budget_longer_than_the_lease_is_refused(settings):
    with pytest.raises(ConfigError, match="max_seconds"):
        Retry(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_seconds": 30},
        {"max_seconds": 3600, "extend": True},
        {"stop": tenacity.stop_after_delay(20)},
        {"stop": tenacity.stop_after_attempt(3) | tenacity.stop_after_delay(60)},
        {"stop": tenacity.stop_after_delay(60), "max_seconds": 60, "extend": True},
        {"stop": tenacity.stop_never, "max_seconds": 0},
    ],
    ids=shown,
)
def test_a_budget_within_the_lease_or_one_that_renews_it_is_accepted(settings):
    Retry(**settings)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"suspend": 0.001}, "suspend"),
        ({"suspend": NAN}, "suspend"),
        ({"suspend": 5, "max_suspend": 1}, "suspend"),
        ({"max_suspend": 3601}, "max_suspend"),
        ({"retry": 3}, "retry"),
        ({"poison": True}, "poison"),
        ({"on_poison": "park"}, "park_key"),
        ({"on_poison": None}, "on_poison"),
        ({"decode": "xml"}, "decode"),
        ({"decode": 3}, "decode"),
        ({"decode": ship_async}, "decode"),
        ({"on_poison": ship}, r"\(message, attempt, verdict\)"),
        ({"on_error": ValueError}, "on_error"),
        ({"on_error": {KeyboardInterrupt: "wait"}}, "on_error"),
        ({"on_error": {"OSError": "wait"}}, "on_error"),
        ({"on_error": {OSError: "park"}}, "on_error of OSError .*'wait'"),
        ({"on_error": {OSError: ship}}, r"on_error of OSError .*\(message, attempt, verdict\)"),
        ({"dry_run": "yes"}, "dry_run"),
        # contradictions
        ({"poison": None, "on_poison": "park_key"}, "on_poison"),
        ({"poison": None, "on_poison": "skip"}, "on_poison"),
        ({"poison": None, "on_poison": policy}, "on_poison"),
        ({"poison": None, "on_error": {ValueError: "wait"}}, "on_error"),
    ],
    ids=shown,
)
@pytest.mark.parametrize("make", [Rules, orderly.listener], ids=["rules", "decorator"])
def test_a_wrong_or_contradictory_setting_is_refused_and_named(make, settings, names):
    with pytest.raises(ConfigError, match=names):
        make(**settings)


def test_the_edges_are_accepted():
    Rules(suspend=0.01, max_suspend=0.01, poison=None)
    Rules(suspend=3600, max_suspend=3600, on_poison=policy, poison=PoisonRules())
    Rules(on_error={OSError: "skip", ConnectionError: "wait"})  # the nearer class decides
    Rules(on_error={OSError: policy})


def test_a_policy_must_be_a_plain_function():
    async def policy(message, attempt, verdict):
        return Ack()

    with pytest.raises(orderly.OrderlyError, match="on_poison"):
        Rules(on_poison=policy)


def test_the_function_must_be_callable():
    with pytest.raises(ConfigError, match="callable"):
        Listener("ship")


class Shop:
    def ship(self, message, attempt):
        return Ack()


@pytest.mark.parametrize(
    "function", [lambda message: Ack(), policy, Shop.ship, partial(ship, None)], ids=shown
)
def test_a_function_that_does_not_take_a_message_and_an_attempt_is_refused(function):
    with pytest.raises(ConfigError, match=r"\(message, attempt\)"):
        Listener(function)
    with pytest.raises(ConfigError, match=r"\(value, attempt\)"):
        orderly.listener(decode="json")(function)


def test_whatever_takes_a_message_and_an_attempt_is_accepted():
    @wraps(policy)
    def wrapper(*given):
        return policy(*given, None)

    for function in (wrapper, Shop().ship, partial(policy, verdict=None), max):
        Listener(function)


@pytest.mark.parametrize("function", [ship_async, AsyncShip()])
def test_a_class_is_for_one_kind_of_function(function):
    with pytest.raises(ConfigError, match="AsyncListener"):
        Listener(function)
    with pytest.raises(ConfigError, match="Listener"):
        AsyncListener(ship)


@pytest.mark.parametrize(
    ("function", "kind"), [(ship, Listener), (ship_async, AsyncListener)], ids=["plain", "async"]
)
def test_the_decorator_takes_both_kinds_and_keeps_the_name(function, kind):
    made = orderly.listener(on_poison="park_key", dry_run=True)(function)
    assert type(made) is kind
    assert (made.__name__, made.__wrapped__) == (function.__name__, function)
    assert (made.parks, made.dry_run) == (True, True)
    for plain in (orderly.listener()(function), orderly.listener(function)):
        assert type(plain) is kind
        assert (plain.parks, plain.dry_run) == (False, False)


def test_the_consumer_sees_which_kind_it_is():
    from orderly.config.arguments import is_async  # noqa: PLC0415

    assert is_async(orderly.listener()(ship_async))
    assert is_async(orderly.listener()(AsyncShip()))
    assert not is_async(orderly.listener()(ship))
