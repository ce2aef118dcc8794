"""Java's String.hashCode, on which queue selection and the broker's tag filter stand.

Queue selectors are elsewhere (`orderly.selectors`); this is the one function both need.
"""

from __future__ import annotations

from struct import unpack


def java_string_hash(key: str) -> int:
    """Return what `key.hashCode()` is in Java: a signed 32-bit integer.

    Java counts UTF-16 code units, so a character beyond U+FFFF counts as its two surrogates.
    Any `str` is accepted, lone surrogates included.
    """
    encoded = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
