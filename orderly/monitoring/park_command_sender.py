"""Commands to the owner of a queue about its parked keys: sent, and their results awaited.

A command is a record in the park queue. Whoever owns the source queue runs it, now or later, and
appends results; nobody needs to know who that is.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from orderly.errors import OrderlyError, ProtocolError, RemotingError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.backlog.thresholds import queues_text
from orderly.monitoring.parked_queues import ParkedQueue, Unknown
from orderly.ordering.broker_calls import ParkedRead, ReadParked
from orderly.protocol.park_record import RESULT, Command, Result, Verb, control_message, read_park
from orderly.protocol.parked_key import Key

_PAUSE = 0.2  # seconds between looks


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a command about one key of one queue.

    Attributes:
        queue: the source queue.
        key: the key.
        settled: messages that are done now; of a dry run, that were tried; of a key that is to be
            parked, that are parked now, or would be.
        failed_at: source offset of the message whose handler did not acknowledge it: the key stays
            parked from there on. None: no message failed.
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
"""Gets how many messages are settled so far. Must not block."""
OnSent = Callable[[str], None]
"""Gets lines for people: once a command is stored, which one, and who is there to run it; then what
its owner waits for, if it does."""


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
        on_progress: gets how many messages are settled, when that changes.
        on_sent: called once it is stored, and when its owner says what it waits for.

    Raises:
        OrderlyError: nobody answered, or the wait was interrupted (Ctrl-C): the command stays and
            will be run; or a broker does not answer, and it may be stored.
    """
    sent = _Sent(queue, verb, key)
    try:
        sent.send()
        on_sent(f"{verb.value} of key {key!r} is sent to the owner of {queue.queue}: "
                + _members(queue))  # fmt: skip
        _await([sent], patience, on_progress, on_sent)
    except KeyboardInterrupt as interrupt:
        why = "only the wait was interrupted"
        raise _unanswered(queue, verb, key, why) from interrupt
    if sent.end is not None:
        return _outcome(queue.queue, key, sent.end)
    raise sent.unanswered(patience) from sent.failure


def ask_owners(
    queues: Sequence[ParkedQueue], verb: Verb, key: Key, *, patience: float, on_sent: OnSent
) -> tuple[tuple[Outcome, ...], Unknown]:
    """Send a command to the owner of each of a topic's queues and wait for all of them.

    For a key of which nobody but the owner of its queue knows where it is.

    Args:
        queues: of one group, and one topic.
        verb: what to do.
        key: with which key.
        patience: seconds without a word of an owner after which the wait ends.
        on_sent: called once it is stored, and when an owner says what it waits for.

    Returns:
        What the owners said, and the queues of which none answered, or which took no command. A
        broker that does not answer is not sent another one.

    Raises:
        OrderlyError: the wait was interrupted (Ctrl-C).
    """
    sent: list[_Sent] = []
    failed: dict[MessageQueue, OrderlyError] = {}
    silent: dict[str, RemotingError] = {}
    try:
        for queue in queues:
            name, asked = queue.queue.broker_name, _Sent(queue, verb, key)
            try:
                if name in silent:
                    raise silent[name]
                asked.send()
                sent.append(asked)
            except OrderlyError as error:
                failed[queue.queue] = error
                if isinstance(error, RemotingError):
                    silent[name] = error
        on_sent(f"{verb.value} of key {key!r} is sent to the owners of {queues_text(len(sent))} of"
                f" {queues[0].queue.topic}: " + _members(queues[0]))  # fmt: skip
        _await(sent, patience, lambda _: None, on_sent)
    except KeyboardInterrupt as interrupt:
        raise OrderlyError(
            f"the outcome for key {key!r} is not known: you interrupted only the wait, not the"
            " command; see the result with `orderly parked list`"
        ) from interrupt
    outcomes = tuple(_outcome(s.queue.queue, key, s.end) for s in sent if s.end is not None)
    failed |= {s.queue.queue: s.silence() for s in sent if s.end is None}
    return outcomes, tuple(sorted(failed.items(), key=itemgetter(0)))


Ended = tuple[MessageQueue, Key, Outcome | OrderlyError]
"""A command that has ended, or of which it is not known."""


def run_each(
    wanted: Mapping[MessageQueue, Sequence[Key]],
    open_queue: Callable[[MessageQueue], ParkedQueue],
    verb: Verb,
    *,
    patience: float,
) -> Iterator[Ended]:
    """Send a command about each of several keys, and yield how it ended.

    An owner carries out one command at a time in a queue. So in each queue there is one under way,
    and queues go on side by side. A queue that does not answer is given up: the commands about its
    other keys are not sent.

    Args:
        wanted: by source queue, the keys that are parked in it, in their order.
        open_queue: gives its state and park queue.
        verb: what to do.
        patience: give up a queue after this many seconds without a sign from its owner.

    Raises:
        OrderlyError: the wait was interrupted (Ctrl-C): the text says which commands stay.
    """
    lines = [_Line(open_queue(queue), deque(keys), verb) for queue, keys in wanted.items()]
    try:
        while lines := [line for line in lines if line.open]:
            ended = [end for line in lines for end in line.step(patience)]
            yield from ended
            if not ended:
                time.sleep(_PAUSE)
    except KeyboardInterrupt as interrupt:
        sent = ", ".join(repr(line.key) for line in lines if line.open)
        raise OrderlyError(
            f"you interrupted only the wait: the commands about {sent} were sent and will run; see"
            " the result with `orderly parked list`. Commands about later keys were not sent"
        ) from interrupt


class _Line:
    """The commands of one queue, one after the other.

    Attributes:
        open: whether there is one under way, or to be sent.
        key: which it is about.
    """

    def __init__(self, queue: ParkedQueue, keys: deque[Key], verb: Verb) -> None:
        self._queue = queue
        self._keys = keys
        self._verb = verb
        self._sent: _Sent | None = None
        self._heard = 0.0
        self.open = bool(keys)
        self.key = keys[0] if keys else ""

    def step(self, patience: float) -> Iterator[Ended]:
        """Look once, or send the next one; yields what has ended."""
        try:
            if self._sent is None:
                self.key = self._keys.popleft()
                self._sent = _Sent(self._queue, self._verb, self.key)
                self._sent.send()
                self._heard = time.monotonic()
            elif self._sent.look(lambda _: None, lambda _: None):
                self._heard = time.monotonic()
        except OrderlyError as error:
            yield from self._give_up(error)
            return
        if self._sent.end is not None:
            end, self._sent = self._sent.end, None
            self.open = bool(self._keys)
            yield self._queue.queue, self.key, _outcome(self._queue.queue, self.key, end)
        elif time.monotonic() - self._heard >= patience:
            yield from self._give_up(self._sent.unanswered(patience))

    def _give_up(self, error: OrderlyError) -> Iterator[Ended]:
        self.open = False
        yield self._queue.queue, self.key, error
        for key in self._keys:
            yield self._queue.queue, key, OrderlyError(f"not tried: {self.key!r} was not answered")


class _Sent:
    """A command in one park queue, and what its owner has said of it.

    Attributes:
        end: the last result, once it is there.
        taken: there was one before it.
        waits: what its owner said last that it waits for; None: it goes on.
        failure: why the park queue could not be read just now.
    """

    def __init__(self, queue: ParkedQueue, verb: Verb, key: Key) -> None:
        self.queue = queue
        self.end: Result | None = None
        self.taken = False
        self.waits: str | None = None
        self._settled = 0
        self.failure: OrderlyError | None = None
        by, at_ms = queue.client.client_id, int(time.time() * 1000)
        self._command = Command(uuid.uuid4().hex, verb, key, by, at_ms)
        self._at = 0

    def send(self) -> None:
        """Store it."""
        self._at = self.queue.append(control_message(self._command)) + 1

    def look(self, on_progress: OnProgress, on_waits: OnSent) -> bool:
        """Read on; returns whether there was a word of the owner.

        Args:
            on_progress: gets how many messages are settled, when that changes.
            on_waits: gets a line when the owner says what it waits for.
        """
        try:
            call = ReadParked(self.queue.park_queue, self._at, RESULT)
            read: ParkedRead = self.queue.perform(call)
        except OrderlyError as error:  # the command is stored: its owner may well go on with it
            self.failure = error
            return False
        self.failure = None
        self._at = max(self._at, read.next_offset)
        results = _results(read.messages, self._command.id)
        for result in results:
            if result.done:
                self.end = result
                break
            self.taken = True
            self.waits = result.reason
            if result.reason is not None:
                on_waits(f"the owner of {self.queue.queue} waits: {result.reason}")
            if result.settled != self._settled:
                self._settled = result.settled
                on_progress(result.settled)
        return bool(results)

    def unanswered(self, patience: float) -> OrderlyError:
        """What to say if there was no end within so many seconds, and nobody asks any more."""
        if self.failure is not None:
            text = f"no answer within {patience:g} s: {self.failure}"
        elif self.waits is not None:
            text = f"no end within {patience:g} s: the queue's owner waits: {self.waits}"
        else:
            text = f"no answer within {patience:g} s: {_members(self.queue)}"
        return _unanswered(self.queue, self._command.verb, self._command.key, text)

    def silence(self) -> OrderlyError:
        """Why there is no end."""
        if self.failure is not None:
            return self.failure
        if self.waits is not None:
            return OrderlyError(f"its owner has taken the command and waits: {self.waits}")
        if self.taken:
            return OrderlyError("its owner has taken the command and has not finished it yet")
        return OrderlyError(
            "no owner answered: the queue has none, its member hangs, or the member's release does"
            " not know this command"
        )


def _await(
    sent: Sequence[_Sent], patience: float, on_progress: OnProgress, on_waits: OnSent
) -> None:
    """Wait until all have ended, or nobody has said anything for so long."""
    heard = time.monotonic()
    while time.monotonic() - heard < patience:
        left = [each for each in sent if each.end is None]
        if not left:
            return
        words = [each.look(on_progress, on_waits) for each in left]
        if any(words):
            heard = time.monotonic()
        else:
            time.sleep(_PAUSE)


def _unanswered(queue: ParkedQueue, verb: Verb, key: Key, why: str) -> OrderlyError:
    return OrderlyError(
        f"the outcome for key {key!r} of {queue.queue} is not known: {why}. The command"
        f" ({verb.value}) stays in the park topic: the queue's owner, or its next one, runs it,"
        " even if nobody waits for it. Do not send it again; see the result with `orderly parked"
        " list`"
    )


def _members(queue: ParkedQueue) -> str:
    try:
        members = queue.client.admin.consumer_connections(queue.group)
    except OrderlyError:
        return "whether members are online is not known"
    if members is None:
        return "no member of the group is online; the command waits for the next one"
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
