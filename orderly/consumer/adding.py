"""Parks a key that blocks, at an operator's word."""

from __future__ import annotations

from collections.abc import Callable

from orderly.clock import now
from orderly.consumer.command_task import CommandTask
from orderly.consumer.handler_caller import TaskSteps
from orderly.consumer.parking import Parker
from orderly.consumer.session import HeldQueue, Session
from orderly.errors import OrderlyError
from orderly.ordering.results import Disposition
from orderly.protocol.park_record import Command, Verb

ADD_PATIENCE = 50.0  # seconds; whoever asks waits a little longer
_KEPT = (
    "the handler keeps all of its messages uncommitted (manual commit): they are parked when it"
    " rolls them back, or fails"
)


class Adding(CommandTask):
    """One command to park a key, or to say whether that is possible.

    What the lane has is parked in its turn, so a handler call that runs is waited for, and nothing
    else: not a suspension, a pause, a worker, or a permit.

    Args:
        session: the consumer's shared state.
        held: the queue.
        command: what to do.
        ready: called when a queue has something to run.
        parker: parks messages.
    """

    def __init__(
        self,
        session: Session,
        held: HeldQueue,
        command: Command,
        ready: Callable[[HeldQueue], None],
        *,
        parker: Parker,
    ) -> None:
        super().__init__(session, held, command, ready, errand=True, with_bodies=True)
        self._parker = parker
        self._until = now() + ADD_PATIENCE
        self._begun = False
        self._trouble: str | None = None

    def send(self) -> None:
        """Begin with it, or see how far it is."""
        with self._held.lock:
            wants = self._go_on()
        if wants:
            self._ready(self._held)
        if wants and not self._begun:
            self._ending.progress(record=False)  # who waits knows that it was taken
            self._begun = True
        with self._held.lock:
            over = self._ending.chosen and not self._waiting
        if over:
            self._ending.finish()

    def steps(self) -> TaskSteps:
        """Park what is there; what fails is done again."""
        self._in_turn = True
        try:
            self._park()
        except OrderlyError as error:
            self._trouble = str(error)
            if self._held.owned.dropped is None:
                self._ending.warn("command.interrupted", error=str(error))
        finally:
            self._waiting = self._in_turn = False
        yield from ()  # no handler is called

    def _go_on(self) -> bool:
        """Choose the ending if it is known by now; returns whether a turn is wanted from now on."""
        owned, key = self._held.owned, self._command.key
        if self._ending.chosen or owned.dropped is not None:
            return False
        late = now() > self._until
        if self._waiting:
            why = self._why_waiting() if late else None
            if why is not None and owned.messages.recall(key, self):
                self._waiting = False
                self._refuse_late(why)
            return False
        self._choose()
        if not self._ending.chosen and late:
            self._refuse_late(self._trouble or "the broker does not answer")
        if self._ending.chosen:
            return False
        self._want_turn()
        return True

    def _refuse_late(self, why: str) -> None:
        self._ending.refuse(
            f"it was not parked within {ADD_PATIENCE:g} s, and the command waits no longer: {why}"
        )

    def _choose(self) -> None:
        """End it where nothing is to be parked, or may be; the queue's lock is held."""
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

    def _park(self) -> None:
        key, owned = self._command.key, self._held.owned
        with self._held.lock:
            batch = owned.messages.take_along(key)
            if not batch.messages and batch.lane.unfinished:
                self._ending.refuse(_KEPT)
            elif not batch.messages:
                self._ending.count(0)
            if self._ending.chosen:
                return
        untried = {message.queue_offset for message in batch.messages}
        refusal, stored = None, False
        try:
            refusal = self._parker.park_by_hand(self._held, batch, self._command.by)
            stored = refusal is None
        finally:
            with self._held.lock:
                disposition = Disposition.COMMIT if stored else Disposition.PUT_BACK
                owned.finish(batch, disposition, now(), untried=untried)
                if stored:
                    owned.messages.rouse(key)
        if refusal is not None:
            self._ending.refuse(refusal)
            return
        with self._held.lock:
            parked = owned.parking.get(key)
        self._ending.count(0 if parked is None else parked.messages)
