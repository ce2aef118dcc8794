"""Has a key parked that blocks, because an operator wants it: in the turn of its lane."""

from __future__ import annotations

from collections.abc import Callable

from orderly.consumer.parking.ending import Ending
from orderly.consumer.parking.reading import ParkQueue
from orderly.consumer.parking.setting_aside import SettingAside
from orderly.consumer.session import Held, Session, Wanted, now
from orderly.protocol.park_control import Command, Verb

PATIENCE = 50.0  # seconds; whoever asks waits a little longer
_KEPT = (
    "the handler keeps all of its messages uncommitted (manual commit): they are parked when it"
    " rolls them back, or fails"
)
_NO_TURN = (
    f"its turn has not come for {PATIENCE:g} s, and it is not waited for any longer: a call of the"
    " handler with the key runs on, the queue is paused, or its park queue cannot be written"
    " (event park.failed)"
)


class Adding:
    """One command to park a key, or to tell whether that can be. One thread uses it.

    The key's lane is roused if it waits after a failure, and what it has is parked at its next
    turn: not beside a call of the handler, so a call that runs is waited for.

    Args:
        session: the consumer's shared state.
        held: the queue.
        command: what to do.
        position: of the command.
        ready: called when a queue has something to run.
        aside: parks messages.
    """

    def __init__(
        self,
        session: Session,
        held: Held,
        command: Command,
        position: int,
        ready: Callable[[Held], None],
        *,
        aside: SettingAside,
    ) -> None:
        self._held = held
        self._command = command
        self._ready = ready
        self._aside = aside
        self._ending = Ending(session, held, ParkQueue(session, held), command, position)
        self._wanted: Wanted | None = None
        self._until = now() + PATIENCE

    @property
    def ended(self) -> bool:
        """Whether it is done, or refused, and that is told."""
        return self._ending.told

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
            self._ending.tell()

    def _begin(self) -> bool:
        """Have the key parked unless that cannot be; returns whether it will be."""
        key, owned = self._command.key, self._held.owned
        lane = owned.messages.lane_of(key)
        if owned.parking.parked(key):
            self._ending.refuse(f"key {key!r} is parked already")
        elif lane is None or not lane.unfinished:
            self._ending.count(0)
        elif lane.keeps_all:
            self._ending.refuse(_KEPT)
        elif refusal := self._aside.why_not(self._held, key, lane.unfinished, lane.messages.size):
            self._ending.refuse(refusal)
        elif self._command.verb is Verb.LOOK:
            self._ending.count(lane.unfinished)
        else:
            self._wanted = self._held.to_park[key] = Wanted(self._command.by)
            owned.messages.rouse(lane)
            return True
        return False

    def _see(self, wanted: Wanted) -> bool:
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
