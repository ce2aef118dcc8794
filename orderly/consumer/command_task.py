"""A command about a key as a lane task: it asks for the lane's turn, and says what it waits for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from orderly.clock import now
from orderly.consumer.command_ending import Ending
from orderly.consumer.handler_caller import TaskSteps
from orderly.consumer.park_queue import ParkQueue
from orderly.consumer.session import HeldQueue, Session
from orderly.ordering.explain_keys import why_no_turn
from orderly.ordering.lane import Turn
from orderly.protocol.park_record import Command, short_text

TELL_AFTER = 3.0  # seconds without its turn, after which whoever gave the command is told why


class CommandTask(ABC):
    """Thread-safe; a turn is run by one thread, and `send` is called by another.

    Args:
        session: the consumer's shared state.
        held: the queue.
        command: what to do.
        ready: called when a queue has something to run.
        errand: it calls no handler.
        with_bodies: it is about messages that wait in the lane.
    """

    def __init__(
        self,
        session: Session,
        held: HeldQueue,
        command: Command,
        ready: Callable[[HeldQueue], None],
        *,
        errand: bool,
        with_bodies: bool = False,
    ) -> None:
        self._session = session
        self._held = held
        self._command = command
        self._queue = ParkQueue(session, held)
        self._ending = Ending(session, held, self._queue, command)
        self._waiting = False
        self._in_turn = False
        self._ready = ready
        self._turn_wanted = Turn(self, errand, with_bodies)
        self._wanted_at = 0.0
        self._told: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the command is carried out, or refused, and the result is written."""
        return self._ending.finished

    @abstractmethod
    def send(self) -> None:
        """Have it go on, unless it waits for something already.

        Raises:
            OrderlyError: the park queue does not take a word; to be called again.
        """

    @abstractmethod
    def steps(self) -> TaskSteps:
        """One turn."""

    def tell(self) -> None:
        """Tell whoever gave the command what it waits for, if it does for a while; once for each.

        Raises:
            OrderlyError: the park queue does not take it; to be called again.
        """
        with self._held.lock:
            why = self._why_waiting() if now() - self._wanted_at >= TELL_AFTER else None
        kind = None if why is None else why.split(" (")[0]  # not for each second that it takes
        if why is not None and kind != self._told:
            self._ending.waits(short_text(why))
        self._told = kind

    def _want_turn(self) -> None:
        """Ask for the lane's turn; the queue's lock is held, and `ready` is to be called then."""
        self._waiting = True
        self._wanted_at = now()
        self._held.owned.want_turn(self._command.key, self._turn_wanted)

    def _why_waiting(self) -> str | None:
        """What keeps it from its turn, or None: nothing; the queue's lock is held."""
        errand = self._turn_wanted.errand
        if not self._waiting or (errand and self._in_turn) or self._held.owned.dropped is not None:
            return None
        return why_no_turn(self._held.owned, self._command.key, now(), errand=errand)
