"""Looks for commands about parked keys, and has them carried out: one at a time in each queue."""

from __future__ import annotations

import time
from collections.abc import Callable

from orderly.consumer.parking.adding import Adding
from orderly.consumer.parking.reading import ParkQueue
from orderly.consumer.parking.replaying import Replay
from orderly.consumer.parking.setting_aside import SettingAside
from orderly.consumer.session import Held, Session
from orderly.errors import OrderlyError, ProtocolError, RemotingError
from orderly.model import ReceivedMessage
from orderly.protocol.park_control import COMMAND, RESULT, Command, Result, Verb
from orderly.protocol.park_record import control_message, read_park
from orderly.protocol.seal import written_behind

LOOK_INTERVAL = 1.0  # seconds
IDLE_LOOKS = 5  # a queue in which nothing is parked is looked at once in so many rounds
ADD_VALID = 300.0  # seconds; a key that blocked then may be well now
_NO_DRY_RUN = (
    "the handler does not say that it can be tried without a trace: let it heed context.dry_run,"
    " and give it an attribute dry_run = True (a listener: @orderly.listener(dry_run=True)). A"
    " release without --dry-run needs neither, and stops at the first message that fails"
)
_VAIN_BEGINNINGS = 3
_ENDS_PROCESSES = (
    f"it was begun {_VAIN_BEGINNINGS} times, and each time the process ended, or gave the queue"
    " up, before a message was done: look at what the handler does with the key's first parked"
    " messages, then give the command again"
)


class Commands:
    """Of one consumer. One thread calls `round`.

    Args:
        session: the consumer's shared state.
        ready: called when a queue has something to run.
        aside: parks messages.
        dry_run: whether the handler says that it leaves no trace where the context asks for that.
    """

    def __init__(
        self,
        session: Session,
        ready: Callable[[Held], None],
        aside: SettingAside,
        *,
        dry_run: bool,
    ) -> None:
        self._session = session
        self._ready = ready
        self._aside = aside
        self._dry_run = dry_run
        self._rounds = 0
        self._desks: dict[Held, _Desk] = {}

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

    def _desk(self, held: Held) -> _Desk:
        desk = self._desks.get(held)
        if desk is not None:
            return desk
        return _Desk(self._session, held, self._ready, self._aside, dry_run=self._dry_run)


class _Desk:
    """Where the commands for one held queue are taken. Used by the thread of `Commands` only."""

    def __init__(
        self,
        session: Session,
        held: Held,
        ready: Callable[[Held], None],
        aside: SettingAside,
        *,
        dry_run: bool,
    ) -> None:
        self._session = session
        self._held = held
        self._ready = ready
        self._aside = aside
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
            self._work = Adding(*work, aside=self._aside) if adds else Replay(*work)
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
                " may have settled it"
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
        f"it was given {age:.0f} s ago, by the clocks of its broker and of this member, and the key"
        " may be well by now: give it again if it still blocks"
    )


def _result_of(command: Command, message: ReceivedMessage) -> Result | None:
    try:
        record = read_park(message)
    except ProtocolError:
        return None
    return record if isinstance(record, Result) and record.id == command.id else None
