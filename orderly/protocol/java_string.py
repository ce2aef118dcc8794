"""Java's String.hashCode, which queue selection and the broker's tag filter use.

Queue selectors are elsewhere (`orderly.selectors`); this is the one function both need.
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from struct import unpack

from orderly.errors import ConfigError


def java_string_hash(key: str) -> int:
    """Return the value of `key.hashCode()` in Java: a signed 32-bit integer.

    Java counts UTF-16 code units, so a character beyond U+FFFF counts as its two surrogates.
    Any `str` is accepted, lone surrogates included.

    Raises:
        ConfigError: `key` is not a `str`.
    """
    try:
        units = key.encode() if key.isascii() else _units(key)
    except AttributeError as error:  # a check beforehand would cost each send
        raise ConfigError(f"the key must be a str, not {type(key).__name__}") from error
    value: int = sum(map(mul, units, _powers(len(units)))) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _units(key: str) -> tuple[int, ...]:
    encoded = key.encode("utf-16-be", "surrogatepass")
    return unpack(f">{len(encoded) // 2}H", encoded)


@lru_cache(64)
def _powers(length: int) -> tuple[int, ...]:
    """What each unit of a text of that length is multiplied by: 31^(length-1), …, 31, 1."""
    return tuple(pow(31, place, 1 << 32) for place in reversed(range(length)))
