"""What every config does with its fields: check their types, read them from the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Literal, Self, SupportsIndex, TypeVar, get_args, get_origin
from typing import get_type_hints as types_of

from orderly.config.arguments import check_named_texts, is_int, is_number
from orderly.config.variables import PREFIX, warn_of_unknown
from orderly.errors import ConfigError

MIB = 1024 * 1024

ConfigT = TypeVar("ConfigT")


NOT_SHOWN = "***"
"""What is shown in place of a secret."""


class Secret(str):
    """A text that is not shown by accident: not by its repr, nor by `dataclasses.asdict`.

    Code that reads the field gets the text.
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
            "a secret cannot be pickled or copied, because the copy would contain it; read it"
            " where it is used"
        )


def require(condition: bool, message: str) -> None:
    """Raise ConfigError with `message` unless `condition` holds."""
    if not condition:
        raise ConfigError(message)


def given(kind: type[ConfigT], config: object, **defaults: Any) -> ConfigT:
    """Return `config`, or if it is None a new one with `defaults`.

    Raises:
        ConfigError: `config` is something else, for example a dict.
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


_KINDS: Mapping[object, _Kind] = {
    int: _Kind("an int", is_int, int),
    float: _Kind("a finite number", is_number, float),
    str: _Kind("a str", lambda value: isinstance(value, str), str),
    bool: _Kind("True or False", lambda value: isinstance(value, bool), _read_bool),
    int | None: _Kind("an int or None", lambda value: value is None or is_int(value), int),
    float | None: _Kind(
        "a finite number or None", lambda value: value is None or is_number(value), float
    ),
}


def _one_of(choices: tuple[str, ...]) -> _Kind:
    """The kind of a field that is one of these words."""
    *most, last = map(repr, choices)

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    known = frozenset(choices)

    def accepts(value: object) -> bool:
        return isinstance(value, str) and value in known

    return _Kind(f"{', '.join(most)} or {last}" if most else last, accepts, read)


def _kinds_of(config: type) -> Mapping[str, _Kind]:
    """Return the kind of each plain field; those with parts of their own the config checks.

    Raises:
        TypeError: a field of a type that nobody here can check, nor read from the environment.
    """
    found = {}
    for name, kind in types_of(config).items():
        if name not in config.__annotations__ or is_dataclass(kind):
            continue
        words = get_args(kind) if get_origin(kind) is Literal else ()
        if words and all(isinstance(word, str) for word in words):
            found[name] = _one_of(words)
        elif kind in _KINDS:
            found[name] = _KINDS[kind]
        else:
            raise TypeError(f"{config.__name__}.{name}: no rule says how to check a {kind}")
    return found


class FromEnv:
    """Adds `from_env()` to a config; explicit arguments win over the environment.

    The types of the fields are read when the class is defined. A type that cannot be checked, or
    read from a text, raises an error there.
    """

    _kinds: ClassVar[Mapping[str, _Kind]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._kinds = _kinds_of(cls)

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None, **explicit: Any) -> Self:
        """Read `ORDERLY_<FIELD>` from `env` (default: os.environ); `explicit` fields win.

        A variable that is no setting, but is named almost like one, causes a warning.

        Raises:
            ConfigError: a variable that cannot be read as its field's type.
        """
        check_named_texts("env", env)
        env = os.environ if env is None else env
        warn_of_unknown(env, variables_of_fields(), only_near=True)
        found: dict[str, Any] = {
            name: _from_text(name, kind, env[variable_of(name)])
            for name, kind in cls._kinds.items()
            if variable_of(name) in env
        }
        return cls(**(found | explicit))


def variable_of(field: str) -> str:
    """The variable that sets a field: ORDERLY_NAMESRV."""
    return PREFIX + field.upper()


def variables_of_fields() -> set[str]:
    """The variables that any config reads."""
    configs = FromEnv.__subclasses__()
    return {variable_of(name) for each in configs for name in each._kinds}  # noqa: SLF001


def has_variable(config: type[FromEnv], field: str) -> bool:
    """Whether a field can be set in the environment."""
    return field in config._kinds  # noqa: SLF001 - of the same concept


def type_fault(config: type[FromEnv], field: str, value: object) -> str:
    """Say what a field must be if `value` is none of it, without showing it; "" if it is."""
    kind = config._kinds.get(field)  # noqa: SLF001 - as above
    return f"must be {kind.name}" if kind and not kind.accepts(value) else ""


def check_types(config: FromEnv) -> None:
    """Check the type of every plain field; a bool is not a number, and neither is NaN."""
    shown = {field.name: field.repr for field in fields(config)}  # type: ignore[arg-type]
    for name, kind in config._kinds.items():  # noqa: SLF001 - as above
        value = getattr(config, name)
        what = f"not {value!r}" if shown[name] else "and it is not"  # a secret is never shown
        require(kind.accepts(value), f"{name} must be {kind.name}, {what}")


def _from_text(name: str, kind: _Kind, text: str) -> object:
    try:
        return kind.read(text)
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{variable_of(name)}={text!r} must be {kind.name}") from error
