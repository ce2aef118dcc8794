"""The errors of messages that an outbox gives up: what happened, and what to do next."""

from __future__ import annotations

from orderly.errors import PrecedingSendFailed, SendFailed
from orderly.model import MessageQueue
from orderly.ordering.sending.batch import Entry


def send_failed(entry: Entry, queue: MessageQueue, cause: Exception, attempts: int) -> SendFailed:
    """The error of a message given up after `attempts` attempts; 0: it was never sent."""
    tried = f"failed at attempt {attempts}" if attempts else "was not sent"
    error = SendFailed(f"{_name(entry)} for {queue} {tried}: {cause}{_what_is_held(entry)}")
    error.__cause__ = cause
    return error


def preceding_failed(entry: Entry, queue: MessageQueue, ahead: SendFailed) -> PrecedingSendFailed:
    """The error of a message held back because `ahead` happened to an earlier one of its lane."""
    error = PrecedingSendFailed(
        f"{_name(entry)} for {queue} was not sent: an earlier one failed and this one must not"
        " overtake it. Deal with the failed one, then call producer.resume(key)"
    )
    error.__cause__ = ahead
    return error


def _name(entry: Entry) -> str:
    return f"a message of key {entry.lane!r}" if entry.lane else "a message"


def _what_is_held(entry: Entry) -> str:
    if entry.lane is None:
        return ""
    who = "of its key" if entry.lane else "of its queue"
    return f". Later messages {who} are refused until producer.resume() or hold_failed_key is over"
