"""Commands to the owner of a queue about its parked keys: sent, and their results awaited.

A command is a record in the park queue. Whoever owns the source queue runs it, now or later, and
appends results; nobody needs to know who that is.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from orderly.errors import OrderlyError, ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.parking.queue import ParkedQueue
from orderly.ordering.calls import ParkedRead, ReadParked
from orderly.ordering.parking.keys import Key
from orderly.protocol.park_record import (
    RESULT,
    Command,
    Result,
    Verb,
    control_message,
    read_park,
)

_PAUSE = 0.2  # seconds between looks


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a command about one key of one queue.

    Attributes:
        queue: the source queue.
        key: the key.
        settled: messages that are done now; of a dry run, that were tried.
        failed_at: source offset of the message whose handler did not acknowledge it: the key stays
            parked from there on. None: there is none.
        reason: why it stopped, or was not carried out, or not in full; None: all is done.
        outcomes: of a dry run: source offset and "ok" or how it failed.
    """

    queue: MessageQueue
    key: Key
    settled: int
    failed_at: int | None = None
    reason: str | None = None
    outcomes: tuple[tuple[int, str], ...] = ()

    @property
    def refused(self) -> bool:
        """Whether it was not carried out, or of a dry run: not with all messages."""
        return self.reason is not None and self.failed_at is None


OnProgress = Callable[[int], None]
"""Told how many messages are settled so far. Must not block."""
OnSent = Callable[[str], None]
"""Told, for people, once a command is stored: which one, and who is there to run it."""


def run_command(
    queue: ParkedQueue,
    verb: Verb,
    key: Key,
    *,
    patience: float,
    on_progress: OnProgress,
    on_sent: OnSent,
) -> Outcome:
    """Send a command to the owner of a queue and wait for its end.

    Args:
        queue: where the key is parked.
        verb: what to do.
        key: with which key.
        patience: seconds without a word of the owner after which the wait ends.
        on_progress: told what the owner tells.
        on_sent: told that it is stored.

    Raises:
        OrderlyError: nobody answered, or the wait was interrupted (Ctrl-C): the command stays and
            will be run; or a broker does not answer, and it may be stored.
    """
    number = uuid.uuid4().hex
    command = Command(number, verb, key, queue.client.client_id, int(time.time() * 1000))
    try:
        at = queue.append(control_message(command)) + 1
        on_sent(f"{verb.value} of key {key!r} is sent to the owner of {queue.queue}: "
                + _members(queue))  # fmt: skip
        result = _await_end(queue, number, at, patience, on_progress)
    except KeyboardInterrupt as interrupt:
        why = "the wait was interrupted, and nothing else"
        raise _unanswered(queue, verb, key, why) from interrupt
    if isinstance(result, Result):
        return _outcome(queue.queue, key, result)
    why = _members(queue) if result is None else str(result)
    raise _unanswered(queue, verb, key, f"no answer within {patience:g} s: {why}") from result


def _await_end(
    queue: ParkedQueue, number: str, at: int, patience: float, on_progress: OnProgress
) -> Result | OrderlyError | None:
    """The last result of a command; without one why its queue could not be read, if that is so."""
    heard, failure = time.monotonic(), None
    while time.monotonic() - heard < patience:
        try:
            read: ParkedRead = queue.perform(ReadParked(queue.park_queue, at, RESULT))
        except OrderlyError as error:  # the command is stored: its owner may well go on with it
            failure = error
            time.sleep(_PAUSE)
            continue
        failure = None
        for result in _results(read.messages, number):
            heard = time.monotonic()
            if result.done:
                return result
            on_progress(result.settled)
        if read.next_offset <= at:
            time.sleep(_PAUSE)
        at = max(at, read.next_offset)
    return failure


def _unanswered(queue: ParkedQueue, verb: Verb, key: Key, why: str) -> OrderlyError:
    return OrderlyError(
        f"what becomes of key {key!r} of {queue.queue} is not known: {why}. The command"
        f" ({verb.value}) stays in the park topic: the queue's owner, or its next one, runs it,"
        " also when nobody waits for it. Do not send it again; see with `orderly parked list` what"
        " became of it"
    )


def _members(queue: ParkedQueue) -> str:
    try:
        members = queue.client.admin.consumer_connections(queue.group)
    except OrderlyError:
        return "whether members are online is not known"
    if members is None:
        return "no member of the group is online, it waits for the next one"
    return f"members online: {len(members.connections)}"


def _results(messages: tuple[ReceivedMessage, ...], number: str) -> list[Result]:
    """The results of one command."""
    found = []
    for message in messages:
        try:
            record = read_park(message)
        except ProtocolError:  # nobody's
            continue
        if isinstance(record, Result) and record.id == number:
            found.append(record)
    return found


def _outcome(queue: MessageQueue, key: Key, result: Result) -> Outcome:
    return Outcome(
        queue, key, result.settled, result.failed_at, result.reason, tuple(result.outcomes)
    )
