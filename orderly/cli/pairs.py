"""Options of the form NAME=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

from orderly.errors import ConfigError


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Read what an option was given, each time it was given; of one name the last value counts.

    Raises:
        ConfigError: one without a name, or without "=".
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{option} takes NAME=VALUE, not {text!r}")
        found[name.strip()] = value
    return found
