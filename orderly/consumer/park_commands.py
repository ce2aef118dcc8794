"""Commands about parked keys: found in the park queue, and carried out in the key's lane.

One command at a time in each queue: park a key (add), release, drop, or try it without a trace.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial

from orderly.clock import now
from orderly.consumer.handler_caller import Called, CallHandler, Mode, TaskSteps
from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.park_queue import KeyMessages, ParkQueue
from orderly.consumer.parking import Parker
from orderly.consumer.session import HeldQueue, KeyToPark, Session
from orderly.errors import LockLost, NotAvailableYet, OrderlyError, ProtocolError, RemotingError
from orderly.log import key_text, type_text, where
from orderly.model import ReceivedMessage
from orderly.ordering.fingerprint import fingerprint
from orderly.ordering.parking import ParkedPlace
from orderly.ordering.results import ConsumeResult, Disposition, Fail
from orderly.protocol.park_record import (
    COMMAND,
    MAX_OUTCOMES,
    RESULT,
    Command,
    Control,
    Parked,
    Released,
    Result,
    Verb,
    control_message,
    read_park,
    short_text,
)
from orderly.protocol.parked_key import ParkedKey
from orderly.protocol.record_format import written_behind

COMMANDS_INTERVAL = 1.0  # seconds
IDLE_LOOKS = 5  # a queue in which nothing is parked is looked at once in so many rounds
ADD_VALID = 300.0  # seconds; a key that blocked then may be well now
_NO_DRY_RUN = (
    "the handler does not support a dry run: make it leave no trace if context.dry_run is set,"
    " and give it an attribute dry_run = True (a listener: @orderly.listener(dry_run=True)). A"
    " release without --dry-run needs neither, and stops at the first message that fails"
)
_VAIN_BEGINNINGS = 3
_ENDS_PROCESSES = (
    f"it began {_VAIN_BEGINNINGS} times, and each time the process ended or gave up the queue"
    " before a message was done: look at what the handler does with the key's first parked"
    " messages, then give the command again"
)


class ParkCommands:
    """Of one consumer. One thread calls `round`.

    Args:
        session: the consumer's shared state.
        ready: called when a queue has something to run.
        parker: parks messages.
        dry_run: whether the handler says that it leaves no trace where the context asks for that.
    """

    def __init__(
        self,
        session: Session,
        ready: Callable[[HeldQueue], None],
        parker: Parker,
        *,
        dry_run: bool,
    ) -> None:
        self._session = session
        self._ready = ready
        self._parker = parker
        self._dry_run = dry_run
        self._rounds = 0
        self._desks: dict[HeldQueue, _Desk] = {}

    def round(self) -> None:
        """Look once into the park queue of each held queue with parked keys, seldom of the others.

        A broker that does not answer is asked once a round, so that it holds up no other.
        """
        self._rounds += 1
        holds = [h for h in self._session.held() if h.memory is not None and h.announced]
        self._desks = {h: self._desk(h) for h in holds}
        silent: set[str] = set()
        for held, desk in self._desks.items():
            broker, idle = held.queue.broker_name, not (desk.busy or held.owned.parking)
            if held.owned.dropped is not None or broker in silent:
                continue
            if idle and self._rounds % IDLE_LOOKS:
                continue
            try:
                desk.look()
            except OrderlyError as error:
                log = held.log.debug if idle else held.log.warning
                log("command.not_read", error=str(error))
                if isinstance(error, RemotingError):
                    silent.add(broker)

    def _desk(self, held: HeldQueue) -> _Desk:
        desk = self._desks.get(held)
        if desk is not None:
            return desk
        return _Desk(self._session, held, self._ready, self._parker, dry_run=self._dry_run)


class _Desk:
    """Takes the commands for one held queue. Used by the thread of `ParkCommands` only."""

    def __init__(
        self,
        session: Session,
        held: HeldQueue,
        ready: Callable[[HeldQueue], None],
        parker: Parker,
        *,
        dry_run: bool,
    ) -> None:
        self._session = session
        self._held = held
        self._ready = ready
        self._parker = parker
        self._dry_run = dry_run
        self._queue = ParkQueue(session, held)
        self._at = held.owned.parking.commands
        self._work: Replay | Adding | None = None

    @property
    def busy(self) -> bool:
        """Whether a command is being carried out."""
        return self._work is not None

    def look(self) -> None:
        """See to the command that is being carried out, or look for the next one."""
        if self._work is not None and not self._work.ended:
            self._work.send()
            return
        self._work = None
        self._at = max(self._at, self._held.owned.parking.commands)
        while self._work is None:
            read = self._queue.read(self._at, COMMAND)
            for message in read.messages:
                self._take(message)
                if self._work is not None:
                    return
            if read.next_offset <= self._at:
                return
            self._at = read.next_offset

    def _take(self, message: ReceivedMessage) -> None:
        position = message.queue_offset
        try:
            command = read_park(message)
        except ProtocolError as error:
            self._held.log.warning("command.unreadable", position=position, error=str(error))
            command = None
        if isinstance(command, Command):
            self._begin(command, message)
        self._at = position + 1

    def _begin(self, command: Command, message: ReceivedMessage) -> None:
        position = message.queue_offset
        adds = command.verb in (Verb.ADD, Verb.LOOK)
        if adds and any(result.done for result in self._results(command, position)):
            return  # answered: and what it was about is another thing by now
        refusal = _too_old(message.store_time) if adds else self._refusal(command, message)
        if refusal is None:
            self._held.log.info("command.taken", command=command.id, verb=str(command.verb))
            work = (self._session, self._held, command, position, self._ready)
            self._work = Adding(*work, parker=self._parker) if adds else Replay(*work)
            self._at = position + 1
            self._work.send()
            return
        self._queue.append(control_message(Result(command.id, done=True, reason=refusal)))
        with self._held.lock:
            parking = self._held.owned.parking
            parking.commands = max(parking.commands, position + 1)

    def _refusal(self, command: Command, message: ReceivedMessage) -> str | None:
        with self._held.lock:
            parked = self._held.owned.parking.get(command.key)
        # A command must not outlive what it was about, nor be given again later.
        if parked is None or parked.at > written_behind(message):
            return (
                f"key {command.key!r} is not parked in {self._held.queue} now: an earlier command"
                " can have settled it"
            )
        if command.verb is Verb.TRY and not self._dry_run:
            return _NO_DRY_RUN
        if command.verb is not Verb.DROP and self._ends_processes(command, message.queue_offset):
            return _ENDS_PROCESSES
        return None

    def _ends_processes(self, command: Command, position: int) -> bool:
        """Whether one owner after the other has begun it, and got nowhere."""
        vain = self._results(command, position)[-_VAIN_BEGINNINGS:]
        return len(vain) == _VAIN_BEGINNINGS and all(result.settled == 0 for result in vain)

    def _results(self, command: Command, position: int) -> list[Result]:
        """What owners have said of a command, this one or former ones."""
        found: list[Result] = []
        while True:
            read = self._queue.read(position, RESULT)
            found += [result for m in read.messages if (result := _result_of(command, m))]
            if read.next_offset <= position:
                return found
            position = read.next_offset


def _too_old(stored_at: float) -> str | None:
    age = time.time() - stored_at
    if age <= ADD_VALID:
        return None
    return (
        f"it was given {age:.0f} s ago, by the clocks of its broker and of this member, and the"
        " key can be well by now: give the command again if it still blocks"
    )


def _result_of(command: Command, message: ReceivedMessage) -> Result | None:
    try:
        record = read_park(message)
    except ProtocolError:
        return None
    return record if isinstance(record, Result) and record.id == command.id else None


# --- add: a key that blocks is parked, in the turn of its lane ------------------------------------


ADD_PATIENCE = 50.0  # seconds; whoever asks waits a little longer
_KEPT = (
    "the handler keeps all of its messages uncommitted (manual commit): they are parked when it"
    " rolls them back, or fails"
)
_NO_TURN = (
    f"its turn has not come for {ADD_PATIENCE:g} s, and the command waits no longer: a handler"
    " call with the key still runs, the queue is paused, or its park queue cannot be written"
    " (event park.failed)"
)


class Adding:
    """One command to park a key, or to say whether that is possible. One thread uses it.

    The key's lane is roused if it waits after a failure, and what it has is parked at its next
    turn: not beside a call of the handler, so a call that runs is waited for.

    Args:
        session: the consumer's shared state.
        held: the queue.
        command: what to do.
        position: of the command.
        ready: called when a queue has something to run.
        parker: parks messages.
    """

    def __init__(
        self,
        session: Session,
        held: HeldQueue,
        command: Command,
        position: int,
        ready: Callable[[HeldQueue], None],
        *,
        parker: Parker,
    ) -> None:
        self._held = held
        self._command = command
        self._ready = ready
        self._parker = parker
        self._ending = Ending(session, held, ParkQueue(session, held), command, position)
        self._wanted: KeyToPark | None = None
        self._until = now() + ADD_PATIENCE

    @property
    def ended(self) -> bool:
        """Whether it is done, or refused, and the result is written."""
        return self._ending.finished

    def send(self) -> None:
        """Begin with it, or see how far it is.

        Raises:
            OrderlyError: the park queue does not take an answer; to be called again.
        """
        if not self._ending.chosen:
            with self._held.lock:
                begun = self._begin() if self._wanted is None else self._see(self._wanted)
            if begun:
                self._ready(self._held)
                self._ending.progress(record=False)  # who waits knows that it was taken
        if self._ending.chosen:
            self._ending.finish()

    def _begin(self) -> bool:
        """Have the key parked unless that cannot be; returns whether it will be."""
        key, owned = self._command.key, self._held.owned
        lane = owned.messages.lane_of(key)
        if owned.parking.parked(key):
            self._ending.refuse(f"key {key!r} is already parked")
        elif lane is None or not lane.unfinished:
            self._ending.count(0)
        elif lane.keeps_all:
            self._ending.refuse(_KEPT)
        elif refusal := self._parker.why_not(self._held, key, lane.unfinished, lane.messages.size):
            self._ending.refuse(refusal)
        elif self._command.verb is Verb.LOOK:
            self._ending.count(lane.unfinished)
        else:
            self._wanted = self._held.to_park[key] = KeyToPark(self._command.by)
            owned.messages.rouse(lane)
            return True
        return False

    def _see(self, wanted: KeyToPark) -> bool:
        """Choose the ending if it is known by now; returns False: it has begun."""
        key, held = self._command.key, self._held
        parked, lane = held.owned.parking.get(key), held.owned.messages.lane_of(key)
        if wanted.refusal is not None:
            self._ending.refuse(wanted.refusal)
        elif key not in held.to_park:
            self._ending.count(0 if parked is None else parked.messages)
        elif key in held.being_parked:
            pass
        elif lane is None or not lane.unfinished:  # handled by a call that ran meanwhile
            del held.to_park[key]
            self._ending.count(0)
        elif lane.keeps_all or now() > self._until:
            del held.to_park[key]
            self._ending.refuse(_KEPT if lane.keeps_all else _NO_TURN)
        return False


# --- release, drop and try ------------------------------------------------------------------------
# They are carried out in the turns of the key's lane: never beside the handler. A turn takes about
# a second, then the lane's own messages go on being parked for a moment. The last turn finds
# nothing left, and gives the key back: no message is left out and none runs twice. An owner that
# takes the queue over meanwhile restarts the command where this one got to.


SLICE = 1.0  # seconds of one turn
_REST = 0.05  # seconds between two turns, in which messages of the key are parked

Work = Generator[CallHandler, Called, bool]
"""A part of the command; whether it is carried out, so that only the ending is left."""


class Replay:
    """A lane task. One turn at a time; `send` is thread-safe.

    Args:
        session: the consumer's shared state.
        held: the queue.
        command: what to do, with a key that is parked.
        position: of the command.
        ready: called when a queue has something to run.
    """

    def __init__(
        self,
        session: Session,
        held: HeldQueue,
        command: Command,
        position: int,
        ready: Callable[[HeldQueue], None],
    ) -> None:
        self._session = session
        self._held = held
        self._command = command
        self._ready = ready
        self._queue = ParkQueue(session, held)
        self._ending = Ending(session, held, self._queue, command, position)
        self._waiting = False
        self._begun_at = 0  # in the park queue
        self._messages: KeyMessages | None = None
        self._kept: list[Parked] = []  # acknowledged, and not yet committed
        self._present = 0
        self._untried: deque[ParkedPlace] | None = None
        self._next_call: float = -math.inf  # seconds; no call of the handler begins before
        self._outcomes: list[tuple[int, str]] = []

    @property
    def ended(self) -> bool:
        """Whether the command is carried out, and the result is written."""
        return self._ending.finished

    def send(self) -> None:
        """Have it go on in the lane's next turn, unless it waits for that already."""
        with self._held.lock:
            if self._waiting or self.ended or self._held.owned.dropped is not None:
                return
            self._waiting = True
            self._held.owned.send_lane_task(self._command.key, self)
        self._ready(self._held)

    def steps(self) -> TaskSteps:
        """One turn. What fails is done again: whoever looks for commands sends it again."""
        again = False
        try:
            again = yield from self._turn()
        except OrderlyError as error:
            if self._held.owned.dropped is None:
                self._ending.warn("command.interrupted", error=str(error))
        finally:
            self._waiting = False
        if again:
            rest = max(_REST, self._hold())
            self._session.client.schedule.after(rest, self.send)

    def _turn(self) -> Generator[CallHandler, Called, bool]:
        """Go on; returns whether another turn is wanted soon."""
        self._check_held()
        try:
            done = self._ending.chosen or (yield from self._work())
        except NotAvailableYet as error:
            self._stop_at_newer(str(error))
            done = True
        if not done:
            more = len(self._kept) + len(self._outcomes)
            self._ending.progress(record=self._command.verb is Verb.RELEASE, more=more)
            return True
        self._ending.finish()
        return False

    def _work(self) -> Work:
        messages = self._messages
        if messages is None:
            parked = self._parked
            if parked is None:
                self._ending.refuse(f"key {self._command.key!r} is no longer parked")
                return True
            messages = self._messages = self._begin(parked)
            if self._is_lost(parked, messages):
                return True
        work = {Verb.RELEASE: self._release, Verb.DROP: self._drop, Verb.TRY: self._try}
        return (yield from work[self._command.verb](messages))

    def _stop_at_newer(self, reason: str) -> None:
        """Stop before what this release cannot read: it must not be passed over."""
        parked = self._parked
        assert parked is not None, "only the end of a command ends the parking"
        self._ending.stop(parked.next, reason)

    # --- what is parked, and whether the queue is still ours -----------------------------------

    @property
    def _parked(self) -> ParkedKey | None:
        with self._held.lock:
            return self._held.owned.parking.get(self._command.key)

    def _check_held(self) -> None:
        """Raise LockLost if the queue is not surely ours: the command is its next owner's then.

        Asked before each call of the handler, as `OwnedQueue.take` does for live messages: the
        reads and appends in between may have taken longer than the lease.
        """
        with self._held.lock:
            ours = self._held.owned.keeps_lock(now()) and self._held.owned.dropped is None
        if not ours:
            raise LockLost(f"{self._held.queue} is being given up, or was lost")

    def _begin(self, parked: ParkedKey) -> KeyMessages:
        """Say that it begins; where that is stored shows how far there is anything to look for."""
        if not self._begun_at:  # once: who reads this counts how often it was begun
            self._begun_at = self._ending.progress(record=False)
        messages = KeyMessages(self._queue, self._held.queue, parked)
        self._catch_up(messages)
        return messages

    def _catch_up(self, messages: KeyMessages) -> None:
        """Find all that is parked of the key by now."""
        with self._held.lock:
            newest = self._held.owned.parking.last_position(self._command.key)
        newest = max(self._begun_at, newest)
        if newest >= messages.scanned:
            self._queue.await_visible(newest)
            messages.scan(newest + 1, self._check_held)

    def _is_lost(self, parked: ParkedKey, messages: KeyMessages) -> bool:
        """Stop, once, if messages are gone: they are not counted any more then."""
        missing = messages.missing
        if missing == 0:
            return False
        with self._held.lock:
            self._held.owned.parking.settled(parked.key, parked.next, messages=missing)
        self._ending.stop(
            parked.next,
            f"about {missing} of its messages are lost: deleted by their age, or damaged; give the"
            " command again to run the rest",
        )
        return True

    def _next(self, messages: KeyMessages) -> ParkedPlace | None:
        """The first message left; None if there is none.

        Copies of messages that are still to come from the queue itself do not count.
        """
        if messages.first is None:
            self._catch_up(messages)
        place = messages.first
        return place if place is not None and self._is_finished(place) else None

    def _is_finished(self, place: ParkedPlace) -> bool:
        with self._held.lock:
            return self._held.owned.is_finished(self._command.key, place.offset)

    # --- release -------------------------------------------------------------------------------

    def _release(self, messages: KeyMessages) -> Work:
        end = now() + SLICE
        while (place := self._next(messages)) is not None:
            if self._hold():
                return False
            parked = messages.body(place)
            if parked is None:
                return self._passed_over(place)
            called = yield from self._call(parked, Mode.REPLAY)
            failure = failure_of(called, place.offset)
            if failure is not None:
                self._check_held()  # it may have failed because of that
                self._ending.stop(self._first_left(place), failure)
                return True
            self._acknowledge(parked, called)
            messages.passed()
            if now() >= end:
                return False
        if self._kept:
            self._ending.stop(
                self._kept[0].offset,
                f"the handler keeps the last {len(self._kept)} messages uncommitted (manual"
                " commit): with the last parked message it must answer COMMIT",
            )
        else:
            self._ending.give_back()
        return True

    def _hold(self) -> float:
        """Seconds for which the consumer's rate, or the key's, holds the next call back."""
        return max(0.0, self._session.rate_wait(), self._next_call - now())

    def _call(self, parked: Parked, mode: Mode) -> Generator[CallHandler, Called, Called]:
        """Call the handler like with a live message; raise LockLost if that does not count."""
        self._session.rate_spend(1)
        self._next_call = now() + self._session.config.spacing
        self._check_held()
        namespace = self._session.client.config.namespace  # as the puller marks live ones
        message = parked.original.changed(reconsume_times=0, namespace=namespace)
        called = yield CallHandler((message,), mode)
        with self._held.lock:
            counts = self._held.owned.keeps_lock(now()) and self._held.owned.counts
        if not counts:
            raise LockLost(f"{self._held.queue} is no longer ours")
        return called

    def _acknowledge(self, parked: Parked, called: Called) -> None:
        """Settle it, and what the handler kept before it, as far as that is committed."""
        self._kept.append(parked)
        disposition = called.effect.disposition
        alone = len(self._kept) == 1 and disposition is not Disposition.KEEP
        if alone or disposition is Disposition.COMMIT:
            self._ending.settle(self._kept)
            self._kept = []

    def _first_left(self, place: ParkedPlace) -> int:
        return self._kept[0].offset if self._kept else place.offset

    def _passed_over(self, place: ParkedPlace) -> bool:
        """Stop at a message that was deleted just now; the next command does not find it."""
        left = self._first_left(place)
        with self._held.lock:
            self._held.owned.parking.settled(self._command.key, left, messages=1)
        self._ending.stop(
            left,
            f"the parked copy of the message at {place.offset} is gone: deleted by its age; give"
            " the command again to go on without it",
        )
        return True

    # --- drop, try -----------------------------------------------------------------------------

    def _drop(self, messages: KeyMessages) -> Work:
        yield from ()
        self._catch_up(messages)
        dropped = [place for place in messages.places() if self._is_finished(place)]
        self._ending.give_back(dropped)
        return True

    def _try(self, messages: KeyMessages) -> Work:
        if self._untried is None:
            present = list(filter(self._is_finished, messages.places()))
            self._present, self._untried = len(present), deque(present[:MAX_OUTCOMES])
        end = now() + SLICE
        while self._untried:
            if self._hold():
                return False
            place = self._untried[0]
            parked = messages.body(place)
            outcome: str | None = "its parked copy cannot be read"
            if parked is not None:
                outcome = failure_of((yield from self._call(parked, Mode.DRY_RUN)), place.offset)
            self._outcomes.append((place.offset, outcome or "ok"))
            self._untried.popleft()
            if now() >= end and self._untried:
                return False
        self._ending.report(tuple(self._outcomes), self._present)
        return True


# --- how a command ends ---------------------------------------------------------------------------
# What is recorded, and what is reported to whoever gave it. The record is what counts; tombstone,
# result and event come after it. What could not be written is written later, and never done twice.


class Ending:
    """Of one command. Not thread-safe; what writes blocks and raises OrderlyError.

    Args:
        session: the consumer's shared state.
        held: the queue.
        queue: its park queue.
        command: what was to be done.
        position: of the command.

    Attributes:
        chosen: how it ends is known; `finish` writes what is left.
        finished: all of it is written.
        settled: messages that need no replay any more; of a dry run, that were tried.
    """

    def __init__(
        self, session: Session, held: HeldQueue, queue: ParkQueue, command: Command, position: int
    ) -> None:
        self.chosen = False
        self.finished = False
        self.settled = 0
        self._session = session
        self._held = held
        self._queue = queue
        self._command = command
        self._position = position
        self._saver = OffsetSaver(session)
        self._left: deque[Callable[[], object]] = deque()

    # --- while it runs -------------------------------------------------------------------------

    def settle(self, messages: Sequence[Parked]) -> None:
        """Note that messages were acknowledged: those of the key that come first, in order."""
        size = sum(parked.original.stored_size for parked in messages)
        next_offset = messages[-1].offset + 1
        with self._held.lock:
            parking = self._held.owned.parking
            parking.settled(self._command.key, next_offset, messages=len(messages), size=size)
        self.settled += len(messages)

    def progress(self, *, record: bool, more: int = 0) -> int:
        """Say how far it is; returns where that is stored.

        Args:
            record: put it on record before.
            more: messages that were handled, and are not settled.
        """
        if record:
            self._saver.record(self._held)
        return self._append(Result(self._command.id, done=False, settled=self.settled + more))

    # --- its end: one of these -----------------------------------------------------------------

    def refuse(self, reason: str) -> None:
        """Nothing can be done."""
        self._end(self._result(reason=reason))

    def report(self, outcomes: tuple[tuple[int, str], ...], present: int) -> None:
        """Messages were tried; nothing changes.

        Args:
            outcomes: of each that was tried.
            present: how many there are; not more than MAX_OUTCOMES are tried.
        """
        tried = len(outcomes)
        reason = None if tried >= present else f"only the first {tried} of {present} were tried"
        self.settled = tried  # who asked reads it as "done"
        self._end(self._result(reason=reason, outcomes=outcomes))

    def count(self, parked: int) -> None:
        """So many messages of the key are parked now, or would be; no more is to be done."""
        self.settled = parked
        self._end(self._result())

    def stop(self, offset: int, reason: str) -> None:
        """The key stays parked, from the message at `offset` on."""
        reason = short_text(reason)
        self._end(
            partial(self._saver.record, self._held),
            self._tombstone(offset),
            self._result(failed_at=offset, reason=reason),
            partial(self.warn, "key.release_stopped", offset=offset, reason=reason),
        )

    def give_back(self, dropped: Sequence[ParkedPlace] = ()) -> None:
        """The key is parked no more: on record at once, for its messages go on to the handler.

        Args:
            dropped: messages that are settled without having been replayed.

        Raises:
            OrderlyError: that is not sure; the key stays parked.
        """
        key, parking = self._command.key, self._held.owned.parking
        with self._held.lock:
            parked = parking.get(key)
            assert parked is not None, "only the end of a command ends the parking"
            parking.release(key)
        try:
            self._saver.record(self._held)
        except OrderlyError:
            with self._held.lock:
                parking.restore(parked)
            raise
        self.settled += len(dropped)
        below = max(parked.next, dropped[-1].offset + 1) if dropped else parked.next
        event = "key.dropped" if self._command.verb is Verb.DROP else "key.released"
        self.warn(event, below=below)
        self._end(self._tombstone(below), self._result())

    # --- writing it ----------------------------------------------------------------------------

    def finish(self) -> None:
        """Write what is left to be written."""
        while self._left:
            self._left[0]()
            self._left.popleft()
        with self._held.lock:
            parking = self._held.owned.parking
            parking.commands = max(parking.commands, self._position + 1)
        self.finished = True

    def warn(self, event: str, **fields: object) -> None:
        """Emit an event with the command's fields."""
        at = where(self._session.group, self._held.queue) | {"key": key_text(self._command.key)}
        command = {"command": self._command.id, "verb": str(self._command.verb)}
        done = {"by": self._command.by, "settled": self.settled}
        self._held.log.warning(event, **(at | command | done | fields))

    def _end(self, *left: Callable[[], object]) -> None:
        self._left.extend(left)
        self.chosen = True

    def _result(
        self,
        failed_at: int | None = None,
        reason: str | None = None,
        outcomes: tuple[tuple[int, str], ...] = (),
    ) -> Callable[[], object]:
        result = Result(self._command.id, True, self.settled, failed_at, reason, outcomes)
        return partial(self._append, result)

    def _tombstone(self, below: int) -> Callable[[], object]:
        token = self._held.memory.token if self._held.memory else 0
        return partial(self._append, Released(self._command.key, below, token))

    def _append(self, record: Control) -> int:
        return self._queue.append(control_message(record))


# --- what a call with a parked message came to ----------------------------------------------------


def failure_of(called: Called, offset: int) -> str | None:
    """Return why a message is not acknowledged, for people; None: it is.

    Nothing of the message is in it: of an exception only its fingerprint.

    Args:
        called: the call.
        offset: of its only message.
    """
    context, answer, effect = called.context, called.answer, called.effect
    rolled_back = (
        effect.disposition is Disposition.ROLLBACK
    )  # also messages that were named, as live
    if effect.acknowledges or (offset in context.finished and not rolled_back):
        return None
    if offset in context.parked:
        return context.parked[offset].fingerprint or context.parked[offset].reason
    return context.rejected.get(offset) or _text(answer)


def _text(answer: object) -> str:
    match answer:
        case BaseException():
            return fingerprint(answer).text
        case Fail(reason):
            return reason
        case ConsumeResult():
            return f"the handler answered {answer.name}"
    return f"the handler answered {type_text(answer)}"
