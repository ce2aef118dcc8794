"""Releases, drops or tries a parked key, in the turns of the key's lane: never beside the handler.

A turn takes about a second, then the lane's own messages go on being parked for a moment. The last
turn finds nothing left, and gives the key back: no message is left out and none runs twice. An
owner that takes the queue over meanwhile restarts the command where this one got to.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator

from orderly.clock import now
from orderly.consumer.command_task import CommandTask
from orderly.consumer.handler_caller import Called, CallHandler, Mode, TaskSteps
from orderly.consumer.park_queue import KeyMessages
from orderly.consumer.session import HeldQueue, Session
from orderly.errors import LockLost, NotAvailableYet, OrderlyError
from orderly.log import type_text
from orderly.ordering.fingerprint import fingerprint
from orderly.ordering.parking import ParkedPlace
from orderly.ordering.results import ConsumeResult, Disposition, Fail
from orderly.protocol.park_record import MAX_OUTCOMES, Command, Parked, Verb
from orderly.protocol.parked_key import ParkedKey

SLICE = 1.0  # seconds of one turn
_REST = 0.05  # seconds between two turns, in which messages of the key are parked

Work = Generator[CallHandler, Called, bool]
"""A part of the command; whether it is carried out, so that only the ending is left."""


class Replay(CommandTask):
    """One command about a key that is parked. A drop calls no handler.

    Each message that a handler gets has its permit of the consumer's rate, and keeps the key's.

    Args:
        session: the consumer's shared state.
        held: the queue.
        command: what to do.
        ready: called when a queue has something to run.
    """

    def __init__(
        self,
        session: Session,
        held: HeldQueue,
        command: Command,
        ready: Callable[[HeldQueue], None],
    ) -> None:
        super().__init__(session, held, command, ready, errand=command.verb is Verb.DROP)
        self._begun_at = 0  # in the park queue
        self._messages: KeyMessages | None = None
        self._kept: list[Parked] = []  # acknowledged, and not yet committed
        self._present = 0
        self._untried: deque[ParkedPlace] | None = None
        self._reported = 0
        self._next_call = -math.inf  # seconds; by the key's rate no call begins before
        self._permit = False  # of the consumer's rate, for the next call
        self._in_line = False  # for that permit
        self._outcomes: list[tuple[int, str]] = []

    def send(self) -> None:
        """Have it go on in the lane's next turn, unless it waits for that already."""
        with self._held.lock:
            waits = self._waiting or self._in_line or now() < self._next_call
            if waits or self.ended or self._held.owned.dropped is not None:
                return
            self._want_turn()
        self._ready(self._held)

    def steps(self) -> TaskSteps:
        """One turn. What fails is done again: whoever looks for commands sends it again."""
        again, self._in_turn = False, True
        try:
            again = yield from self._turn()
        except OrderlyError as error:
            if self._held.owned.dropped is None:
                self._ending.warn("command.interrupted", error=str(error))
        finally:
            self._waiting = self._in_turn = False
            if not again:
                self._return_permit()
        if again and not self._in_line:
            rest = max(_REST, self._next_call - now())
            self._session.client.schedule.after(rest, self.send)

    def _turn(self) -> Generator[CallHandler, Called, bool]:
        """Go on; returns whether another turn is wanted soon."""
        self._check_held()
        with self._held.lock:
            paced = self._held.owned.messages.pace_end(self._command.key)
            self._next_call = max(self._next_call, paced)
        try:
            done = self._ending.chosen or (yield from self._work())
        except NotAvailableYet as error:
            self._stop_at_newer(str(error))
            done = True
        if done:
            self._ending.finish()
            return False
        reached = self._ending.settled + len(self._kept) + len(self._outcomes)
        if reached != self._reported:
            more = len(self._kept) + len(self._outcomes)
            self._ending.progress(record=self._command.verb is Verb.RELEASE, more=more)
            self._reported = reached
        return True

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
            if not self._may_call():
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

    def _may_call(self) -> bool:
        """Whether the next call may begin by the rates of the key, and of the consumer."""
        if now() < self._next_call:
            return False
        if not self._permit:
            self._in_line = True
            if not self._session.rate_admit(self._admitted):
                return False
            self._permit, self._in_line = True, False
        return True

    def _admitted(self) -> None:
        """Its turn for a permit has come."""
        self._permit, self._in_line = True, False
        if self.ended or self._held.owned.dropped is not None:
            self._return_permit()
        self.send()

    def _return_permit(self) -> None:
        unused, self._permit = self._permit, False
        if unused:
            self._session.rate_settle(1)

    def _why_waiting(self) -> str | None:
        if self._in_line:
            return "the consumer's rate (max_rate) does not allow the next message yet"
        if now() < self._next_call:
            return "the rate of a key (max_rate_per_key) does not allow its next message yet"
        return super()._why_waiting()

    def _call(self, parked: Parked, mode: Mode) -> Generator[CallHandler, Called, Called]:
        """Call the handler like with a live message; raise LockLost if that does not count."""
        self._check_held()
        self._permit = False
        namespace = self._session.client.config.namespace  # as the puller marks live ones
        message = parked.original.changed(reconsume_times=0, namespace=namespace)
        called = yield CallHandler((message,), mode)
        self._next_call = called.at + self._session.config.spacing
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
            if not self._may_call():
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
