"""Hostile bytes made of valid ones: of bytes with lengths in them, and of the tokens of JSON."""

import re
import struct
from functools import cache

_EXTREMES = (0, 1, -1, 2, 127, 128, 255, 256, 32767, -32768, 65535, 2**31 - 1, -(2**31))
_WIDE = (2**63 - 1, -(2**63), 2**32, 2**31)
_WIDTHS = {1: ">B", 2: ">H", 4: ">I", 8: ">Q"}
_MARKS = (b"\x00", b"\xff", b"\x01", b"\x02", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b'"', b"{")

_TOKEN = re.compile(
    rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\w+|[{}\[\],:]|.', re.DOTALL
)
_NUMBERS = (
    b"0", b"-1", b"-0", b"1e999", b"-1e999", b"1.5", b"1e-999", b"9223372036854775807",
    b"9223372036854775808", b"-9223372036854775809", b"1" + b"0" * 400, b"9" * 5000,
    b"2147483647", b"2147483648", b"NaN", b"Infinity", b"-Infinity", b"null", b"true",
)  # fmt: skip
_HOSTILE = (
    *_NUMBERS,
    b'""', b'"\\ud800"', b'"\\udfff\\ud800"', b'"\\u0000"', b'"\xed\xa0\x80"', b'"\xff"', b'"\\x"',
    b'"' + b"A" * 3000 + b'"', b'"\xd9\xa3"', b'"1_0"', b'" 1"', b'"+1"', b'"-"',
    b'"99999999999999999999"', b'"' + b"9" * 5000 + b'"', b'"TRUE"', b"[]", b"{}", b"[[]]",
    b"[null]", b'{"":{}}', b"{0:1}", b"{{}:1}", b"{[]:1}", b"{null:1}", b"{1.5:1}", b"{-1:1}",
    b'{{{"a":1}:2}:3}', b'{{"topic":"t","brokerName":"b","queueId":0}:1}', b"\xef\xbb\xbf",
    b",", b":", b"{", b"}", b"[", b"]", b'"', b"\\", b"\x00", b"/**/", b"'a'", b"false",
)  # fmt: skip
_DEPTHS = (5, 63, 64, 65, 300, 480, 700, 960, 1000, 3000)


def mutate_bytes(rng, seeds):
    """A seed with one to four wounds."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        rng.choice(_WOUNDS)(rng, data, seeds)
    return bytes(data)


def _flip(rng, data, seeds):
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _number(rng, data, seeds):
    """Put an extreme where a number may be, or make what is there a little larger or smaller."""
    width = rng.choice((1, 2, 2, 4, 4, 4, 8))
    if len(data) < width:
        return
    at = rng.randrange(min(len(data) - width + 1, rng.choice((16, 128, 1 << 30))))
    layout = _WIDTHS[width]
    kind = rng.random()
    if kind < 0.4:
        value = rng.choice(_EXTREMES + _WIDE)
    elif kind < 0.5:
        value = -rng.randrange(1, 64)  # a length that leads back to what was read already
    else:
        value = struct.unpack_from(layout, data, at)[0] + rng.choice((-2, -1, 1, 2))
    struct.pack_into(layout, data, at, value % (1 << 8 * width))


def _cut(rng, data, seeds):
    del data[rng.randrange(len(data) + 1) :]


def _repeat(rng, data, seeds):
    at, end = _span(rng, data)
    data[at:at] = data[at:end] * rng.choice((1, 1, 2, 50))
    del data[1 << 16 :]


def _remove(rng, data, seeds):
    at, end = _span(rng, data)
    del data[at:end]


def _splice(rng, data, seeds):
    other = rng.choice(seeds)
    data[rng.randrange(len(data) + 1) :] = other[rng.randrange(len(other) + 1) :]


def _insert(rng, data, seeds):
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice(_MARKS) * rng.choice((1, 1, 2, 8, 300))


_WOUNDS = (_flip, _flip, _number, _number, _number, _cut, _repeat, _remove, _splice, _insert)


def _span(rng, data):
    at = rng.randrange(len(data) + 1)
    return at, min(len(data), at + rng.choice((1, 2, 4, 8, 30, 200)))


def mutate_json(rng, seeds):
    """A seed whose tokens were replaced, removed, repeated, nested or taken from another seed."""
    if rng.random() < 0.1:
        return mutate_bytes(rng, seeds)
    tokens = list(_tokens(rng.choice(seeds)))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        rng.choice(_JSON_WOUNDS)(rng, tokens, seeds)
    return b"".join(tokens)[: 1 << 16]


@cache
def _tokens(data):
    return tuple(_TOKEN.findall(data))


def _replace(rng, tokens, seeds):
    if tokens:
        tokens[rng.randrange(len(tokens))] = rng.choice(_HOSTILE)


def _replace_value(rng, tokens, seeds):
    """As `_replace`, of a value only: most replaced keys are just unknown names."""
    places = [i for i, token in enumerate(tokens) if i and tokens[i - 1] == b":"]
    if places:
        tokens[rng.choice(places)] = rng.choice(_HOSTILE)


def _replace_number(rng, tokens, seeds):
    """As `_replace`, of a number by another one, also within a string."""
    places = [
        i for i, token in enumerate(tokens) if token.strip(b'".-').replace(b".", b"").isdigit()
    ]
    if places:
        at, number = rng.choice(places), rng.choice(_NUMBERS)
        tokens[at] = b'"' + number + b'"' if tokens[at].startswith(b'"') else number


def _exchange(rng, tokens, seeds):
    other = _tokens(rng.choice(seeds))
    if tokens and other:
        tokens[rng.randrange(len(tokens))] = rng.choice(other)


def _nest(rng, tokens, seeds):
    """Put a value deep into lists or objects."""
    places = [i for i, token in enumerate(tokens) if i and tokens[i - 1] == b":"] or [0]
    at, depth = rng.choice(places), rng.choice(_DEPTHS)
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"{0:", b"}"), (b"{", b"}")))
    tokens[at : at + 1] = [opening * depth, b"1", closing * rng.choice((depth, depth, depth - 1))]


def _widen(rng, tokens, seeds):
    """Make a list of many small values in place of one."""
    if tokens:
        item = rng.choice((b"0", b"[]", b"{}", b'""', b"{0:{}}"))
        at = rng.randrange(len(tokens))
        tokens[at] = b"[" + b",".join([item] * rng.choice((2, 100, 4000))) + b"]"


_JSON_WOUNDS = (
    _replace, _replace_value, _replace_value, _replace_number, _replace_number, _exchange,
    _exchange, _nest, _widen, _cut, _repeat, _remove,
)  # fmt: skip
