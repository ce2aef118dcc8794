"""A broker's configuration as it tells it: one `name=value` a line."""

from __future__ import annotations

from collections.abc import Mapping

_RETENTION = "fileReservedTime"  # hours (Java: MessageStoreConfig)
_HOUR = 3600.0
_DIGITS = 6  # a century has less


def decode_settings(body: bytes) -> dict[str, str]:
    """Read all settings, by name; values are texts as the broker writes them."""
    pairs = (line.partition("=") for line in body.decode(errors="replace").splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def retention_of(settings: Mapping[str, str]) -> float | None:
    """For how many seconds the broker keeps messages, if its disk is not full; None: not told."""
    hours = settings.get(_RETENTION, "")
    told = hours.isascii() and hours.isdecimal() and len(hours) <= _DIGITS
    return int(hours) * _HOUR if told else None
