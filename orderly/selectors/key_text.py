"""The text that a key is hashed as. Pure."""

from __future__ import annotations

from orderly.errors import ConfigError


def key_text(arg: object, selector: str) -> str:
    """A key as text: a `str` as it is, an `int` as its decimal text.

    Args:
        arg: the key.
        selector: who asks, for the error.

    Raises:
        ConfigError: `arg` is neither (a bool is not a key).
    """
    if isinstance(arg, str):
        return arg
    if isinstance(arg, int) and not isinstance(arg, bool):
        return str(int(arg))
    raise ConfigError(
        f"{selector} needs a str or an int as sharding key or arg, not {arg!r};"
        " pass the text that identifies the thing whose messages must stay in order"
    )


def key_bytes(arg: object, selector: str) -> bytes:
    """A key's text in UTF-8, as clients that count bytes send and hash it.

    Raises:
        ConfigError: as `key_text`, or a lone surrogate, which UTF-8 has not.
    """
    text = key_text(arg, selector)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{selector}: the key {text!r} has a lone surrogate, which no other client can send"
        ) from error
