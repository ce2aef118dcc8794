"""Every public callable, found where users find it: on the pages of the API reference.

`tests/docsite` sees that each public name has a place there, so a new one is found by itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[3] / "docs/reference/api"
_PLACE = re.compile(r"^::: (\S+)(?:\n    options: \{(.*)\})?", re.MULTILINE)
_MEMBERS = re.compile(r"members: \[(.*?)\]")
_FILTERS = re.compile(r'"!(.*?)"')


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
    found = (each for page in sorted(PAGES.glob("*.md")) for each in _of_page(page))
    return {public.name: public for public in found}


def made_elsewhere(thing: Any) -> bool:
    """Whether a user gives it no arguments of ours.

    An enum's call is Python's own look-up, an error says what its raiser says, and a Protocol is
    for somebody else to fill.
    """
    kind = inspect.isclass(thing) and issubclass(thing, Enum | Exception)
    return kind or getattr(thing, "_is_protocol", False)


def _of_page(page: Path) -> Iterator[Public]:
    for name, options in _PLACE.findall(page.read_text(encoding="utf-8")):
        chosen = _MEMBERS.search(options)
        members = None if chosen is None else re.findall(r"\w+", chosen[1])
        yield from _of(name, _load(name), members, _FILTERS.findall(options))


def _load(name: str) -> Any:
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            thing = import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for part in parts[split:]:
            thing = getattr(thing, part)
        return thing
    raise ModuleNotFoundError(name)


def _of(name: str, thing: Any, members: list[str] | None, hidden: list[str]) -> Iterator[Public]:
    if inspect.ismodule(thing):
        for part in members or _names_of(thing):
            yield from _of(f"{name}.{part}", getattr(thing, part), None, hidden)
    elif inspect.isclass(thing):
        if not made_elsewhere(thing):
            yield from _of_class(name, thing, members, hidden)
    elif inspect.isfunction(thing):
        yield Public(name, thing, None, _parameters(thing))


def _names_of(module: Any) -> list[str]:
    """What it says is public, or what it defines."""
    own = [k for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    return getattr(module, "__all__", [part for part in own if not part.startswith("_")])


def _of_class(
    name: str, kind: type, members: list[str] | None, hidden: list[str]
) -> Iterator[Public]:
    yield Public(name, kind, None, _parameters(kind))
    for part in vars(kind) if members is None else members:
        if part.startswith("_") or any(re.match(pattern, part) for pattern in hidden):
            continue
        static = inspect.getattr_static(kind, part)
        if isinstance(static, classmethod | staticmethod):
            yield Public(
                f"{name}.{part}", getattr(kind, part), None, _parameters(getattr(kind, part))
            )
        elif inspect.isfunction(static):
            yield Public(f"{name}.{part}", static, kind, _parameters(static)[1:])


def _parameters(call: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(call).parameters.values())
