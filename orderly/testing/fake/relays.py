"""Questions a broker passes on to members, and the answers it waits for (Broker2Client)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand, reply_to
from orderly.testing.fake.exchange import Call, Outgoing
from orderly.testing.fake.members import Member

Answers = dict[str, RemotingCommand]
Finish = Callable[[Call, Answers], RemotingCommand]


@dataclass(slots=True)
class _Relay:
    """One question on its way."""

    asker: Call
    finish: Finish
    deadline: float
    asked: dict[tuple[int, int], str] = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)


class Relays:
    """Questions on their way to members. Not thread-safe."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: list[_Relay] = []

    def ask(
        self,
        asker: Call,
        members: Iterable[Member],
        question: Callable[[], RemotingCommand],
        patience: float,
        finish: Finish,
    ) -> list[Outgoing]:
        """Ask members; `finish` makes the asker's answer of theirs, by client id.

        It is called when all have answered, or after `patience` seconds with those there are.
        """
        relay = _Relay(asker, finish, asker.now + patience)
        out = []
        for member in members:
            command = question()
            command.request_id = next(self._numbers)
            relay.asked[member.connection_id, command.request_id] = member.client_id
            out.append(Outgoing(member.connection_id, command))
        self._open.append(relay)
        return out

    def answered(self, connection_id: int, reply: RemotingCommand) -> list[Outgoing]:
        """Take in a member's answer; returns the asker's if that was the last one."""
        key = (connection_id, reply.request_id)
        for relay in self._open:
            if key in relay.asked:
                relay.answers[relay.asked.pop(key)] = reply
        return self._finish(lambda relay: not relay.asked)

    def expire(self, now: float) -> list[Outgoing]:
        """Answer the askers of questions that took too long."""
        return self._finish(lambda relay: now >= relay.deadline)

    def disconnected(self, connection_id: int) -> list[Outgoing]:
        """A connection ended: its answers will not come, and its questions are over."""
        self._open = [r for r in self._open if r.asker.connection_id != connection_id]
        lost = [key for relay in self._open for key in relay.asked if key[0] == connection_id]
        out = []
        for key in lost:
            failure = RemotingCommand(ResponseCode.SYSTEM_ERROR, key[1], remark="the member left")
            out += self.answered(connection_id, failure)
        return out

    def next_deadline(self) -> float | None:
        """When the next question will have taken too long."""
        return min((relay.deadline for relay in self._open), default=None)

    def _finish(self, over: Callable[[_Relay], bool]) -> list[Outgoing]:
        done = [relay for relay in self._open if over(relay)]
        self._open = [relay for relay in self._open if not over(relay)]
        return [
            Outgoing(relay.asker.connection_id, relay.finish(relay.asker, relay.answers))
            for relay in done
        ]


def pass_on(asker: Call, answers: Answers) -> RemotingCommand:
    """The only member's answer, as it is; code 207 if it gave none."""
    if not answers:
        remark = "the member did not answer in time"
        return asker.reply(ResponseCode.CONSUME_MSG_TIMEOUT, remark)
    (answer,) = answers.values()
    return reply_to(
        asker.command, answer.code, remark=answer.remark, ext=answer.ext, body=answer.body
    )
