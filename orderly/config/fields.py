"""What every config does with its fields: check their types, read them from the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any, Self, SupportsIndex, TypeVar

from orderly.config.arguments import check_named_texts, is_int, is_number
from orderly.errors import ConfigError

MIB = 1024 * 1024

ConfigT = TypeVar("ConfigT")


NOT_SHOWN = "***"
"""What is shown in place of a secret."""


class Secret(str):
    """A text that is not shown by accident: not by its repr, nor by `dataclasses.asdict`.

    To whoever reads the field and uses it, it is the text.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(NOT_SHOWN)

    def __deepcopy__(self, memo: dict[int, Any]) -> str:
        """Make what `asdict` and `astuple` put in its place."""
        return NOT_SHOWN

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Refuse to be pickled."""
        raise ConfigError(
            "a secret is not pickled, nor copied: whatever holds the pickle would hold it; read it"
            " where it is used"
        )


def require(condition: bool, message: str) -> None:
    """Raise ConfigError with `message` unless `condition` holds."""
    if not condition:
        raise ConfigError(message)


def given(kind: type[ConfigT], config: object, **defaults: Any) -> ConfigT:
    """What was passed as `config`, or one with `defaults` if that is None.

    Raises:
        ConfigError: it is something else, say a dict.
    """
    if config is None:
        return kind(**defaults)
    if not isinstance(config, kind):  # it is not shown: there may be secrets in it
        raise ConfigError(f"config must be a {kind.__name__}, not {type(config).__name__}")
    return config


@dataclass(frozen=True, slots=True)
class _Kind:
    """One type a field may have: what it is called, what it accepts, how its text is read."""

    name: str
    accepts: Callable[[object], bool]
    read: Callable[[str], object]


def _read_bool(text: str) -> bool:
    return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
        text.strip().lower()
    ]


_KINDS: dict[str, _Kind] = {
    "int": _Kind("an int", is_int, int),
    "float": _Kind("a finite number", is_number, float),
    "str": _Kind("a str", lambda value: isinstance(value, str), str),
    "bool": _Kind("True or False", lambda value: isinstance(value, bool), _read_bool),
    "int | None": _Kind("an int or None", lambda value: value is None or is_int(value), int),
    "float | None": _Kind(
        "a finite number or None", lambda value: value is None or is_number(value), float
    ),
}


def check_types(config: Any) -> None:
    """Check the type of every plain field; a bool is no number, and neither is NaN."""
    for field in _plain(config):
        kind, value = _KINDS[str(field.type)], getattr(config, field.name)
        shown = f"not {value!r}" if field.repr else "and it is not"  # a secret is never shown
        require(kind.accepts(value), f"{field.name} must be {kind.name}, {shown}")


def _plain(config: Any) -> list[Field[Any]]:
    """The fields that have a variable; those with parts of their own are the config's to check."""
    return [field for field in fields(config) if str(field.type) in _KINDS]


class FromEnv:
    """Adds `from_env()` to a config; explicit arguments win over the environment."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None, **explicit: Any) -> Self:
        """Read `ORDERLY_<FIELD>` from `env` (default: os.environ); `explicit` fields win.

        Raises:
            ConfigError: a variable that cannot be read as its field's type.
        """
        check_named_texts("env", env)
        env = os.environ if env is None else env
        found: dict[str, Any] = {
            f.name: _from_text(f.name, str(f.type), env[f"ORDERLY_{f.name.upper()}"])
            for f in _plain(cls)
            if f"ORDERLY_{f.name.upper()}" in env
        }
        return cls(**(found | explicit))


def _from_text(name: str, kind: str, text: str) -> object:
    try:
        return _KINDS[kind].read(text)
    except (ValueError, KeyError) as error:
        raise ConfigError(f"ORDERLY_{name.upper()}={text!r} must be {_KINDS[kind].name}") from error
