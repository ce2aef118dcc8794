"""One TCP connection to a broker or a name server: requests out, replies and requests in.

A reader thread decodes frames, completes calls and hands the peer's own requests on. It never
connects and never waits. A caller who waits alone reads its reply itself (`turns`). Time-outs are
swept by the `Schedule` given. When to connect again is `pool.Connections`' business.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue

from orderly.errors import (
    ConnectionLost,
    LifecycleError,
    OrderlyError,
    ProtocolError,
    RemotingError,
)
from orderly.log import get_logger
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import FrameDecoder, RemotingCommand, encode_frame, reply_to
from orderly.protocol.signing import signed
from orderly.remoting.dial import open_socket
from orderly.remoting.failures import (
    connection_lost,
    log_end,
    log_failure,
    reply_too_large,
    request_name,
    request_timed_out,
    said_nothing,
)
from orderly.remoting.pending import OnReply, PendingCall, PendingCalls
from orderly.remoting.schedule import Schedule
from orderly.remoting.security import UNPROTECTED, Security
from orderly.remoting.turns import ReadingTurns
from orderly.remoting.writer import FrameWriter

_log = get_logger("orderly.remoting")
_ID_MASK = 0x7FFFFFFF  # request ids are Java ints
_SILENCE = 10.0  # seconds without a byte while requests time out: it is dead, if still open
_WRITE_TIMEOUT = 10.0  # seconds a peer may take no byte at all before the connection is given up
_DROP_TIME = 30.0  # seconds a frame that is too large may take to arrive
# Bytes that may wait for the peer to read when it is sent one thing more. Requests of ours are what
# the program wants, and may be many large messages at once; answers are what the peer wants.
_MAX_UNSENT = 256 * 1024 * 1024
_MAX_UNREAD = 64 * 1024 * 1024

Attend = Callable[[], None]


class Connection:
    """An open connection; it is not reopened once lost.

    Thread-safe. Every request completes exactly once: with its reply, or with a RemotingError
    after the time-out, the loss of the connection or `close`. A reply that comes later is
    dropped.

    Args:
        address: "host:port".
        timeouts: sweeps expired requests; must outlive the connection.
        connect_timeout: seconds, and as many for the TLS handshake.
        max_frame: bytes; a longer frame from the peer is thrown away. A reply's request fails with
            ReplyTooLarge, all others go on.
        on_request: gets the peer's own requests, on the reader thread: must not block.
        on_close: called once, on the reader thread, before pending calls are told of the loss.
        security: how requests are signed and the connection is encrypted.

    Raises:
        ConnectFailed: the connection could not be opened.
    """

    def __init__(
        self,
        address: str,
        *,
        timeouts: Schedule,
        connect_timeout: float,
        max_frame: int,
        on_request: Callable[[Connection, RemotingCommand], None],
        on_close: Callable[[Connection], None],
        security: Security = UNPROTECTED,
    ) -> None:
        self.address = address
        self._credentials = security.credentials_for(address)
        self._on_request = on_request
        self._on_close = on_close
        self._ids = itertools.count(1)
        self._unheard_since = math.inf  # when the first request since the last byte was sent
        self._pending = PendingCalls(timeouts, self._expire)
        self._end = threading.Lock()
        self._cause: BaseException | None = None
        self._socket = open_socket(
            address, connect_timeout=connect_timeout, write_timeout=_WRITE_TIMEOUT
        )
        tls = security.tls and security.tls.open(self._socket, address, connect_timeout)
        self._encrypted, self._heard = tls is not None, False
        self._turns = ReadingTurns(self._socket, tls.recv if tls else None, self._pending.any)
        self._writer = FrameWriter(
            self._socket, f"orderly-write-{address}", self._abort, tls.seal if tls else None
        )
        self._max_frame = max_frame
        self._decoder = FrameDecoder(max_frame)
        self._dropping_since = 0.0
        self._reader = threading.Thread(
            target=self._read, name=f"orderly-read-{address}", daemon=True
        )
        self._reader.start()

    def __repr__(self) -> str:
        return f"<Connection {self.address} {'open' if self.alive else 'lost'}>"

    @property
    def alive(self) -> bool:
        """Whether the connection was open when last looked at."""
        return self._cause is None

    def call(self, command: RemotingCommand, timeout: float) -> RemotingCommand:
        """Send a request and wait for its reply, whatever the reply's code is.

        An interruption (KeyboardInterrupt) gives the request up; the connection stays usable.

        Args:
            command: its request id is set here.
            timeout: seconds.

        Raises:
            ConnectionLost: see `submit`.
            RequestTimeout: no reply in time.
            ProtocolError: the command is too large for a frame; nothing was sent.
            LifecycleError: called on this connection's reader thread, which would have to
                wait for itself.
        """
        if threading.get_ident() == self._reader.ident:
            raise LifecycleError(f"call() from a callback of {self.address}; use submit()")
        outcomes: SimpleQueue[RemotingCommand | RemotingError] = SimpleQueue()
        deadline = time.monotonic() + timeout
        call = PendingCall(command.code, timeout, deadline, outcomes.put, attended=True)
        request_id = self._send(command, call)
        try:
            self._attend(request_id, call)
            try:
                outcome = outcomes.get(timeout=max(deadline - time.monotonic(), 0.0))
            except Empty:
                if self._pending.claim(request_id) is not None:
                    self._expire(call)
                outcome = outcomes.get()  # completed: above, or at this moment by the reader
        except BaseException:
            self._pending.claim(request_id)
            raise
        if isinstance(outcome, OrderlyError):
            raise outcome
        return outcome

    def submit(
        self, command: RemotingCommand, timeout: float, on_reply: OnReply, attended: bool = False
    ) -> Attend:
        """Send a request; `on_reply` gets the reply or a RemotingError, exactly once.

        Args:
            command: its request id is set here.
            timeout: seconds.
            on_reply: runs on the reader thread (a time-out: on the thread of `timeouts`) and
                must not block. An exception of it is logged.
            attended: the caller is going to wait, and calls at once what is returned.

        Returns:
            A function that reads the reply on the calling thread if nobody else reads, and runs
            `on_reply` there; if that is interrupted, `on_reply` runs once more on the reader
            thread. It returns at the time-out at the latest; whoever waits still has to look
            whether the reply is there.

        Raises:
            ConnectionLost: the request did not go out and the peer cannot have executed it;
                `on_reply` is not called. A loss after that goes to `on_reply`.
            ProtocolError: the command is too large for a frame; nothing was sent.
        """
        deadline = time.monotonic() + timeout
        call = PendingCall(command.code, timeout, deadline, on_reply, attended)
        return partial(self._attend, self._send(command, call), call)

    def send_oneway(self, command: RemotingCommand) -> None:
        """Send a request that gets no reply, not even an error.

        Raises:
            ConnectionLost: it did not go out.
        """
        self._write(self._frame(command), command.code, _MAX_UNSENT)

    def reply(self, command: RemotingCommand) -> None:
        """Answer a request of the peer. Answers are not signed, as Java's are not.

        Raises:
            ConnectionLost: the answer did not go out.
        """
        self._write(encode_frame(command), command.code, _MAX_UNREAD)

    def give_up(self, why: str) -> None:
        """End the connection for what the peer does; pending calls fail. Never blocks. Idempotent.

        Args:
            why: for the event and the errors.
        """
        self._abort(RemotingError(f"{self.address} was given up: {why}", self.address))

    def close(self, timeout: float = 5.0) -> None:
        """Close the connection; pending calls fail with ConnectionLost. Idempotent.

        Args:
            timeout: seconds to wait for a callback that runs on the reader thread.
        """
        self._abort(LifecycleError("closed by this client"))
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout)

    def _send(self, command: RemotingCommand, call: PendingCall) -> int:
        request_id = command.request_id = next(self._ids) & _ID_MASK
        frame = self._frame(command)
        if not self._pending.add(request_id, call):
            raise self._lost(call.code)
        self._unheard_since = min(self._unheard_since, time.monotonic())
        try:
            self._write(frame, call.code, _MAX_UNSENT)
        except ConnectionLost:
            if self._pending.claim(request_id) is not None:
                raise
            # else the reader saw the loss first and told on_reply: once is enough
        except BaseException:
            self._pending.claim(request_id)
            raise
        if not call.attended:
            self._turns.call()
        return request_id

    def _attend(self, request_id: int, call: PendingCall) -> None:
        wanted = partial(self._pending.has, request_id)
        mine = partial(self._complete_mine, request_id)
        try:
            self._turns.read(wanted, mine, call.deadline - time.monotonic())
        except OSError as error:
            self._abort(error)

    def _complete_mine(self, request_id: int, data: bytes) -> bool:
        """Complete a request of this thread if its reply is all that came."""
        reply = self._decoder.whole(data)
        if reply is None or not reply.is_response or reply.request_id != request_id:
            return False
        self._note_life()
        self._pending.complete(request_id, partial(self._complete, outcome=reply))
        return True

    def _frame(self, command: RemotingCommand) -> bytes:
        if self._credentials is not None:
            command = signed(command, self._credentials)
        return encode_frame(command)

    def _write(self, frame: bytes, code: int, limit: int) -> None:
        waiting = self._writer.unsent
        if waiting > limit:
            self.give_up(f"it does not read; {waiting} bytes wait for it, {limit} may")
        if self._cause is not None:
            raise self._lost(code)
        try:
            self._writer.write(frame)
        except OSError as error:
            raise self._lost(code) from error

    def _abort(self, cause: BaseException) -> None:
        """Remember why the connection ends (the first cause counts) and wake the reader."""
        with self._end:
            if self._cause is not None:
                return
            self._cause = cause if self._heard else said_nothing(cause, encrypted=self._encrypted)
        with contextlib.suppress(OSError):  # it may be gone already; then the reader wakes anyway
            self._socket.shutdown(socket.SHUT_RDWR)
        self._turns.call()

    def _read(self) -> None:
        try:
            while data := self._turns.take():
                self._note_life()
                commands = self._decoder.receive(data)
                if self._decoder.dropping:
                    self._limit_drop(commands)
                attended = [self._dispatch(command) for command in commands]
                self._turns.give(alone=bool(attended) and all(attended))
            self._abort(ConnectionResetError("closed by the peer"))
        except Exception as error:  # noqa: BLE001 - whatever ends the reader ends the connection
            self._abort(error)
        finally:
            self._finish()

    def _limit_drop(self, commands: Sequence[RemotingCommand]) -> None:
        """Give the connection up if a frame that is too large arrives too slowly."""
        now = time.monotonic()
        if commands and commands[-1].dropped:
            self._dropping_since = now
        elif now - self._dropping_since > _DROP_TIME:
            raise ProtocolError(f"a frame over max_frame was not whole after {_DROP_TIME:g} s")

    def _note_life(self) -> None:
        self._heard = True
        self._unheard_since = math.inf

    def _dispatch(self, command: RemotingCommand) -> bool:
        """Hand a command to whom it is for; whether that is a caller who may read for itself."""
        if command.is_response:
            call = self._pending.claim(command.request_id)
            if call is None:
                _log.debug("reply.late", address=self.address, request=command.request_id)
                return False
            too_large = command.dropped and reply_too_large(
                self.address, call.code, command.dropped, self._max_frame
            )
            self._complete(call, too_large or command)
            return call.attended
        try:
            if command.dropped:
                self._refuse_large(command)
            else:
                self._on_request(self, command)
        except ConnectionLost:
            pass  # the end of the connection is told
        except Exception as error:  # noqa: BLE001 - a handler's failure must not end the reader
            log_failure("request.handler_failed", self.address, command.code, error)
        return False

    def _refuse_large(self, command: RemotingCommand) -> None:
        text = f"the request has {command.dropped} bytes; {self._max_frame} are taken (max_frame)"
        code, size = request_name(command.code), command.dropped
        _log.warning("request.too_large", address=self.address, request=code, bytes=size)
        if not command.is_oneway:
            self.reply(reply_to(command, ResponseCode.SYSTEM_ERROR, remark=text))

    def _complete(self, call: PendingCall, outcome: RemotingCommand | RemotingError) -> None:
        try:
            call.on_reply(outcome)
        except Exception as error:  # noqa: BLE001 - a callback's failure must not end the reader
            log_failure("reply.callback_failed", self.address, call.code, error)

    def _expire(self, call: PendingCall) -> None:
        self._complete(call, request_timed_out(self.address, call.code, call.timeout))
        # Half-open: a firewall or a dead relay takes our bytes and nothing comes back. Nobody else
        # would notice. (Java closes the socket after each time-out of a blocking request.)
        if time.monotonic() - self._unheard_since > _SILENCE:
            self._abort(ConnectionAbortedError(f"nothing came for {_SILENCE:g} s, requests waited"))

    def _finish(self) -> None:
        """The reader's last act: nobody may get this connection, then nobody waits on it."""
        calls = self._pending.close()
        log_end(self.address, self._cause)
        try:
            self._on_close(self)
        finally:
            self._socket.close()
            for call in calls:
                self._complete(call, self._lost(call.code))

    def _lost(self, code: int) -> ConnectionLost:
        return connection_lost(self.address, code, self._cause)
