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
from orderly.monitoring.park_queue import ParkedQueue
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
        reason: why it stopped, or why the owner refused to run it; None: all is done.
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
        """Whether it was not run at all."""
        return self.reason is not None and self.failed_at is None


OnProgress = Callable[[int], None]
"""Told how many messages are settled so far. Must not block."""


def run_command(
    queue: ParkedQueue, verb: Verb, key: Key, *, patience: float, on_progress: OnProgress
) -> Outcome:
    """Send a command to the owner of a queue and wait for its end.

    Args:
        queue: where the key is parked.
        verb: what to do.
        key: with which key.
        patience: seconds without a word of the owner after which the wait ends.
        on_progress: told what the owner tells.

    Raises:
        OrderlyError: nobody answered: the command stays and will be run; or a broker does not
            answer, and it may be stored.
    """
    number = uuid.uuid4().hex
    command = Command(number, verb, key, queue.client.client_id, int(time.time() * 1000))
    at = queue.append(control_message(command)) + 1
    heard = time.monotonic()
    while time.monotonic() - heard < patience:
        read: ParkedRead = queue.perform(ReadParked(queue.park_queue, at, RESULT))
        for result in _results(read.messages, number):
            heard = time.monotonic()
            if result.done:
                return _outcome(queue.queue, key, result)
            on_progress(result.settled)
        if read.next_offset <= at:
            time.sleep(_PAUSE)
        at = max(at, read.next_offset)
    raise OrderlyError(
        f"no answer within {patience:g} s about key {key!r} of {queue.queue}: {_members(queue)} The"
        f" command ({verb.value}) stays in the park topic: the queue's owner, or its next one, runs"
        " it, also when nobody waits for it any more. Do not send it again; see with `orderly"
        " parked list` what became of it"
    )


def _members(queue: ParkedQueue) -> str:
    try:
        members = queue.client.admin.consumer_connections(queue.group)
    except OrderlyError:
        return "whether members are online is not known."
    if members is None:
        return "no member of the group is online."
    return f"{len(members.connections)} members are online, the owner may be busy or starting."


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
