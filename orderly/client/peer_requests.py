"""Requests that brokers send to members: notices, questions, orders. Each gets its answer.

Reader threads only take them in. Questions are answered one after another on a thread of this
module; a message to consume directly runs the user's handler and has a thread of its own. How many
wait is bounded for each address: whoever asks more loses its connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from orderly.client.background import Schedule
from orderly.client.connection import Connection
from orderly.errors import OrderlyError, ProtocolError
from orderly.log import error_text, get_logger
from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.ext import from_ext
from orderly.protocol.frame import RemotingCommand, reply_to
from orderly.protocol.heartbeat import NotifyConsumerIdsChanged
from orderly.protocol.members import (
    ConsumeDirectly,
    DirectResult,
    GetRunningInfo,
    RunningInfo,
    encode_direct_result,
    encode_running_info,
)
from orderly.protocol.offsets import (
    GetMemberOffsets,
    ResetMemberOffset,
    decode_reset,
    encode_member_offsets,
)

_log = get_logger("orderly.client")

_NOT_SUPPORTED = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
_UNKNOWN = "this client (orderly, Python) does not answer this request; ask the brokers instead"
# What one address may have asked and not got its answer to: that much memory may it hold.
_MAX_WAITING = 100
_MAX_WAITING_BYTES = 16 * 1024 * 1024
_FIELD = 200  # bytes that a field of a header costs besides its text
_BUSY = "this member consumes a message of the group directly at the moment; try again later"
_DIRECT_IS_OFF = (
    "this member consumes no message directly: allow_direct_consume is off in its ConsumerConfig"
)


class _NoMember(OrderlyError):
    """Only for the text of an answer: the broker takes this client for a member."""


@dataclass(frozen=True, slots=True)
class GroupAnswers:
    """What a member of a group says and does when a broker asks. None runs on a reader thread.

    An exception becomes the answer: code 1 with its text.

    Attributes:
        running_info: the member's account of itself; True: with the stacks of its threads. May
            block a little: other answers wait.
        reset_offsets: go on from these offsets (brokers that reset by themselves never ask);
            may block a little.
        offsets: the next offset to consume in each owned queue of a topic; may block a little.
        consume_directly: run the handler on one message, now; None: refused. May block: it has
            a thread of its own, "orderly-direct-<group>", and is called once at a time.
    """

    running_info: Callable[[bool], RunningInfo]
    reset_offsets: Callable[[Mapping[MessageQueue, int]], None]
    offsets: Callable[[str], Mapping[MessageQueue, int]]
    consume_directly: Callable[[ReceivedMessage], DirectResult | None]


class PeerRequests:
    """Takes in what brokers ask of this client. Thread-safe.

    Args:
        answers_of: the answers of a group, or None if this client has no member that answers.
        on_members_changed: called with the group when its members or topics changed; must not
            block.
        redact: neither events nor answers have texts of failures, which may quote a message.
    """

    def __init__(
        self,
        answers_of: Callable[[str], GroupAnswers | None],
        on_members_changed: Callable[[str], object],
        *,
        redact: bool,
    ) -> None:
        self._answers_of = answers_of
        self._on_members_changed = on_members_changed
        self._redact = redact
        self._answering = Schedule("answers")  # its own: the answers may block
        self._lock = threading.Lock()
        self._direct: set[str] = set()  # groups whose handler runs directly at this moment
        # Whose requests wait, and their bytes. Without a lock: an address has one reader thread.
        self._waiting: list[tuple[str, int]] = []
        self._questions: dict[int, Callable[[RemotingCommand], RemotingCommand]] = {
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_offsets,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._offsets,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
        }

    def close(self) -> None:
        """Answer nothing any more. A handler that consumes directly is not waited for."""
        self._answering.close()

    def receive(self, connection: Connection, command: RemotingCommand) -> None:
        """Take in a broker's request; never blocks.

        Args:
            connection: it came on; the answer goes back on it.
            command: the request.

        Raises:
            ProtocolError: a notice without the fields it must have.
            ConnectionLost: a refusal did not go out.
        """
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._on_members_changed(from_ext(NotifyConsumerIdsChanged, command.ext).consumer_group)
        elif command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            self._receive_direct(connection, command)
        elif question := self._questions.get(command.code):
            if self._admit(connection, command):
                self._answering.after(0, partial(self._answer, connection, command, question))
        else:
            _log.debug("request.refused", address=connection.address, code=command.code)
            _send(connection, command, reply_to(command, _NOT_SUPPORTED, remark=_UNKNOWN))

    def _admit(self, connection: Connection, command: RemotingCommand) -> bool:
        """Count a request in until `_answer` is done with it, or end its connection."""
        address, size = connection.address, _size(command)
        sizes = [held for asker, held in tuple(self._waiting) if asker == address]
        count, held = len(sizes), sum(sizes)
        if not count or (count < _MAX_WAITING and held + size <= _MAX_WAITING_BYTES):
            self._waiting.append((address, size))
            return True
        connection.give_up(
            f"{count} requests of it with {held} bytes wait for their answers, and it sent one of"
            f" {size} more; {_MAX_WAITING} requests or {_MAX_WAITING_BYTES} bytes may wait"
        )
        return False

    def _reset_offsets(self, command: RemotingCommand) -> RemotingCommand:
        group = from_ext(ResetMemberOffset, command.ext).group
        self._of(group).reset_offsets(decode_reset(command.body))
        return reply_to(command)

    def _offsets(self, command: RemotingCommand) -> RemotingCommand:
        header = from_ext(GetMemberOffsets, command.ext)
        offsets = self._of(header.group).offsets(header.topic)
        return reply_to(command, body=encode_member_offsets(offsets))

    def _running_info(self, command: RemotingCommand) -> RemotingCommand:
        header = from_ext(GetRunningInfo, command.ext)
        info = self._of(header.consumer_group).running_info(header.jstack_enable)
        return reply_to(command, body=encode_running_info(info))

    def _receive_direct(self, connection: Connection, command: RemotingCommand) -> None:
        group = command.ext.get("consumerGroup", "")
        with self._lock:
            busy = group in self._direct
            self._direct.add(group)
        if busy:  # one that waited would run after the broker has given it up
            _send(connection, command, reply_to(command, ResponseCode.SYSTEM_BUSY, remark=_BUSY))
            return
        if not self._admit(connection, command):
            self._direct_ended(group)
            return
        work = partial(self._answer, connection, command, partial(self._consume_directly, group))
        threading.Thread(target=work, name=f"orderly-direct-{group}", daemon=True).start()

    def _consume_directly(self, group: str, command: RemotingCommand) -> RemotingCommand:
        try:
            from orderly.protocol.stored_message import decode_messages  # noqa: PLC0415  rarely asked

            header = from_ext(ConsumeDirectly, command.ext)
            answers = self._of(group)
            messages = decode_messages(command.body, header.broker_name or "")
            if len(messages) != 1:
                raise ProtocolError(
                    f"only one message can be consumed directly, not {len(messages)}"
                )
            result = answers.consume_directly(messages[0])
        finally:  # before the answer goes out: the broker can ask again as soon as it has it
            self._direct_ended(group)
        if result is None:
            return reply_to(command, ResponseCode.NO_PERMISSION, remark=_DIRECT_IS_OFF)
        return reply_to(command, body=encode_direct_result(result))

    def _direct_ended(self, group: str) -> None:
        with self._lock:
            self._direct.discard(group)

    def _of(self, group: str) -> GroupAnswers:
        answers = self._answers_of(group)
        if answers is None:
            raise _NoMember(f"this client has no consumer of group {group!r} that answers")
        return answers

    def _answer(
        self,
        connection: Connection,
        command: RemotingCommand,
        question: Callable[[RemotingCommand], RemotingCommand],
    ) -> None:
        """Send what `question` makes of the request; a failure is an answer, too."""
        try:
            self._reply(connection, command, question)
        finally:
            self._waiting.remove((connection.address, _size(command)))

    def _reply(
        self,
        connection: Connection,
        command: RemotingCommand,
        question: Callable[[RemotingCommand], RemotingCommand],
    ) -> None:
        try:
            reply = question(command)
        except Exception as error:  # noqa: BLE001 - the broker waits for an answer
            emit = _log.info if isinstance(error, _NoMember) else _log.error
            emit(
                "request.failed",
                address=connection.address,
                request=RequestCode(command.code).name,
                error=error_text(error),
                exc_info=None if isinstance(error, _NoMember) else error,
                redact=self._redact,
            )
            reply = reply_to(command, ResponseCode.SYSTEM_ERROR, remark=self._remark(error))
        try:
            _send(connection, command, reply)
        except OrderlyError as error:  # the broker has gone, or the answer is too large for a frame
            _log.warning("request.not_answered", address=connection.address, error=str(error))

    def _remark(self, error: Exception) -> str:
        if isinstance(error, OrderlyError):
            return str(error)
        return type(error).__name__ if self._redact else error_text(error)


def _size(command: RemotingCommand) -> int:
    """About how many bytes of memory a request holds."""
    fields = sum(_FIELD + len(name) + len(text) for name, text in command.ext.items())
    return len(command.body) + fields


def _send(connection: Connection, command: RemotingCommand, reply: RemotingCommand) -> None:
    if not command.is_oneway:
        connection.reply(reply)
