"""What the pages of the API reference call public: names, and what a program may pass and get."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from orderly import errors

PAGES = sorted((Path(__file__).parents[2] / "docs/reference/api").glob("*.md"))
_PLACE = re.compile(r"^::: (\S+)(?:\n    options: \{(.*)\})?", re.MULTILINE)
_MEMBERS = re.compile(r"members: \[(.*?)\]")
_FILTERS = re.compile(r'"!(.*?)"')


class Place(NamedTuple):
    """One name of a page.

    Attributes:
        name: as a user writes it.
        thing: itself.
        members: of a class those that the page shows; None: all.
        hidden: patterns of members that it does not show.
    """

    name: str
    thing: Any
    members: list[str] | None
    hidden: list[str]

    def shows(self, member: str) -> bool:
        """Whether a member of a class is public."""
        if member.startswith("_"):
            return False
        chosen = self.members is None or member in self.members
        return chosen and not any(re.match(pattern, member) for pattern in self.hidden)


def places(page: Path) -> Iterator[Place]:
    """All names of a page; of a module its own."""
    for name, options in _PLACE.findall(page.read_text(encoding="utf-8")):
        chosen = _MEMBERS.search(options)
        members = None if chosen is None else re.findall(r"\w+", chosen[1])
        hidden, thing = _FILTERS.findall(options), _load(name)
        if not inspect.ismodule(thing):
            yield Place(name, thing, members, hidden)
            continue
        for part in members or _names_of(thing):
            yield Place(f"{name}.{part}", getattr(thing, part), None, hidden)


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


def _names_of(module: Any) -> list[str]:
    """What it says is public, or what it defines."""
    own = [k for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    return getattr(module, "__all__", [part for part in own if not part.startswith("_")])


def facts(page: Path) -> Iterator[str]:
    """The lines of a page: "name | what a program may rely on"."""
    for place in places(page):
        yield from _of(place)


def facts_of_errors() -> Iterator[str]:
    """The tree of errors: bases, answers, and what an error holds."""
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if kind.__module__ == errors.__name__:
            yield from _of(Place(f"orderly.errors.{name}", kind, None, []))


def _of(place: Place) -> Iterator[str]:
    if inspect.isclass(place.thing):
        yield from _class(place)
    elif hasattr(place.thing, "_pytestfixturefunction") or "Fixture" in type(place.thing).__name__:
        yield f"{place.name} | fixture"  # what it is in Python differs between pytest's releases
    elif inspect.isroutine(place.thing):
        yield from _call(place.name, place.thing)
    else:  # a type for annotations
        yield f"{place.name} | {_value(place.thing)}"


def _class(place: Place) -> Iterator[str]:
    kind = place.thing
    yield f"{place.name} | class{_bases(kind)}"
    if issubclass(kind, Enum):
        yield from (f"{place.name}.{each.name} |{_told(each.value)}" for each in kind)
    elif not issubclass(kind, Exception) and not getattr(kind, "_is_protocol", False):
        yield from _parameters(place.name, inspect.signature(kind), 0)
    told = getattr(kind, "__members__", ())
    for member in dir(kind):
        if place.shows(member) and member not in told and _is_ours(kind, member):
            yield from _member(f"{place.name}.{member}", kind, member)


def _told(value: Any) -> str:
    """The value of an enum's member, which programs store or send; a sentence is not frozen."""
    return "" if isinstance(value, str) and " " in value else f" = {value!r}"


def _is_ours(kind: type, member: str) -> bool:
    home = next(each for each in kind.__mro__ if member in vars(each))
    return home.__module__.startswith("orderly")


def _bases(kind: type) -> str:
    """Of an error those that a program catches it by."""
    bases = [each.__name__ for each in kind.__bases__] if issubclass(kind, Exception) else []
    return f"({', '.join(bases)})" if bases else ""


def _member(name: str, kind: type, member: str) -> Iterator[str]:
    static = inspect.getattr_static(kind, member)
    if isinstance(static, property):
        yield f"{name} | property: {_annotation(static.fget.__annotations__['return'])}"
    elif isinstance(static, cached_property):
        yield f"{name} | property: {_annotation(static.func.__annotations__['return'])}"
    elif isinstance(static, classmethod | staticmethod):
        yield f"{name} | {type(static).__name__}"
        yield from _call(name, static.__func__, skip=isinstance(static, classmethod))
    elif inspect.isroutine(static):
        yield from _call(name, static, skip=True)
    elif is_dataclass(kind) and (own := {f.name: f for f in fields(kind)}.get(member)):
        if not own.init:
            yield f"{name} | attribute: {_annotation(own.type)}"
    elif inspect.isdatadescriptor(static):
        yield f"{name} | attribute"
    else:
        yield f"{name} | = {_value(static)}"


def _call(name: str, call: Any, *, skip: bool = False) -> Iterator[str]:
    signature = inspect.signature(call)
    kind = "async call" if inspect.iscoroutinefunction(call) else "call"
    yield f"{name} | {kind} -> {_annotation(signature.return_annotation)}"
    yield from _parameters(name, signature, int(skip))


def _parameters(name: str, signature: inspect.Signature, skip: int) -> Iterator[str]:
    """A line for each, with its place if it may be given by place."""
    for place, each in enumerate(list(signature.parameters.values())[skip:], 1):
        by_name = each.kind in (each.KEYWORD_ONLY, each.VAR_KEYWORD)
        before = "by name" if by_name else f"{place}"
        only = ", by place only" if each.kind is each.POSITIONAL_ONLY else ""
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        default = "" if each.default is each.empty else f" = {_value(each.default)}"
        yield f"{name} | {before}{only}: {star}{each.name}: {_annotation(each.annotation)}{default}"


def _annotation(annotation: Any) -> str:
    """As the source has it, on every Python; what is not annotated is Any."""
    if annotation is inspect.Signature.empty:
        return "Any"
    text = annotation if isinstance(annotation, str) else _value(annotation)
    return text.strip("'\"").replace("'", "")


def _value(value: Any) -> str:
    """A default, without what differs between Pythons and runs."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__qualname__
    if value is None or isinstance(value, str | bytes | int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return f"by {', '.join(sorted(map(str, value)))}"
    if is_dataclass(value):
        return type(value).__name__ + "(…)"
    text = re.sub(r"\b(?:[a-zA-Z_]\w*\.)+(\w+)", r"\1", repr(value))
    return "…" if " object at 0x" in text else text
