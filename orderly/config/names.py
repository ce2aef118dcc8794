"""Names and addresses as a broker accepts them; what is not one is refused before it is sent."""

from __future__ import annotations

import re

from orderly.errors import ConfigError
from orderly.namespace import wrap

DEFAULT_NAMESRV_PORT = 9876
_PORT = re.compile(r"[0-9]{1,5}")
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
        ConfigError: empty, or a port that is not a number from 1 to 65535.
    """
    if not isinstance(namesrv, str):
        raise ConfigError(f"namesrv must be a str such as 'host:9876', not {namesrv!r}")
    parts = [part.strip() for part in re.split(r"[;,]", namesrv) if part.strip()]
    if not parts:
        raise ConfigError(
            "no name server is set: pass namesrv='host:9876' or set ORDERLY_NAMESRV"
            " (`orderly broker start` runs a local one)"
        )
    return tuple(_address(part) for part in parts)


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, str(DEFAULT_NAMESRV_PORT)
    if not (is_host(host) and _PORT.fullmatch(port) and 0 < int(port) < 65536):
        raise ConfigError(f"{text!r:.80} is not a name server address; write host:port (namesrv)")
    return f"{host}:{port}"


def is_host(text: str) -> bool:
    """Whether it can be looked up at all: a label of a name has 1 to 63 characters."""
    try:
        return _HOST.fullmatch(text.encode("idna").decode()) is not None
    except UnicodeError:
        return False
