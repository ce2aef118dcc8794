"""Checks of arguments by what they are; of numbers in `numbers`, of functions in `functions`.

What is wrong is named by its type, never shown: it may be a secret, or a million characters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from orderly.config.numbers import is_int
from orderly.errors import ConfigError
from orderly.model import MessageQueue


def check_kind(name: str, value: object, kind: type | tuple[type, ...], what: str = "") -> None:
    """Raise ConfigError unless `value` is a `kind`.

    Args:
        name: of the argument.
        value: the user's.
        kind: one class, or several.
        what: it must be; default: "a Kind".
    """
    if not isinstance(value, kind):
        classes = kind if isinstance(kind, tuple) else (kind,)
        wanted = what or " or ".join(f"a {each.__name__}" for each in classes)
        raise ConfigError(f"{name} must be {wanted}, not {_kind_of(value)}")


def check_given(name: str, value: object, kind: type, what: str = "") -> None:
    """As `check_kind`, for an argument that may be None."""
    if value is not None:
        check_kind(name, value, kind, f"{what or f'a {kind.__name__}'} or None")


def check_text(name: str, value: object, *, empty: bool = True) -> None:
    """Raise ConfigError unless `value` is a str, and not an empty one if `empty` is False."""
    if not isinstance(value, str) or not (empty or value):
        wanted = "a str" if empty else "a str that is not empty"
        raise ConfigError(f"{name} must be {wanted}, not {_kind_of(value)}")


def check_flag(name: str, value: object) -> None:
    """Raise ConfigError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, not {_kind_of(value)}")


def check_texts(name: str, value: Iterable[str]) -> None:
    """Raise ConfigError unless `value` is a collection of str, and not itself one."""
    fits = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    if not fits or not all(isinstance(each, str) for each in value):
        raise ConfigError(f"{name} must be a list of str, not {_kind_of(value)}")


def check_named_texts(name: str, value: Mapping[str, Any] | None, *, texts: bool = True) -> None:
    """Raise ConfigError unless `value` is None (as if left out), or a mapping of str to str.

    Args:
        name: of the argument.
        value: the user's.
        texts: whether its values must be str; else anything.
    """
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be a mapping such as a dict, not {_kind_of(value)}")
    for key, each in value.items():
        if not isinstance(key, str):
            raise ConfigError(f"{name} must have names of type str, not {_kind_of(key)}")
        if texts and not isinstance(each, str):
            raise ConfigError(f"{name}: the value of {key!r} must be a str, not {_kind_of(each)}")


def check_queue(name: str, value: object) -> None:
    """Raise ConfigError unless `value` is a MessageQueue, with fields that one can have."""
    if not (
        isinstance(value, MessageQueue)
        and isinstance(value.topic, str)
        and isinstance(value.broker_name, str)
        and is_int(value.queue_id)
        and value.queue_id >= 0
    ):
        raise ConfigError(
            f"{name} must be a MessageQueue(topic, broker_name, queue_id), not {_kind_of(value)}"
        )


def check_queues(name: str, value: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
    """Return the queues of an iterable, or the one that was passed alone.

    Raises:
        ConfigError: something else, or something else among them.
    """
    if isinstance(value, MessageQueue):
        value = (value,)
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise ConfigError(f"{name} must be MessageQueue values, not {_kind_of(value)}")
    queues = tuple(value)
    for queue in queues:
        check_queue(f"each of {name}", queue)
    return queues


def _kind_of(value: object) -> str:
    """A wrong value, for the error: what it is; where that says it all, itself."""
    if value is None or isinstance(value, bool | MessageQueue):
        return repr(value)
    return "an empty one" if value == "" else type(value).__name__
