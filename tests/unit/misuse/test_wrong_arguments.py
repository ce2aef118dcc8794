"""Every public argument is checked where it is given: a clear error, and no state changed.

The callables are those of the API reference, the wrong values those of their annotations. So a new
one is covered by itself; what is not checked stands in `exceptions`, with the reason.
"""

import asyncio
import contextlib
import inspect
from fnmatch import fnmatchcase
from inspect import Parameter

import pytest

import orderly
from orderly import Message, OrderlyConsumer, OrderlyProducer, once, selectors, telemetry, testing
from orderly.errors import ConfigError, InvalidMessage, LifecycleError, NotAvailableYet
from tests.unit.misuse.exceptions import EXCEPTIONS, reason
from tests.unit.misuse.public import made_elsewhere, public_callables
from tests.unit.misuse.world import World, handle
from tests.unit.misuse.wrong import wrong_values

PUBLIC = public_callables()
ARGUMENTS = [
    pytest.param(public, parameter, id=f"{public.name}({parameter.name})")
    for public in PUBLIC.values()
    for parameter in public.parameters
    if reason(public.name, parameter.name) is None
]
OPTION = "selector"  # one that takes text


@pytest.fixture(scope="module")
def world():
    with contextlib.ExitStack() as stack:
        world = World(stack)
        yield world
        world.still_works()


def call(function, public, given):
    """Call with these arguments, by name where that can be; a coroutine is run to its end."""
    by_place, by_name = [], {}
    kinds = {parameter.kind for parameter in public.parameters}
    for parameter in public.parameters:
        if parameter.name not in given:
            continue
        value = given[parameter.name]
        if parameter.kind is Parameter.VAR_POSITIONAL:
            by_place.append(value)
        elif parameter.kind is Parameter.VAR_KEYWORD:
            by_name[OPTION] = value
        elif parameter.kind is Parameter.POSITIONAL_ONLY or Parameter.VAR_POSITIONAL in kinds:
            by_place.append(value)
        else:
            by_name[parameter.name] = value
    answer = function(*by_place, **by_name)
    if inspect.iscoroutine(answer):
        asyncio.run(answer)


@pytest.mark.parametrize(("public", "parameter"), ARGUMENTS)
def test_a_wrong_argument_is_refused_by_name_and_changes_nothing(public, parameter, world):
    right = world.right(public)
    for wrong in wrong_values(public, parameter):
        try:
            call(world.bound(public), public, right | {parameter.name: wrong})
        except (ConfigError, NotAvailableYet) as error:
            said = str(error)
        else:
            pytest.fail(f"{parameter.name}={wrong!r:.80} was taken")
        name = OPTION if parameter.kind is Parameter.VAR_KEYWORD else parameter.name
        one_of_many = name == "properties" and "property" in said
        assert one_of_many or name.replace("_", " ") in said.lower().replace("_", " "), said
    assert world.unchanged()


# --- what no table of values can say


def test_a_consumer_without_a_subscription_does_not_start_and_can_be_given_one(world):
    consumer = OrderlyConsumer("late", handle, client=world.client)
    with pytest.raises(ConfigError, match="subscribe to a topic before start"):
        consumer.start()
    with pytest.raises(ConfigError, match="subscribe to a topic before start"):
        asyncio.run(consumer.run())
    assert consumer.state == "created"
    with consumer.subscribe("orders"):
        assert consumer.state == "running"


def test_a_consumer_that_was_closed_says_so_without_a_subscription_too(world):
    consumer = OrderlyConsumer("never", handle, client=world.client)
    consumer.close()
    with pytest.raises(LifecycleError, match="closed"):
        consumer.start()


def test_keys_that_can_be_looked_at_once_are_no_keys(world):
    """The check would use them up, and the message would be stored without."""
    with pytest.raises(InvalidMessage, match="keys"):
        world.producer.send(Message("orders", b"x", keys=(key for key in "ab")))


def test_a_producer_waits_without_a_limit_where_it_is_told_to(world):
    producer = OrderlyProducer("patient", client=world.client).start()
    future = producer.submit(Message("orders", b"x", sharding_key="k"))
    producer.close(None)
    assert future.result(timeout=0).queue.topic == "orders"


# --- nothing is left out unsaid


@pytest.mark.parametrize(
    "module", [orderly, once, selectors, telemetry, testing], ids=lambda m: m.__name__
)
def test_each_public_callable_of_a_module_is_among_them(module):
    named = (getattr(module, name) for name in module.__all__)
    called = {each for each in named if inspect.isclass(each) or inspect.isfunction(each)}
    found = {public.call for public in PUBLIC.values()}
    assert {each for each in called - found if not made_elsewhere(each)} == set()


@pytest.mark.parametrize("pattern", EXCEPTIONS)
def test_each_exception_is_about_something(pattern):
    assert any(
        fnmatchcase(f"{public.name}({parameter.name})", pattern)
        for public in PUBLIC.values()
        for parameter in public.parameters
    )
