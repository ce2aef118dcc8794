"""What our members tell of each queue beyond what Java's do: its first message and its failure.

It travels as one small JSON text a queue in `RunningInfo.user`, which `mqadmin consumerStatus`
prints. Bounded, and without anything from a message but its key: many queues may be in trouble at
once, and whoever may ask a broker may read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import (
    load_object,
    natural_in,
    natural_or_none,
    number_in,
    text_in,
)
from orderly.protocol.running_info import RunningInfo

VERSION = 1
MOST_QUEUES = 64
LONGEST = 120  # characters of a key or a word
LONGEST_REASON = 300  # characters
_PREFIX = "orderly "


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNews:
    """One queue of a member of ours.

    Attributes:
        why: what it does or waits for: a name of `ordering.explain.Why`.
        offset: of its first message that is not finished; None: not known.
        key: of that message, as text; None: it has none, or there is no message.
        attempts: how often that message was tried, the present try included.
        failing_for: seconds since it failed first; None: it has not failed.
        fingerprint: digest of its last failure.
        reason: the same for people: classes, places and words of the code, nothing of the message.
        seconds: for how long its handler runs, or for how much longer it waits; None: neither.
        parked: keys of the queue that are set aside.
    """

    why: str
    offset: int | None = None
    key: str | None = None
    attempts: int = 0
    failing_for: float | None = None
    fingerprint: str | None = None
    reason: str | None = None
    seconds: float | None = None
    parked: int = 0


def news_texts(news: Iterable[tuple[MessageQueue, QueueNews]]) -> dict[str, str]:
    """Write the news of the first MOST_QUEUES queues: at most 64 KiB, whatever they hold."""
    first = [pair for pair, _ in zip(news, range(MOST_QUEUES), strict=False)]
    return {_name(queue): _written(told) for queue, told in first}


def queue_news(info: RunningInfo) -> dict[MessageQueue, QueueNews]:
    """Read what a member tells of its queues; what is not ours, or broken, is left out."""
    found = {}
    for queue in info.queues if info.user else ():
        text = info.user.get(_name(queue))
        told = None if text is None else _read(text)
        if told is not None:
            found[queue] = told
    return found


def _name(queue: MessageQueue) -> str:
    return _PREFIX + str(queue)


def _written(told: QueueNews) -> str:
    fields: dict[str, Any] = {
        "v": VERSION,
        "why": told.why[:LONGEST],
        "offset": told.offset,
        "key": _cut(told.key, LONGEST),
        "attempts": told.attempts,
        "failingFor": _rounded(told.failing_for),
        "fingerprint": _cut(told.fingerprint, LONGEST),
        "reason": _cut(told.reason, LONGEST_REASON),
        "seconds": _rounded(told.seconds),
        "parked": told.parked,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return _printable(dumps(known).decode())


def _printable(text: str) -> str:
    """JSON that acts on no terminal: mqadmin prints it as it is."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _read(text: str) -> QueueNews | None:
    try:
        fields = load_object(text.encode("utf-8", "replace"))
        if natural_in(fields, "v", 0) != VERSION:
            return None
        return QueueNews(
            why=text_in(fields, "why"),
            offset=natural_or_none(fields, "offset"),
            key=_text_or_none(fields, "key"),
            attempts=natural_in(fields, "attempts", 0),
            failing_for=_number_or_none(fields, "failingFor"),
            fingerprint=_text_or_none(fields, "fingerprint"),
            reason=_text_or_none(fields, "reason"),
            seconds=_number_or_none(fields, "seconds"),
            parked=natural_in(fields, "parked", 0),
        )
    except ProtocolError:
        return None


def _text_or_none(fields: dict[str, Any], name: str) -> str | None:
    return None if fields.get(name) is None else text_in(fields, name)


def _number_or_none(fields: dict[str, Any], name: str) -> float | None:
    return None if fields.get(name) is None else number_in(fields, name)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _cut(text: str | None, most: int) -> str | None:
    """The start of a text; a lone surrogate, which no JSON takes, is replaced."""
    return None if text is None else text[:most].encode("utf-8", "replace").decode()
