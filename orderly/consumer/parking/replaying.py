"""Carries out one command on a parked key, in the turns of its lane: never beside the handler.

A turn takes about a second, then the lane's own messages go on being parked for a moment. The last
turn finds nothing left, and gives the key back: no message is left out and none runs twice. An
owner that takes the queue over meanwhile begins the command anew, where this one got to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator

from orderly.consumer.handling.calling import Called, Mode
from orderly.consumer.handling.errand import CallHandler, Steps
from orderly.consumer.parking.ending import Ending
from orderly.consumer.parking.key_messages import KeyMessages
from orderly.consumer.parking.outcome import failure_of
from orderly.consumer.parking.reading import ParkQueue
from orderly.consumer.session import Held, Session, now
from orderly.errors import LockLost, NotAvailableYet, OrderlyError
from orderly.ordering.parking.index import Place
from orderly.ordering.parking.keys import ParkedKey
from orderly.ordering.results import Disposition
from orderly.protocol.park_control import MAX_OUTCOMES, Command, Verb
from orderly.protocol.park_record import Parked

SLICE = 1.0  # seconds of one turn
_REST = 0.05  # seconds between two turns, in which messages of the key are parked

Work = Generator[CallHandler, Called, bool]
"""A part of the command; whether it is carried out, so that only the ending is left."""


class Replay:
    """An errand. One turn at a time; `send` is thread-safe.

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
        held: Held,
        command: Command,
        position: int,
        ready: Callable[[Held], None],
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
        self._untried: deque[Place] | None = None
        self._outcomes: list[tuple[int, str]] = []

    @property
    def ended(self) -> bool:
        """Whether the command is carried out, and that is told."""
        return self._ending.told

    def send(self) -> None:
        """Have it go on in the lane's next turn, unless it waits for that already."""
        with self._held.lock:
            if self._waiting or self.ended or self._held.owned.dropped is not None:
                return
            self._waiting = True
            self._held.owned.send_errand(self._command.key, self)
        self._ready(self._held)

    def steps(self) -> Steps:
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
            self._session.client.schedule.after(_REST, self.send)

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
        self._ending.tell()
        return False

    def _work(self) -> Work:
        messages = self._messages
        if messages is None:
            parked = self._parked
            if parked is None:
                self._ending.refuse(f"key {self._command.key!r} is not parked any more")
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

    # --- what there is -------------------------------------------------------------------------

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
            " command once more to have it carried out on what is left",
        )
        return True

    def _next(self, messages: KeyMessages) -> Place | None:
        """The first message left; None: there is none.

        Copies of messages that are still to come from the queue itself do not count.
        """
        if messages.first is None:
            self._catch_up(messages)
        place = messages.first
        return place if place is not None and self._is_finished(place) else None

    def _is_finished(self, place: Place) -> bool:
        with self._held.lock:
            return self._held.owned.is_finished(self._command.key, place.offset)

    # --- release -------------------------------------------------------------------------------

    def _release(self, messages: KeyMessages) -> Work:
        end = now() + SLICE
        while (place := self._next(messages)) is not None:
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

    def _call(self, parked: Parked, mode: Mode) -> Generator[CallHandler, Called, Called]:
        """Call the handler like with a live message; raise LockLost if that does not count."""
        self._check_held()
        namespace = self._session.client.config.namespace  # as the puller marks live ones
        message = parked.original.changed(reconsume_times=0, namespace=namespace)
        called = yield CallHandler((message,), mode)
        with self._held.lock:
            counts = self._held.owned.keeps_lock(now()) and self._held.owned.counts
        if not counts:
            raise LockLost(f"{self._held.queue} is not ours any more")
        return called

    def _acknowledge(self, parked: Parked, called: Called) -> None:
        """Settle it, and what the handler kept before it, as far as that is committed."""
        self._kept.append(parked)
        disposition = called.effect.disposition
        alone = len(self._kept) == 1 and disposition is not Disposition.KEEP
        if alone or disposition is Disposition.COMMIT:
            self._ending.settle(self._kept)
            self._kept = []

    def _first_left(self, place: Place) -> int:
        return self._kept[0].offset if self._kept else place.offset

    def _passed_over(self, place: Place) -> bool:
        """Stop at a message that was deleted just now; the next command does not find it."""
        left = self._first_left(place)
        with self._held.lock:
            self._held.owned.parking.settled(self._command.key, left, messages=1)
        self._ending.stop(
            left,
            f"the parked copy of the message at {place.offset} is not there any more: deleted by"
            " its age; give the command once more to go on without it",
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
