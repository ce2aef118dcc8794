"""Commands about parked keys: found in the park queue, and carried out in the key's lane.

Park a key (add), release, drop, or try it without a trace. Those about one key are carried out one
after the other, those about several keys side by side.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from orderly.consumer.adding import Adding
from orderly.consumer.park_queue import ParkQueue
from orderly.consumer.parking import Parker
from orderly.consumer.replay import Replay
from orderly.consumer.session import HeldQueue, Session
from orderly.errors import OrderlyError, ProtocolError, RemotingError
from orderly.model import ReceivedMessage
from orderly.protocol.park_record import (
    COMMAND,
    RESULT,
    Command,
    Result,
    Verb,
    control_message,
    read_park,
)
from orderly.protocol.parked_key import Key
from orderly.protocol.record_format import written_behind

COMMANDS_INTERVAL = 1.0  # seconds
IDLE_LOOKS = 5  # a queue in which nothing is parked is looked at once in so many rounds
MOST_OPEN = 100  # commands of a queue that are carried out, or wait behind one about the same key
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


@dataclass(slots=True)
class _Given:
    """A command, and what carries it out; None: it was not begun."""

    command: Command
    message: ReceivedMessage
    work: Adding | Replay | None = None


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
        self._open: dict[Key, deque[_Given]] = {}  # by key, in their order

    @property
    def busy(self) -> bool:
        """Whether a command is being carried out."""
        return bool(self._open)

    def look(self) -> None:
        """See to the commands that are being carried out, and look for further ones.

        One that cannot go on just now holds up no other, unless the broker is silent.
        """
        failed: OrderlyError | None = None
        for key in list(self._open):
            try:
                self._go_on(key)
            except RemotingError:
                raise
            except OrderlyError as error:
                failed = error
        self._read_on()
        if failed is not None:
            raise failed

    def _read_on(self) -> None:
        while sum(map(len, self._open.values())) < MOST_OPEN:
            read = self._queue.read(self._at, COMMAND)
            for message in read.messages:
                self._take(message)
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
        self._at = position + 1
        if isinstance(command, Command):
            self._open.setdefault(command.key, deque()).append(_Given(command, message))
            self._go_on(command.key)
        else:
            self._note_settled()

    def _go_on(self, key: Key) -> None:
        """Go on with the first command about a key, and begin the next ones if it has ended."""
        given = self._open[key]
        while given:
            first = given[0]
            if first.work is None:
                first.work = self._begin(first.command, first.message)
            if first.work is not None:
                first.work.send()
                if not first.work.ended:
                    first.work.tell()
                    return
            given.popleft()
            if not given:
                del self._open[key]
            self._note_settled()

    def _note_settled(self) -> None:
        """Note up to where all commands are: the next owner begins there."""
        left = [given.message.queue_offset for line in self._open.values() for given in line]
        with self._held.lock:
            parking = self._held.owned.parking
            parking.commands = max(parking.commands, min(left, default=self._at))

    def _begin(self, command: Command, message: ReceivedMessage) -> Adding | Replay | None:
        """Return what carries a command out; None: it was carried out, or is refused."""
        told = self._results(command, message.queue_offset)
        if _was_answered(told):
            return None
        adds = command.verb in (Verb.ADD, Verb.LOOK)
        late = _too_old(message.store_time) if adds else None
        refusal = late if adds else self._refusal(command, message, told)
        if refusal is not None:
            self._queue.append(control_message(Result(command.id, done=True, reason=refusal)))
            return None
        self._held.log.info("command.taken", command=command.id, verb=str(command.verb))
        work = (self._session, self._held, command, self._ready)
        return Adding(*work, parker=self._parker) if adds else Replay(*work)

    def _refusal(
        self, command: Command, message: ReceivedMessage, told: list[Result]
    ) -> str | None:
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
        if command.verb is not Verb.DROP and _ends_processes(told):
            return _ENDS_PROCESSES
        return None

    def _results(self, command: Command, position: int) -> list[Result]:
        """What owners have said of a command, this one or former ones."""
        found: list[Result] = []
        while True:
            read = self._queue.read(position, RESULT)
            found += [result for m in read.messages if (result := _result_of(command, m))]
            if read.next_offset <= position:
                return found
            position = read.next_offset


def _was_answered(told: list[Result]) -> bool:
    """Whether a former owner has ended it: what it was about is another thing by now."""
    return any(result.done for result in told)


def _ends_processes(told: list[Result]) -> bool:
    """Whether one owner after the other has begun it, and got nowhere."""
    vain = [result for result in told if result.reason is None][-_VAIN_BEGINNINGS:]
    return len(vain) == _VAIN_BEGINNINGS and all(result.settled == 0 for result in vain)


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
