"""What kind of failure this is: the same text and digest wherever and whenever it happens again.

A fingerprint is made of what the *code* says, never of what the message says: classes, error
numbers, the functions a failure came through, and those words of its text that are in the code
itself. So it is the same in every process, on every machine and for every message that fails in
the same way, and it may be shown where keys and bodies may not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType, TracebackType
from typing import final

from orderly.errors import WorkerDied

_LINKS = 8  # exceptions of a chain
_DEPTH = 3  # groups within groups
_MEMBERS = 64  # of a group that are looked at; beyond, one more changes nothing
_WALKED = 2000  # frames of one traceback
_PLACES = 6  # functions named for one exception, the innermost ones
_SPEAKING = 30  # innermost frames whose constants are the known words
_READ = 2000  # characters at each end of an exception's text
_WORDS = 30
_NAME = 120  # characters of a class's or a function's name
_SHOWN = 500  # characters of the readable text
_DIGEST = 8  # bytes

_LIBRARY = re.compile(
    r"/(site|dist)-packages/|/lib(64)?/python\d+(\.\d+)?t?/|(?i:/python\d+/lib/)|^<frozen "
)
_WORD = re.compile(r"\w+")
_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
_ANYWHERE = (RecursionError, MemoryError)


@final
@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One way to fail.

    Attributes:
        digest: 16 hexadecimal digits; equal for failures that are alike.
        text: for people, up to 500 characters, without anything from the message:
            `shop.BadOrder[422]: no such account (shop.ship:handle > shop.ship:parse) from
            KeyError: amount (shop.ship:parse)`.
    """

    digest: str
    text: str


def fingerprint(error: BaseException, own: str = "") -> Fingerprint:
    """Return the fingerprint of a raised exception. Pure; never raises an Exception.

    - The chain: the exception, its `__cause__` or (unless suppressed) its `__context__`, and so
      on; equal links once, so that it does not matter how often something was tried again. Of a
      group its different members, sorted, for tasks fail in any order.
    - The places: functions of the user's code, by module and name, each once. Not of this library,
      the standard library or installed packages, unless nothing else is left: they change with an
      upgrade, and many ways to fail go through them. No line numbers and no paths: the next
      deploy, or the next machine, would make a new failure of the same one. Memory and stack run
      out anywhere, so there only the outermost function counts.
    - The text, of which only words remain that the code on the way has as constants. Numbers,
      names, ids, times, quoted input, long texts: every inserted value is left out. Texts made in
      C have no constants and vanish.
    - Error numbers (`errno`, `sqlstate`, HTTP status, a worker's exit code): they
      distinguish a bad request from a dead server where class, place and text do not.

    Args:
        error: as caught, with its traceback.
        own: top-level package of the user's function; it is the user's even if it is installed.
    """
    return _made(_chain(error, own, _DEPTH))


def answered(kind: str, reason: str = "", code: CodeType | None = None) -> Fingerprint:
    """Return the fingerprint of an answer that is a failure, such as `Fail("why")`.

    Args:
        kind: the answer's class name.
        reason: its text; only words that are constants of `code` count.
        code: of the user's function, if there is one.
    """
    words = _skeleton(reason, _vocabulary(() if code is None else (code,)))
    return _made(f"answered {kind[:_NAME]}" + (f": {words}" if words else ""))


def _made(text: str) -> Fingerprint:
    data = text.encode("utf-8", "backslashreplace")
    return Fingerprint(hashlib.blake2b(data, digest_size=_DIGEST).hexdigest(), text[:_SHOWN])


def _chain(error: BaseException, own: str, depth: int) -> str:
    links: dict[int, str] = {}
    link: BaseException | None = error
    while link is not None and id(link) not in links and len(links) < _LINKS:
        links[id(link)] = _link(link, own, depth)
        if isinstance(link, WorkerDied):
            break  # its cause is how the pipe broke, which is chance
        link = link.__cause__ if link.__suppress_context__ else link.__context__
    return " from ".join(dict.fromkeys(links.values()))


def _link(error: BaseException, own: str, depth: int) -> str:
    frames = _frames(error.__traceback__)
    words = _skeleton(_text(error), _vocabulary(f.f_code for f in frames[-_SPEAKING:]))
    places = " > ".join(_places(error, frames, own))
    return (
        _type_name(error)
        + _code(error)
        + (f": {words}" if words else "")
        + (f" ({places})" if places else "")
        + _members(error, own, depth)
    )


def _members(error: BaseException, own: str, depth: int) -> str:
    if not isinstance(error, BaseExceptionGroup):
        return ""
    if depth == 0:
        return "{...}"
    chains = {_chain(member, own, depth - 1) for member in error.exceptions[:_MEMBERS]}
    return "{" + " | ".join(sorted(chains)[:_LINKS]) + "}"


def _type_name(error: BaseException) -> str:
    kind = type(error)
    module = _module(kind.__module__)
    name = kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
    return name[:_NAME]


def _module(name: object) -> str:
    # A worker process imports the program's main module under another name.
    return "__main__" if name == "__mp_main__" else str(name)


def _frames(trace: TracebackType | None) -> list[FrameType]:
    """Return one frame of each function, outermost first, without this library's."""
    frames: dict[CodeType, FrameType] = {}
    for _ in range(_WALKED):
        if trace is None:
            break
        frames.setdefault(trace.tb_frame.f_code, trace.tb_frame)
        trace = trace.tb_next
    return [frame for frame in frames.values() if _root(frame) != "orderly"]


def _root(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _is_users(frame: FrameType, own: str) -> bool:
    path = frame.f_code.co_filename.replace("\\", "/")
    return _root(frame) == own or not _LIBRARY.search(path)


def _places(error: BaseException, frames: list[FrameType], own: str) -> list[str]:
    users = [frame for frame in frames if _is_users(frame, own)] or frames
    distinct = list(dict.fromkeys(map(_place, users)))
    return distinct[:1] if isinstance(error, _ANYWHERE) else distinct[-_PLACES:]


def _place(frame: FrameType) -> str:
    return f"{_module(frame.f_globals.get('__name__'))}:{frame.f_code.co_qualname}"[:_NAME]


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a user's class may do anything
        return ""


def _vocabulary(codes: Iterable[CodeType]) -> frozenset[str]:
    return frozenset().union(*map(_words_of, codes))


@lru_cache(maxsize=1024)
def _words_of(code: CodeType) -> frozenset[str]:
    return frozenset(
        word
        for text in _texts_of(code)
        for word in _WORD.findall(text)
        if len(word) > 1 and not any(map(str.isdigit, word))
    )


def _texts_of(code: CodeType) -> list[str]:
    """Return its constant texts; not those within a constant tuple, which is a choice of values.

    Python 3.14 keeps a function's first constant beside the tuple that it became a part of.
    """
    groups = (each for each in code.co_consts if isinstance(each, tuple | frozenset))
    grouped = {text for group in groups for text in group if isinstance(text, str)}
    first = [text for text in code.co_consts[:1] if text not in grouped]
    return [text for text in (*first, *code.co_consts[1:]) if isinstance(text, str)]


def _skeleton(text: str, known: frozenset[str]) -> str:
    """Return the known words in their order."""
    ends = text if len(text) <= 2 * _READ else f"{text[:_READ]} {text[-_READ:]}"
    return " ".join([word for word in _WORD.findall(ends) if word in known][:_WORDS])


def _code(error: BaseException) -> str:
    if isinstance(error, WorkerDied):
        return f"[{error.exit_code}]"
    for name in ("errno", "sqlstate", "pgcode", "status_code", "status", "code"):
        if code := _as_code(error, name):
            return f"[{code}]"
    try:
        response = error.response  # type: ignore[attr-defined]  # requests, httpx
    except Exception:  # noqa: BLE001 - a user's class may do anything
        return ""
    code = _as_code(response, "status_code")
    return f"[{code}]" if code else ""


def _as_code(holder: object, name: str) -> str:
    """Return a number of four digits or an SQLSTATE: anything else may come from the message."""
    try:
        value = getattr(holder, name)
    except Exception:  # noqa: BLE001 - a user's class may do anything
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10_000:
        return str(int(value))
    is_sqlstate = name in {"sqlstate", "pgcode"} and isinstance(value, str)
    return str(value) if is_sqlstate and _SQLSTATE.fullmatch(value) else ""
