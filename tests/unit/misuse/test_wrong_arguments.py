"""Every public argument is checked where it is given: a clear error, and no state changed.

The callables are those of the API reference, the wrong values those of their annotations. So a new
one is covered by itself; what is not checked stands in `exceptions`, with the reason.
"""

import asyncio
import contextlib
import dataclasses
import inspect
import math
import threading
import time
from inspect import Parameter

import pytest

from orderly import Message, OrderlyConsumer, OrderlyProducer
from orderly.errors import ConfigError, InvalidMessage, NotAvailableYet
from tests.support.waiting import eventually
from tests.unit.misuse.exceptions import EXCEPTIONS, reason
from tests.unit.misuse.public import public_callables
from tests.unit.misuse.world import NOBODY, World, handle
from tests.unit.misuse.wrong import THING, WRONG, wrong_values

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
        with world.bound(public) as function:
            try:
                call(function, public, right | {parameter.name: wrong})
            except (ConfigError, NotAvailableYet) as error:
                said = str(error)
            else:
                pytest.fail(f"{parameter.name}={wrong!r:.80} was taken")
        name = OPTION if parameter.kind is Parameter.VAR_KEYWORD else parameter.name
        assert name.replace("_", " ") in said.lower().replace("_", " "), (wrong, said)
    assert world.unchanged()
