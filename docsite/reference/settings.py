"""The settings of configuration classes: name, default, variable, meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pydoc import locate
from typing import Any

from docsite.docstrings import section
from docsite.markdown import code, prose, terms
from orderly.config.fields import FromEnv, has_variable


def of_class(path: str) -> str:
    """All settings of a class, as "orderly.config.ClientConfig"; each has an anchor."""
    kind = locate(path)
    assert isinstance(kind, type)
    return terms(_entries(kind))


def _entries(kind: type) -> Iterator[tuple[str, str]]:
    meanings = section(kind, "Attributes", "Args")
    for field in fields(kind):
        told = (_default(field), *variable_of(kind, field))
        parts = [f"**{code(field.name)}**", *(f"<small>{code(each)}</small>" for each in told)]
        anchor = f"{kind.__name__}-{field.name}".lower()
        yield f"{'<br>'.join(parts)} {{: #{anchor} }}", prose(meanings[field.name])


def _default(field: Field[Any]) -> str:
    """The type, and the default if it can be written: what is an object is told by the meaning."""
    default = field.default
    if default is MISSING and field.default_factory is not MISSING:
        default = field.default_factory()
    plain = default is None or isinstance(default, str | int | float)
    return f"{field.type} = {default!r}" if plain else str(field.type)


def variable_of(kind: type, field: Field[Any]) -> Iterator[str]:
    """The environment variable of a setting; nothing if it has none."""
    if issubclass(kind, FromEnv) and has_variable(kind, field.name):
        yield f"ORDERLY_{field.name.upper()}"
