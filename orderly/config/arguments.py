"""Checks of the arguments that users pass: numbers, names, addresses, functions, texts, queues.

An error names the type of a wrong value and never shows the value: it can be a secret, or have a
million characters.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from ipaddress import IPv6Address, ip_address
from threading import TIMEOUT_MAX
from typing import Any, TypeGuard

from orderly.errors import ConfigError, NotAvailableYet
from orderly.model import MessageQueue
from orderly.namespace import wrap

MIN_SUSPEND = 0.01  # seconds (as Java)
MAX_SUSPEND = 30.0  # seconds a queue may wait (as Java)
MAX_LANE_SUSPEND = 3600.0  # seconds a key's lane may wait; other keys go on meanwhile

_ANY = sys.float_info.max  # finite


def is_int(value: object) -> TypeGuard[int]:
    """Whether `value` is an int and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object, low: float = -_ANY, high: float = _ANY) -> TypeGuard[float]:
    """Whether `value` is a finite number from `low` to `high`."""
    return (isinstance(value, float) or is_int(value)) and low <= value <= high


def check_number(name: str, value: object, low: float, high: float = _ANY) -> None:
    """Raise ConfigError unless `value` is a finite number from `low` to `high`."""
    if not is_number(value, low, high):
        bounds = f"{low:g} or more" if high == _ANY else f"{low:g} to {high:g}"
        raise ConfigError(f"{name} must be a number, {bounds}, not {value!r}")


def check_seconds(name: str, value: float) -> float:
    """Return `value` if it is a number of seconds above 0 that can be waited, else raise."""
    if not is_number(value, 0, TIMEOUT_MAX) or value == 0:
        raise ConfigError(f"{name} must be a number of seconds above 0, not {value!r}")
    return value


def check_timeout(name: str, value: object) -> None:
    """Raise ConfigError unless `value` is None, or seconds that can be waited: 0 or more."""
    if value is not None and not is_number(value, 0, TIMEOUT_MAX):
        raise ConfigError(
            f"{name} must be a number of seconds, 0 or more, or None for no limit, not {value!r}"
        )


def check_count(name: str, value: object, low: int) -> None:
    """Raise ConfigError unless `value` is an int of at least `low`."""
    if not is_int(value) or value < low:
        raise ConfigError(f"{name} must be an int, {low} or more, not {value!r}")


def check_port(name: str, value: object) -> None:
    """Raise ConfigError unless `value` is a port, or 0 for any free one."""
    if not is_int(value) or not 0 <= value < 65536:
        raise ConfigError(f"{name} must be a port, 0 to 65535 (0: any free one), not {value!r}")


# --- names and addresses as a broker accepts them -------------------------------------------------
# What is not one is refused before it is sent.


DEFAULT_NAMESRV_PORT = 9876
_PORT = re.compile(r"[0-9]{1,5}")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/+")  # http://, and dns:/// as gRPC has it
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
# What a name or an address of a host may hold, once IDNA has written it in ASCII.
_HOST = re.compile(r"[a-zA-Z0-9._-]+|\[?[0-9a-fA-F]*(:[0-9a-fA-F.]*){2,}(%[a-zA-Z0-9._-]+)?\]?")
_MAX_TOPIC = 127  # the broker's limit (TopicValidator.TOPIC_MAX_LENGTH)
_MAX_GROUP = 120  # the broker's limit; leaves room for the %RETRY% prefix


def check_topic(topic: str, namespace: str = "") -> str:
    """Return the broker's name of `topic` if a broker accepts it, else raise ConfigError."""
    return _check_name("topic", topic, namespace, _MAX_TOPIC)


def check_group(group: str, namespace: str = "") -> str:
    """Return the broker's name of `group` if a broker accepts it, else raise ConfigError."""
    return _check_name("group", group, namespace, _MAX_GROUP)


def _check_name(kind: str, name: str, namespace: str, limit: int) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"the {kind} name must be a non-empty str, not {name!r}")
    name = wrap(namespace, name)
    if len(name) > limit:
        raise ConfigError(
            f"the {kind} name {name[:20]!r}… has {len(name)} characters; at most {limit}"
        )
    if not _NAME.fullmatch(name):
        raise ConfigError(f"the {kind} name {name!r} may only contain letters, digits and %|_-")
    return name


def parse_addresses(namesrv: str) -> tuple[str, ...]:
    """Split "host:port;host:port" (or commas) into addresses; the port defaults to 9876.

    Raises:
        ConfigError: empty, something else, or a port that is not a number from 1 to 65535; an IPv6
            address must be in brackets. The text says what to write.
    """
    if not isinstance(namesrv, str):
        raise ConfigError(f"namesrv must be a str such as 'host:9876', not {namesrv!r}")
    parts = [part.strip() for part in re.split(r"[;,]", namesrv) if part.strip()]
    if not parts:
        raise ConfigError(
            "no name server is set: pass namesrv='host:9876' or set ORDERLY_NAMESRV"
            " (`orderly broker start` starts a local one)"
        )
    return tuple(_address(part) for part in parts)


def _address(text: str) -> str:
    host, port = text, str(DEFAULT_NAMESRV_PORT)
    if not text.endswith("]") and ":" in text:
        host, _, port = text.rpartition(":")
    bare = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if bare or not (is_host(host) and _PORT.fullmatch(port) and 0 < int(port) < 65536):
        raise ConfigError(f"{text!r:.80} is not a name server address; {_remedy(text)} (namesrv)")
    return f"{host}:{port}"


def _remedy(text: str) -> str:
    """What to write in place of what is no address."""
    scheme = _SCHEME.match(text)
    if scheme is not None:
        return f"write host:port of its remoting port, without {scheme[0]}"
    if _is_ipv6(text):
        return f"write an IPv6 address in brackets, as [{text}]:{DEFAULT_NAMESRV_PORT}"
    host, _, port = text.rpartition(":")
    if _is_ipv6(host):
        return f"write an IPv6 address in brackets, as [{host}]:{port}"
    return "write host:port"


def _is_ipv6(text: str) -> bool:
    try:
        return isinstance(ip_address(text), IPv6Address)
    except ValueError:
        return False


def is_host(text: str) -> bool:
    """Whether a name can be looked up: each of its labels must have 1 to 63 characters."""
    try:
        return _HOST.fullmatch(text.encode("idna").decode()) is not None
    except UnicodeError:
        return False


# --- functions that are to be called later --------------------------------------------------------


def meant(name: str, known: Iterable[str], prefix: str = "", least: float = 0.75) -> str:
    """What to add to an error about an unknown name: the known one that is nearest; "": none is.

    Names are compared without their `prefix`, and are alike from `least` (0 to 1) on.
    """
    from difflib import get_close_matches  # noqa: PLC0415  only after a mistake

    names = [each.removeprefix(prefix) for each in known]
    near = get_close_matches(name.removeprefix(prefix), names, n=1, cutoff=least)
    return f" (did you mean {prefix}{near[0]}?)" if near else ""


def check_callable(what: str, function: object) -> None:
    """Raise ConfigError unless `function` can be called, and does its work when it is.

    Args:
        what: what it is, for the error: "the handler".
        function: the user's; plain or async.
    """
    if not callable(function):
        raise ConfigError(f"{what} must be callable, not {type(function).__name__}")
    if yields(function):
        raise ConfigError(
            f"{what} has a `yield`, so a call would run nothing of it: take the `yield` out, and"
            " return the answer (a handler: `return Ack()`)"
        )


def check_function(what: str, function: object) -> None:
    """Raise ConfigError unless `function` can be called, NotAvailableYet if it is async.

    Args:
        what: what it is, for the error: "the listener's function".
        function: the user's.
    """
    check_callable(what, function)
    if is_async(function):
        raise NotAvailableYet(f"{what} is async; that is not available yet, pass a plain function")


def check_arguments(what: str, function: Callable[..., object], *names: str) -> None:
    """Raise ConfigError if `function` cannot be called with this many arguments.

    Args:
        what: what it is, for the error: "the listener's function".
        function: the user's; plain or async.
        names: of what it is called with, for the error.
    """
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except ValueError:  # made in C, some have no signature
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        raise ConfigError(
            f"{what} is called with ({', '.join(names)}), but takes {signature}; a method must be"
            " bound to its object"
        ) from error


def is_async(function: object) -> bool:
    """True for an `async def`, and for an object whose `__call__` is one."""
    return any(map(inspect.iscoroutinefunction, _called(function)))


def yields(function: object) -> bool:
    """True for a generator function, plain or async, and for an object whose `__call__` is one."""
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(kind(each) for each in _called(function) for kind in kinds)


def _called(function: object) -> tuple[object, object]:
    """What may hold the code of a call."""
    return function, getattr(function, "__call__", None)  # noqa: B004 - not whether, but how


def asked_to_stop() -> bool:
    """Whether a CancelledError is meant for the running task, not for what it awaited."""
    import asyncio  # noqa: PLC0415 - who asks has it; a cold start of the CLI needs none

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


# --- texts, flags, queues -------------------------------------------------------------------------


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
    """Raise ConfigError unless `value` is a collection of str; a str itself is refused."""
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
    """Raise ConfigError unless `value` is a MessageQueue with valid fields."""
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
    """Return the queues of an iterable, or a single queue, as a tuple.

    Raises:
        ConfigError: something else, or an iterable with something else in it.
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
