"""Many questions to a few addresses: pipelined, paced, with one deadline for all of them.

One question that fails is a result like any other, so a round says what it could not learn
instead of ending. A monitor must not hurt what it watches: brokers share the threads that answer
questions with their other work, and one that hangs must not cost a time-out for each question.
"""

from __future__ import annotations

import math
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar, final

from orderly.client.calls import ONLY_SUCCESS, failure
from orderly.client.connection import Connection
from orderly.client.pool import Connections
from orderly.errors import (
    ConnectFailed,
    ConnectionLost,
    OrderlyError,
    ProtocolError,
    RemotingError,
    ReplyTooLarge,
)
from orderly.protocol.frame import RemotingCommand


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How hard one address may be asked.

    Attributes:
        in_flight: questions without an answer at once.
        per_second: questions a second, evenly spaced; None: no such limit.
        give_up_after: failures in a row after which no more is asked in this round.
        patience: seconds to wait for each answer.
    """

    in_flight: int = 32
    per_second: float | None = None
    give_up_after: int = 3
    patience: float = 3.0


@final
class Gate:
    """What may go to one address, and when. Not thread-safe; `now` is any steady clock, seconds.

    An answer that says no is an answer: only silence counts as a failure.

    Args:
        limits: of the address.
    """

    __slots__ = ("_failures", "_flying", "_limits", "_next_at", "_probing")

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._flying = 0
        self._failures = 0
        self._probing = False
        self._next_at = -math.inf

    @property
    def shut(self) -> bool:
        """Whether nothing more may go in this round: too many failures in a row."""
        return self._failures >= self._limits.give_up_after and not self._probing

    def begin(self) -> None:
        """Begin a new round: an address that was given up gets one question as a probe."""
        self._probing = self._failures >= self._limits.give_up_after

    def clear(self) -> None:
        """Forget what flies: whoever asked it was interrupted (Ctrl-C), and hears no answer."""
        self._flying = 0

    def wait(self, now: float) -> float:
        """Seconds until the next question may go; inf: not before an answer, or never."""
        most = 1 if self._failures else self._limits.in_flight  # silence may be beginning
        if self.shut or self._flying >= most:
            return math.inf
        return max(0.0, self._next_at - now)

    def sent(self, now: float) -> None:
        """Note that a question went out."""
        self._flying += 1
        if self._limits.per_second is not None:
            self._next_at = now + 1.0 / self._limits.per_second

    def answered(self) -> None:
        """Note an answer, good or bad."""
        self._flying -= 1
        self._failures = 0
        self._probing = False

    def failed(self, failures: int = 1) -> None:
        """Note that a question will not be answered.

        Args:
            failures: 0: one that was counted before (a lost connection takes all that fly along).
        """
        self._flying -= 1
        self._failures += failures
        if failures:
            self._probing = False

    def give_up(self) -> None:
        """Ask no more in this round: it cannot even be reached."""
        self._failures = max(self._failures, self._limits.give_up_after)
        self._probing = False


# --- connections and threads ----------------------------------------------------------------------


R = TypeVar("R")
Outcome = tuple[int, RemotingCommand | RemotingError, Connection]

# Of the 16 threads with which a broker answers whoever administers it (adminBrokerThreadPoolNums),
# each waits for up to 10 s for a member that keeps silent (Java: Broker2Client.callClient).
_RELAYED_AT_ONCE = 4


# What reading raises where a broken answer was not thought of. Anything else is not the answer's
# fault: this may run on the program's thread, where a signal's handler can raise what it likes.
_UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


class NotAsked(RemotingError):
    """A question that was not put: its address was given up before, or no time was left."""


@dataclass(frozen=True, slots=True)
class Question(Generic[R]):
    """One request, and what its answer means.

    Attributes:
        command: a fresh one for each question: its request id is set when it is sent.
        read: turns the reply into the answer, or raises OrderlyError.
        what: is asked, for the error's text, with topic and group.
        accept: response codes that are answers, not errors.
        relayed: the broker passes it on to a member: silence says nothing about the broker. Few
            of them fly at once, and none is sent after several in a row were met with silence.
    """

    command: RemotingCommand
    read: Callable[[RemotingCommand], R]
    what: str
    accept: Collection[int] = ONLY_SUCCESS
    relayed: bool = False


@dataclass(slots=True)
class Traffic:
    """What went to one address in a round.

    Attributes:
        requests: how many, by request code.
        seconds: from the beginning of the round to the last answer; 0.0 without one.
    """

    requests: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0


class Pipeline:
    """Asks many questions at once. One round at a time; the rest is thread-safe.

    Args:
        connections: of the client.
        limits: for each address.
    """

    def __init__(self, connections: Connections, limits: RequestLimits | None = None) -> None:
        self._connections = connections
        self._limits = limits or RequestLimits()
        self._peers: dict[str, _Peer] = {}

    def begin(self) -> None:
        """Begin a round: reset the counts, and probe each address that was given up once."""
        for peer in self._peers.values():
            peer.begin()

    def traffic(self, address: str) -> Traffic:
        """What went to `address` in this round."""
        peer = self._peers.get(address)
        return peer.traffic if peer else Traffic()

    def counts(self) -> Counter[int]:
        """How many requests of each code went out in this round, to all addresses."""
        return sum((peer.traffic.requests for peer in self._peers.values()), Counter[int]())

    def ask(
        self, address: str, questions: Sequence[Question[R]], deadline: float
    ) -> list[R | OrderlyError]:
        """Ask one address.

        Args:
            address: "host:port".
            questions: sent in this order.
            deadline: on time.monotonic; nothing is sent after it.

        Returns:
            The answers, each at the place of its question; an error where an answer is missing.
        """
        return self.ask_each({address: questions}, deadline)[address]

    def ask_each(
        self, questions: Mapping[str, Sequence[Question[R]]], deadline: float
    ) -> dict[str, list[R | OrderlyError]]:
        """Ask several addresses side by side; arguments and answers as of `ask`."""
        rounds = [
            _Round(self._connections, self._peer(address), asked, deadline)
            for address, asked in questions.items()
        ]
        threads = [
            threading.Thread(target=it.run, name=f"orderly-ask-{it.peer.address}", daemon=True)
            for it in rounds[1:]
        ]
        for thread in threads:
            thread.start()
        for it in rounds[:1]:  # the first one here: most often there is no other
            it.run()
        for thread in threads:
            thread.join()
        return {it.peer.address: it.answers() for it in rounds}

    def _peer(self, address: str) -> _Peer:
        if address not in self._peers:
            self._peers[address] = _Peer(address, self._limits)
        return self._peers[address]


class _Peer:
    """One address, from round to round."""

    def __init__(self, address: str, limits: RequestLimits) -> None:
        self.address = address
        self.limits = limits
        self.gate = Gate(limits)
        self.relays = Gate(replace(limits, in_flight=min(_RELAYED_AT_ONCE, limits.in_flight)))
        self.traffic = Traffic()
        self.failure: OrderlyError | None = None
        self._began = time.monotonic()

    def begin(self) -> None:
        self._began = time.monotonic()
        self.traffic = Traffic()
        self.gate.begin()
        self.relays.begin()

    def gates(self, question: Question[Any]) -> tuple[Gate, ...]:
        return (self.gate, self.relays) if question.relayed else (self.gate,)

    def answered(self, question: Question[Any]) -> None:
        for gate in self.gates(question):
            gate.answered()
        self.traffic.seconds = time.monotonic() - self._began


class _Round(Generic[R]):
    """The questions to one address. One thread runs it; replies come in through a queue."""

    def __init__(
        self,
        connections: Connections,
        peer: _Peer,
        questions: Sequence[Question[R]],
        deadline: float,
    ) -> None:
        self.peer = peer
        self._connections = connections
        self._questions = questions
        self._deadline = deadline
        self._answers: dict[int, R | OrderlyError] = {}
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._next = 0
        self._found = connections.connected(peer.address)  # may be dead, and nobody saw it yet
        self._lost: Connection | None = None

    def run(self) -> None:
        """Ask all, and return when each has its answer or its error."""
        self.peer.gate.clear()
        self.peer.relays.clear()
        while len(self._answers) < len(self._questions):
            wait = self._send_what_may_go()
            if self._next > len(self._answers):
                self._hear(wait)
            elif wait > 0.0 and self._next < len(self._questions):
                self._pause_or_refuse(wait)

    def answers(self) -> list[R | OrderlyError]:
        """The answers, in the order of the questions."""
        return [self._answers[index] for index in range(len(self._questions))]

    def _send_what_may_go(self) -> float:
        """Send until a limit says wait; return for how many seconds (inf: for an answer)."""
        while self._next < len(self._questions):
            now = time.monotonic()
            if now >= self._deadline:
                self._refuse_rest()
                break
            question = self._questions[self._next]
            if question.relayed and self.peer.relays.shut:
                self._answers[self._next] = self._not_asked(question)
                self._next += 1
                continue
            wait = max(gate.wait(now) for gate in self.peer.gates(question))
            if wait > 0.0:
                return wait
            self._next += 1
            self._send(self._next - 1, now)
        return math.inf

    def _send(self, index: int, now: float) -> None:
        for gate in self.peer.gates(self._questions[index]):
            gate.sent(now)
        try:
            self._submit(index)
        except ConnectFailed as error:
            self.peer.gate.give_up()
            self._fail(index, error)
        except OrderlyError as error:
            self._fail(index, error)
        else:
            self.peer.traffic.requests[self._questions[index].command.code] += 1

    def _submit(self, index: int) -> None:
        connection = self._connections.get(self.peer.address)
        left = max(0.0, self._deadline - time.monotonic())  # to connect takes time, too
        try:
            connection.submit(
                self._questions[index].command,
                min(self.peer.limits.patience, left),
                lambda outcome: self._outcomes.put((index, outcome, connection)),
            )
        except ConnectionLost:
            if connection is not self._found or connection.alive:
                raise
            self._submit(index)

    def _hear(self, wait: float) -> None:
        """Take the next outcome, or return when `wait` is over. Each request has its time-out."""
        try:
            index, outcome, connection = self._outcomes.get(
                timeout=None if wait == math.inf else wait
            )
        except Empty:
            return
        if isinstance(outcome, ConnectionLost) and connection is self._found:
            self._ask_anew(index)
            return
        if isinstance(outcome, RemotingError):
            self._fail(index, outcome, self._failures(index, outcome, connection))
            return
        self.peer.answered(self._questions[index])
        self._answers[index] = self._meaning(self._questions[index], outcome)

    def _ask_anew(self, index: int) -> None:
        """Ask on a new connection: the one from before this round says nothing of the broker now.

        It may have been restarted since, or a firewall has forgotten the connection.
        """
        for gate in self.peer.gates(self._questions[index]):
            gate.failed(0)
        self._send(index, time.monotonic())

    def _failures(self, index: int, error: RemotingError, connection: Connection) -> int:
        """For how many failures of the address it counts."""
        if isinstance(error, ReplyTooLarge):
            return 0
        if isinstance(error, ConnectionLost):
            known, self._lost = connection is self._lost, connection
            return 0 if known else 1
        return 0 if self._questions[index].relayed else 1

    def _fail(self, index: int, error: OrderlyError, failures: int = 1) -> None:
        self.peer.gate.failed(failures)
        if self._questions[index].relayed:
            self.peer.relays.failed(0 if isinstance(error, ConnectionLost) else 1)
        self.peer.failure = error
        self._answers[index] = error

    def _meaning(self, question: Question[R], reply: RemotingCommand) -> R | OrderlyError:
        if reply.code not in question.accept:
            address = self.peer.address
            by_proxy = address in self._connections.proxies
            return failure(reply, address, question.what, by_proxy=by_proxy)
        try:
            return question.read(reply)
        except OrderlyError as error:
            return error
        except _UNREADABLE as error:
            cause = ProtocolError(f"the reply of {self.peer.address} could not be read: {error!r}")
            cause.__cause__ = error
            return cause

    def _pause_or_refuse(self, wait: float) -> None:
        """Nothing flies: wait for the pace, or give the rest up."""
        if wait == math.inf:
            self._refuse_rest()
        else:
            time.sleep(max(0.0, min(wait, self._deadline - time.monotonic())))

    def _refuse_rest(self) -> None:
        for index in range(self._next, len(self._questions)):
            self._answers[index] = self._not_asked(self._questions[index])
        self._next = len(self._questions)

    def _not_asked(self, question: Question[R]) -> NotAsked:
        address, cause = self.peer.address, self.peer.failure
        if not any(gate.shut for gate in self.peer.gates(question)):
            return NotAsked(f"no time was left to ask {address} for {question.what}", address)
        error = NotAsked(f"{address} was not asked for {question.what}: {cause}", address)
        error.__cause__ = cause
        return error
