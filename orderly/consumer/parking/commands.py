"""Looks for commands about parked keys, and has them carried out: one at a time in each queue."""

from __future__ import annotations

from collections.abc import Callable

from orderly.consumer.parking.reading import ParkQueue
from orderly.consumer.parking.replaying import Replay
from orderly.consumer.session import Held, Session
from orderly.errors import OrderlyError, ProtocolError, RemotingError
from orderly.model import ReceivedMessage
from orderly.protocol.park_control import COMMAND, RESULT, Command, Result, Verb
from orderly.protocol.park_record import control_message, read_park

LOOK_INTERVAL = 1.0  # seconds
_NO_DRY_RUN = (
    "the handler does not say that it can be tried without a trace: give it an attribute dry_run ="
    " True, and let it heed context.dry_run"
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
        dry_run: whether the handler says that it leaves no trace where the context asks for that.
    """

    def __init__(self, session: Session, ready: Callable[[Held], None], *, dry_run: bool) -> None:
        self._session = session
        self._ready = ready
        self._dry_run = dry_run
        self._desks: dict[Held, _Desk] = {}

    def round(self) -> None:
        """Look once into the park queue of each held queue with parked keys.

        A broker that does not answer is asked once a round, so that it holds up no other.
        """
        holds = [h for h in self._session.held() if h.memory is not None and h.announced]
        self._desks = {h: self._desk(h) for h in holds if h in self._desks or h.owned.parking}
        silent: set[str] = set()
        for held, desk in tuple(self._desks.items()):
            broker = held.queue.broker_name
            if held.owned.dropped is not None or broker in silent:
                continue
            try:
                desk.look()
            except OrderlyError as error:
                held.log.warning("command.not_read", error=str(error))
                if isinstance(error, RemotingError):
                    silent.add(broker)
            if not desk.busy and not held.owned.parking:
                del self._desks[held]

    def _desk(self, held: Held) -> _Desk:
        desk = self._desks.get(held)
        return _Desk(self._session, held, self._ready, self._dry_run) if desk is None else desk


class _Desk:
    """Where the commands for one held queue are taken. Used by the thread of `Commands` only."""

    def __init__(
        self, session: Session, held: Held, ready: Callable[[Held], None], dry_run: bool
    ) -> None:
        self._session = session
        self._held = held
        self._ready = ready
        self._dry_run = dry_run
        self._queue = ParkQueue(session, held)
        self._at = held.owned.parking.commands
        self._replay: Replay | None = None

    @property
    def busy(self) -> bool:
        """Whether a command is being carried out."""
        return self._replay is not None

    def look(self) -> None:
        """See to the command that is being carried out, or look for the next one."""
        if self._replay is not None and not self._replay.ended:
            self._replay.send()
            return
        self._replay = None
        self._at = max(self._at, self._held.owned.parking.commands)
        while self._replay is None:
            read = self._queue.read(self._at, COMMAND)
            for message in read.messages:
                self._take(message)
                if self._replay is not None:
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
            self._begin(command, position)
        self._at = position + 1

    def _begin(self, command: Command, position: int) -> None:
        refusal = self._refusal(command, position)
        if refusal is None:
            self._held.log.info("command.taken", command=command.id, verb=str(command.verb))
            self._replay = Replay(self._session, self._held, command, position, self._ready)
            self._replay.send()
            return
        self._queue.append(control_message(Result(command.id, done=True, reason=refusal)))
        with self._held.lock:
            parking = self._held.owned.parking
            parking.commands = max(parking.commands, position + 1)

    def _refusal(self, command: Command, position: int) -> str | None:
        with self._held.lock:
            parked = self._held.owned.parking.get(command.key)
        if parked is None or parked.at > position:  # a command must not outlive what it was about
            return (
                f"key {command.key!r} is not parked in {self._held.queue} now: an earlier command"
                " may have settled it"
            )
        if command.verb is Verb.TRY and not self._dry_run:
            return _NO_DRY_RUN
        if command.verb is not Verb.DROP and self._ends_processes(command, position):
            return _ENDS_PROCESSES
        return None

    def _ends_processes(self, command: Command, position: int) -> bool:
        """Whether one owner after the other has begun it, and got nowhere."""
        begun: list[Result] = []
        while True:
            read = self._queue.read(position, RESULT)
            begun += [result for m in read.messages if (result := _result_of(command, m))]
            if read.next_offset <= position:
                break
            position = read.next_offset
        vain = begun[-_VAIN_BEGINNINGS:]
        return len(vain) == _VAIN_BEGINNINGS and all(result.settled == 0 for result in vain)


def _result_of(command: Command, message: ReceivedMessage) -> Result | None:
    try:
        record = read_park(message)
    except ProtocolError:
        return None
    return record if isinstance(record, Result) and record.id == command.id else None
