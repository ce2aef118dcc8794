"""Every public callable, found where users find it: on the pages of the API reference.

`tests/docsite` sees that each public name has a place there, so a new one is found by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tests.frozen.public import PAGES, Place, places


@dataclass(frozen=True)
class Public:
    """One public callable.

    Attributes:
        name: as a user writes it.
        call: itself; of a method the function, without its object.
        owner: the class it is a method of; None for functions and classes.
        parameters: what a user passes.
    """

    name: str
    call: Callable[..., Any] = field(repr=False)
    owner: type | None = None
    parameters: tuple[inspect.Parameter, ...] = ()

    def __str__(self) -> str:
        return self.name


def public_callables() -> dict[str, Public]:
    """All of them, by name."""
    found = (each for page in PAGES for place in places(page) for each in _of(place))
    return {public.name: public for public in found}


def made_elsewhere(thing: Any) -> bool:
    """Whether a user gives it no arguments of ours.

    An enum's call is Python's own look-up, an error says what its raiser says, and a Protocol is
    for somebody else to fill.
    """
    kind = inspect.isclass(thing) and issubclass(thing, Enum | Exception)
    return kind or getattr(thing, "_is_protocol", False)


def _of(place: Place) -> Iterator[Public]:
    thing = place.thing
    if inspect.isclass(thing):
        if not made_elsewhere(thing):
            yield from _of_class(place)
    elif inspect.isfunction(thing):
        yield Public(place.name, thing, None, _parameters(thing))


def _of_class(place: Place) -> Iterator[Public]:
    kind = place.thing
    yield Public(place.name, kind, None, _parameters(kind))
    for part in filter(place.shows, place.members or vars(kind)):
        name, static = f"{place.name}.{part}", inspect.getattr_static(kind, part)
        if isinstance(static, classmethod | staticmethod):
            bound = getattr(kind, part)
            yield Public(name, bound, None, _parameters(bound))
        elif inspect.isfunction(static):
            yield Public(name, static, kind, _parameters(static)[1:])


def _parameters(call: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(call).parameters.values())
