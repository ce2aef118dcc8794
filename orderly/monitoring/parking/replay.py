"""Replaying a parked key in this process, which owns the source queue for that time.

The same dialogues as a member's: lock, take over, commit what is settled, hand on. So it works only
while no member holds the queue, and whatever it did not record is replayed again by the next owner.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from orderly.config import ConsumerConfig
from orderly.consumer.session import now
from orderly.errors import ConfigError, LockLost
from orderly.model import ReceivedMessage
from orderly.monitoring.parking.commands import OnProgress, Outcome
from orderly.monitoring.parking.queue import KeyFound, ParkedQueue
from orderly.monitoring.parking.queues import NotParked
from orderly.ordering.calls import LockQueues, MinOffset, UnlockQueues, converse
from orderly.ordering.context import ConsumeContext
from orderly.ordering.outcomes import Ack, Fail
from orderly.ordering.parking.keys import Key, ParkedKey, ParkedKeys
from orderly.ordering.results import ConsumeResult
from orderly.ordering.state.committing import Progress, commit, hand_on
from orderly.ordering.state.inheritance import Inheritance, take_over
from orderly.ordering.state.runs import contains
from orderly.protocol.park_control import short_text
from orderly.protocol.park_record import Released, control_message, read_parked

Handler = Callable[[Sequence[ReceivedMessage], ConsumeContext], Any]

_RECORD_EVERY = 1.0  # seconds: what a crash repeats at most, besides the message it interrupts
_RENEW_AFTER = 10.0  # seconds; others take the lock 60 s after its last renewal
_TRUST = ConsumerConfig().lock_trust


def replay_here(queue: ParkedQueue, key: Key, handler: Handler, on_progress: OnProgress) -> Outcome:
    """Run a parked key's messages in order by `handler`, then let the key go on live.

    Args:
        queue: where the key is parked.
        key: which key.
        handler: called with one message; Ack() goes on, anything else stops.
        on_progress: told how many messages are settled so far.

    Raises:
        ConfigError: an async handler, or the key is not parked by now.
        LockLost: a member holds the queue, or took it meanwhile: what was not recorded until then
            is replayed again.
        OrderlyError: a broker does not answer.
    """
    if any(map(inspect.iscoroutinefunction, (handler, type(handler).__call__))):
        raise ConfigError("replay calls a plain function, and this handler is async")
    with _owning(queue) as owner:
        return owner.replay(key, handler, on_progress)


@contextmanager
def _owning(queue: ParkedQueue) -> Iterator[_Owner]:
    source, taken_at = queue.queue, now()
    if source not in queue.perform(LockQueues(source.broker_name, (source,))):
        raise LockLost(
            f"{source} is held by a member of group {queue.group}: stop all members (a killed"
            " one's queues are free after 60 s), or have a member do it: `orderly parked release`"
        )
    try:
        owner = _Owner(queue, _inherit(queue), taken_at)
    except BaseException:
        queue.perform(UnlockQueues(source.broker_name, (source,)))
        raise
    try:
        yield owner
    finally:
        owner.give_back()


def _inherit(queue: ParkedQueue) -> Inheritance:
    name = queue.client.client_id
    dialogue = take_over(queue.queue, queue.state_queue, queue.park_queue, name, "first")
    inherited = converse(dialogue, queue.perform)
    if inherited is None:
        raise LockLost(f"a member of group {queue.group} has taken {queue.queue} meanwhile")
    return inherited


class _Owner:
    """The ownership of one queue; the `Tenure` of the calls of the handler, too."""

    def __init__(self, queue: ParkedQueue, inherited: Inheritance, taken_at: float) -> None:
        self._queue = queue
        self._inherited = inherited
        self._fence = inherited.fence
        self._parking = ParkedKeys(inherited.kept)
        self._renewed_at = taken_at
        self._recorded_at = taken_at
        memory = inherited.memory
        self.token: int = 0 if memory is None else memory.fencing_token
        self.generation: int = 0 if memory is None else memory.generation
        self.lost = threading.Event()

    def generation_of(self, key: Hashable | None, replayed: bool) -> int:  # noqa: ARG002
        """As `Tenure` says."""
        parked = None if key is None else self._parking.get(key)
        return self.generation if parked is None else parked.generation

    @property
    def deadline(self) -> float:
        """As `Tenure` says."""
        return self._renewed_at + _TRUST

    def extend(self) -> float:
        """Renew the lock; as `Tenure` says."""
        source, asked_at = self._queue.queue, now()
        if source not in self._queue.perform(LockQueues(source.broker_name, (source,))):
            self.lost.set()
            raise LockLost(f"a member of group {self._queue.group} has taken {source} meanwhile")
        self._renewed_at = asked_at
        return self.deadline

    def replay(self, key: Key, handler: Handler, on_progress: OnProgress) -> Outcome:
        """Run the key's messages; what is settled is on record when it returns."""
        parked = self._parking.get(key)
        if parked is None:
            raise NotParked(f"key {key!r} is not parked in {self._queue.queue} any more")
        found = self._find(parked)
        lost = self._lost(parked, found)
        if lost is not None:
            return lost
        settled, below = 0, parked.next
        for message in self._queue.messages(found):
            namespace = self._queue.client.config.namespace
            original = read_parked(message).original.changed(namespace=namespace)
            if not self._is_finished(original.queue_offset):
                break  # parked, but that is not on record: its queue delivers it again
            reason = self._try(key, original, handler)
            if reason is not None:
                self._settle(key, below)
                return Outcome(self._queue.queue, key, settled, original.queue_offset, reason)
            settled, below = settled + 1, original.queue_offset + 1
            self._parking.settled(key, below, messages=1, size=message.stored_size)
            on_progress(settled)
            if now() - self._recorded_at >= _RECORD_EVERY:
                self._record()
        self._parking.release(key)
        self._settle(key, below)
        return Outcome(self._queue.queue, key, settled)

    def _find(self, parked: ParkedKey) -> KeyFound:
        """All that is parked of a key, also what its last owner appended just before it ended."""
        harmless = Released(parked.key, parked.next, self.token)  # what is known anyway
        self._queue.await_visible(self._queue.append(control_message(harmless)))
        return self._queue.find((parked,))[parked.key]

    def _lost(self, parked: ParkedKey, found: KeyFound) -> Outcome | None:
        """Stop, once, if the broker has deleted messages by their age."""
        missing = parked.messages - sum(self._is_finished(place.offset) for place in found.places)
        oldest: int = self._queue.perform(MinOffset(self._queue.park_queue))
        if missing <= 0 or oldest <= parked.at:
            return None
        self._parking.moved(parked.key, oldest)
        self._settle(parked.key, parked.next)
        reason = (
            f"the broker has deleted about {missing} of its messages by their age; give the command"
            " once more to have it carried out on what is left"
        )
        return Outcome(self._queue.queue, parked.key, 0, parked.next, reason)

    def _is_finished(self, offset: int) -> bool:
        """Whether a message is done for its source queue, so that it will not come from there."""
        inherited = self._inherited
        return offset < inherited.start or contains(inherited.finished, offset)

    def _try(self, key: Key, message: ReceivedMessage, handler: Handler) -> str | None:
        """Call the handler; returns why it did not acknowledge, or None."""
        if now() - self._renewed_at >= _RENEW_AFTER:
            self.extend()
        context = ConsumeContext(
            self._queue.queue, self._queue.group, key=key, tenure=self, replayed=True
        )
        try:
            answer = handler((message,), context)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is the user's code
            return short_text(f"{type(error).__name__}: {error}")
        if message.queue_offset in context.finished:
            return None
        match answer:
            case Ack() | ConsumeResult.SUCCESS:
                return None
            case Fail(reason):
                return short_text(reason)
        return short_text(f"the handler answered {answer!r}")

    def _settle(self, key: Key, below: int) -> None:
        """Put on record what is settled, then say it in the park queue; whoever looks sees both."""
        self._record()
        released = control_message(Released(key, below, self.token))
        self._queue.await_visible(self._queue.append(released))

    def _record(self) -> None:
        self.extend()
        memory = self._inherited.memory
        dialogue = commit(self._queue.queue, self._progress(), self._fence, memory, now=now())
        converse(dialogue, self._queue.perform)
        self._recorded_at = now()

    def _progress(self) -> Progress:
        inherited = self._inherited
        kept, crashes = self._parking.kept, inherited.crashes
        return Progress(inherited.start, inherited.finished, kept=kept, crashes=crashes)

    def give_back(self) -> None:
        """Put on record what is settled and unlock; a queue that is lost is left alone."""
        if self.lost.is_set():
            return
        source = self._queue.queue
        memory = self._inherited.memory
        dialogue = hand_on(source, self._progress(), self._fence, memory, now=now())
        refused = converse(dialogue, self._queue.perform)
        if refused is not None:
            raise refused
