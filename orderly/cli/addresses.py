"""Options that say where to serve: HOST:PORT."""

from __future__ import annotations

from orderly.errors import ConfigError


def address(text: str, option: str, example: str) -> tuple[str, int]:
    """Read HOST:PORT; an IPv6 address is in brackets.

    Args:
        text: what was given.
        option: its name, and an example of a value: for the error.
        example: as above.

    Raises:
        ConfigError: it is something else.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or (":" in host) != host.startswith("["):
        raise ConfigError(f"{option} takes HOST:PORT, as {example}, not {text!r}")
    return host.strip("[]"), int(port)
