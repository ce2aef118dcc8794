"""One TCP connection to a broker or a name server: requests out, replies and requests in.

A reader thread decodes frames, completes calls and hands the peer's own requests on. It never
connects and never waits. A caller that waits alone reads its reply itself (`reader_election`).
Time-outs are swept by the `Schedule` given. When to connect again is `pool.Connections`'
business.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

from orderly.client.background import Schedule
from orderly.client.reader_election import ReaderElection
from orderly.client.security import UNPROTECTED, Security
from orderly.clock import AwakeClock
from orderly.errors import (
    ConnectFailed,
    ConnectionLost,
    LifecycleError,
    OrderlyError,
    ProtocolError,
    RemotingError,
    ReplyTooLarge,
    RequestTimeout,
)
from orderly.interruptions import let_go, shielded
from orderly.log import get_logger
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.frame import FrameDecoder, RemotingCommand, encode_frame, reply_to
from orderly.protocol.signing import signed

_KEEPALIVE = (  # a peer that vanished without a word is noticed after about a minute
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPALIVE", 30),  # macOS's name for it
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),  # milliseconds; Linux only
)


def open_socket(address: str, *, connect_timeout: float, write_timeout: float) -> socket.socket:
    """Connect; the socket blocks, and reads wait without limit.

    Args:
        address: "host:port", or "[::1]:port" for IPv6.
        connect_timeout: seconds for each address the name resolves to.
        write_timeout: seconds; a write that makes no progress for so long raises
            BlockingIOError.

    Raises:
        ConnectFailed: names the address and what to check.
    """
    host, port = _split(address)
    try:
        sock = socket.create_connection((host, port), connect_timeout)
    except (OSError, UnicodeError) as error:  # the latter of names that no name server can have
        raise ConnectFailed(_advice(address, host, connect_timeout, error), address) from error
    try:
        _configure(sock, write_timeout)
    except OSError as error:
        sock.close()
        raise ConnectFailed(f"{address} broke the connection at once: {error}", address) from error
    return sock


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise ConnectFailed(f"{address!r} is not an address; expected host:port", address)
    return host.strip("[]"), int(port)


def _configure(sock: socket.socket, write_timeout: float) -> None:
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    seconds, rest = divmod(write_timeout, 1)
    limit = struct.pack("@ll", int(seconds), int(rest * 1_000_000))  # struct timeval
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _advice(address: str, host: str, timeout: float, error: OSError | UnicodeError) -> str:
    if isinstance(error, socket.gaierror):
        return f"cannot resolve {host!r} of {address}: {error.strerror}; check the name and the DNS"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {address}; check the address and that the server there runs"
    if isinstance(error, TimeoutError):
        return (
            f"no answer from {address} within {timeout:g} s; check the address, firewalls, and"
            " that the broker announces an address reachable from here (its brokerIP1 setting)"
        )
    return f"cannot connect to {address}: {error}; check the address and the network"


# --- what failed, in errors and in the log --------------------------------------------------------


_log = get_logger("orderly.remoting")


def connection_lost(address: str, code: int, cause: BaseException | None) -> ConnectionLost:
    """The error of one request that a connection's end left unanswered.

    A fresh one for each request: raised in several threads, one error would mix their tracebacks.
    """
    garbled = isinstance(cause, ProtocolError)
    reason = f"it sent bytes that break the protocol ({cause})" if garbled else str(cause)
    error = ConnectionLost(
        f"the connection to {address} was lost with {request_name(code)} unanswered: {reason}",
        address,
    )
    error.__cause__ = cause
    return error


def said_nothing(cause: BaseException, *, encrypted: bool) -> BaseException:
    """The cause of an end before the peer sent a byte: it may want to be spoken to otherwise."""
    if not isinstance(cause, ConnectionResetError | BrokenPipeError):
        return cause
    hint = (
        "a certificate of this client, set tls_cert_file and tls_key_file"
        if encrypted
        else "TLS, set tls=True (ORDERLY_TLS)"
    )
    return ConnectionResetError(f"{cause} before it sent anything; if it demands {hint}")


def request_timed_out(address: str, code: int, timeout: float) -> RequestTimeout:
    """The error of a request that waited `timeout` seconds for its reply."""
    return RequestTimeout(
        f"{address} did not answer {request_name(code)} within {timeout:g} s; it can still execute"
        " the request",
        address,
    )


def reply_too_large(address: str, code: int, size: int, max_frame: int) -> ReplyTooLarge:
    """The error of a request whose reply was thrown away, as larger than `max_frame` bytes."""
    return ReplyTooLarge(
        f"{address} answered {request_name(code)} with {size} bytes, and max_frame is {max_frame}:"
        f" ask for less, or set ClientConfig.max_frame to {size} or more",
        address,
        size=size,
    )


def request_name(code: int) -> str:
    """Return the code with its name, if it has one here."""
    try:
        return f"{RequestCode(code).name} ({code})"
    except ValueError:
        return f"request {code}"


def log_end(address: str, cause: BaseException | None) -> None:
    """Say why a connection ended, as loud as that is unexpected."""
    fields = {"address": address, "cause": str(cause)}
    if isinstance(cause, LifecycleError):
        _log.debug("connection.closed", **fields)
    elif isinstance(cause, OSError):
        _log.info("connection.lost", **fields)
    else:
        _log.error("connection.given_up", **fields, exc_info=cause)


def log_failure(event: str, address: str, code: int, error: Exception) -> None:
    """Log the exception of a callback, in the clause that caught it."""
    _log.error(event, address=address, request=request_name(code), error=repr(error), exc_info=True)


# --- requests that wait for their reply -----------------------------------------------------------
# The rule that makes every request complete exactly once: reply, time-out, loss and interruption
# all *claim* the entry first, and only the claimant completes it. What completing means is up to
# `Connection`.


OnReply = Callable[[RemotingCommand | RemotingError], None]


@dataclass(slots=True)
class PendingCall:
    """One request in flight.

    Attributes:
        deadline: in awake time. After a standstill the replies still wait to be read: a time-out
            then would have a send stored twice for nothing.
        attended: its caller waits, and may read the reply itself.
    """

    code: int
    timeout: float
    deadline: float
    on_reply: OnReply
    attended: bool = False


class PendingCalls:
    """The table of requests in flight. Thread-safe.

    Args:
        timeouts: where the next sweep is planned: one timer a connection, not one a request.
        awake: the clock of their deadlines.
        on_expired: gets each call whose deadline passed, on the thread of `timeouts`.
    """

    def __init__(
        self, timeouts: Schedule, awake: AwakeClock, on_expired: Callable[[PendingCall], None]
    ) -> None:
        self._timeouts = timeouts
        self._awake = awake
        self._on_expired = on_expired
        self._lock = threading.RLock()
        self._calls: dict[int, PendingCall] = {}
        self._closed = False
        self._sweep_at = math.inf
        self._cancel_sweep: Callable[[], None] = _nothing

    def add(self, request_id: int, call: PendingCall) -> bool:
        """Enter `call`; False after `close`: no reply can come any more."""
        try:
            with self._lock:
                if self._closed:
                    return False
                if call.deadline < self._sweep_at:
                    self._plan_sweep(call.deadline)
                self._calls[request_id] = call
                return True
        except BaseException:  # an interruption
            let_go(self._lock)
            raise

    def any(self) -> bool:
        """Whether a request waits for its reply."""
        return bool(self._calls)

    def has(self, request_id: int) -> bool:
        """Whether this request waits for its reply."""
        return request_id in self._calls

    def claim(self, request_id: int) -> PendingCall | None:
        """Take the call out in order to complete it; None if somebody else did."""
        return self._calls.pop(request_id, None)

    def complete(self, request_id: int, reply: RemotingCommand) -> None:
        """Claim the call, if it is there, and complete it on a thread that may be interrupted.

        Whatever is raised then, the call is put back, for the reader thread to complete it. After
        `close` that thread has ended; then the call counts as expired.
        """
        claimed: list[PendingCall | None] = []
        try:
            # In C, as no signal may come between: the call would be claimed by nobody.
            claimed.extend(map(self._calls.pop, (request_id,), (None,)))
            if claimed[0] is not None:
                claimed[0].on_reply(reply)
        except BaseException:
            if claimed and claimed[0] is not None and not self.add(request_id, claimed[0]):
                self._on_expired(claimed[0])
            raise

    def close(self) -> list[PendingCall]:
        """Claim all calls and refuse new ones."""
        with self._lock:
            self._closed = True
            self._cancel_sweep()
            return self._claim_all(list(self._calls))

    def _plan_sweep(self, deadline: float) -> None:
        """Plan the next sweep before the other is forgotten: one too many does no harm."""
        cancel = self._cancel_sweep
        self._cancel_sweep = self._timeouts.after(deadline - self._awake.now(), self._sweep)
        self._sweep_at = deadline
        cancel()

    def _sweep(self) -> None:
        for call in self._claim_expired():
            self._on_expired(call)

    def _claim_expired(self) -> list[PendingCall]:
        now = self._awake.now()
        with self._lock:
            calls = self._calls.copy()
            late = [number for number, call in calls.items() if call.deadline <= now]
            expired = self._claim_all(late)
            self._sweep_at = math.inf
            left = [call.deadline for call in calls.values() if call.deadline > now]
            if left:
                self._plan_sweep(min(left))
            return expired

    def _claim_all(self, numbers: list[int]) -> list[PendingCall]:
        return [call for number in numbers if (call := self.claim(number)) is not None]


def _nothing() -> None:
    """No sweep is planned."""


# --- frames out, in order, without ever blocking the caller ---------------------------------------
# A send on a connection whose peer reads is one system call. When the peer's window is full the
# rest waits here and a thread that lives only as long as the congestion writes it, so that neither
# a reader thread (which must go on reading) nor a user's thread hangs on a slow peer.


_DO_NOT_WAIT = (socket.MSG_DONTWAIT,)
_OVERHEAD = 256  # bytes that a waiting frame costs besides its own


_Frame = tuple[bytes, list[int]]  # and what each write took of it


class FrameWriter:
    """The write side of one socket. Thread-safe; frames go out whole and in the order given.

    `unsent` is about how many bytes of memory wait for the peer to read; how many may is for the
    owner to say.

    Args:
        sock: blocking, with a write time-out set on it.
        name: of the thread that writes in a congestion.
        on_broken: called with the cause when the stream broke; must not write.
        seal: returns what is sent for a frame, with TLS; see `TlsStream.seal`.
    """

    def __init__(
        self,
        sock: socket.socket,
        name: str,
        on_broken: Callable[[BaseException], None],
        seal: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._socket = sock
        self._name = name
        self._on_broken = on_broken
        self._seal = seal
        self._lock = threading.RLock()
        self._unsent: deque[_Frame] = deque()  # not out yet; the first one may be in part
        self._draining = threading.Lock()  # of the thread that writes in a congestion
        self.unsent = 0

    def write(self, data: bytes, sent: list[int]) -> None:
        """Hand a frame to the kernel, or queue what the kernel does not take now.

        An interruption (KeyboardInterrupt) leaves the stream whole: the frame goes out entirely if
        something is in `sent`, else not at all. (Only while TLS seals it, it ends the stream.)

        Args:
            data: the frame.
            sent: empty; gets the number of bytes that each write took.

        Raises:
            OSError: the stream is broken and the peer cannot have seen all of the frame.
        """
        frame = (data, sent)
        try:
            with self._lock:
                if self._seal is not None:
                    sent.append(0)  # what is sealed must go
                    frame = (self._seal(data), sent)
                self._put(frame)
        except BaseException as error:
            let_go(self._lock)
            with self._lock:
                if is_of_system(error) or (self._seal and self._is_missing(frame)):
                    self._on_broken(error)  # with TLS, the next would follow upon a part of it
                else:
                    self._clean_up(frame)
            raise

    def _put(self, frame: _Frame) -> None:
        data, sent = frame
        if self._unsent:
            sent.append(0)  # it will go, and whoever asks whether it went must know
            self._unsent.append(frame)
            self.unsent += len(data) + _OVERHEAD
            return
        self._unsent.append(frame)
        try:
            # map and extend run in C: a signal cannot come between the system call and the note
            # of its result, as it could with `sent = send(data)`.
            sent.extend(map(self._socket.send, (data,), _DO_NOT_WAIT))
        except BlockingIOError:
            sent.append(0)
        if sum(sent) == len(data):
            self._unsent.popleft()
        else:
            self.unsent += len(data) + _OVERHEAD
        if self._unsent:
            self._start_drain()

    def _is_missing(self, frame: _Frame) -> bool:
        """Whether an interruption came before a frame was put."""
        return not any(each is frame for each in self._unsent) and sum(frame[1]) == 0

    def _clean_up(self, frame: _Frame) -> None:
        """See to it that what an interruption left here goes out, or never does."""
        if self._is_missing(frame):
            frame[1].clear()
        elif not frame[1]:
            self._unsent.remove(frame)
        if not self._unsent:
            return
        try:
            self._start_drain()
        except BaseException as error:
            self._on_broken(error)  # half a frame may be out, and nobody writes the rest
            raise

    def _start_drain(self) -> None:
        """Have a thread write what is left; one too many ends at once."""
        threading.Thread(target=self._drain, name=self._name, daemon=True).start()

    def _drain(self) -> None:
        if not self._draining.acquire(blocking=False):
            return
        try:
            while (rest := self._rest()) is not None:
                chunk, sent = rest
                sent.append(self._socket.send(chunk))
        except OSError as error:
            self._on_broken(error)

    def _rest(self) -> tuple[memoryview, list[int]] | None:
        """What is next: of the first frame, what is not out yet.

        None ends the congestion, and with it the thread: decided under the lock, so that two
        threads never write at once.
        """
        with self._lock:
            while self._unsent:
                data, sent = self._unsent[0]
                done = sum(sent)
                if done < len(data):
                    return memoryview(data)[done:], sent
                self._unsent.popleft()
                self.unsent = max(0, self.unsent - len(data) - _OVERHEAD)
            self.unsent = 0
            self._draining.release()
            return None


def is_of_system(error: BaseException) -> bool:
    """Whether an error is the operating system's: a signal's handler may raise TimeoutError."""
    return isinstance(error, OSError) and error.errno is not None


# --- the connection -------------------------------------------------------------------------------


# Request ids are Java ints; ours are all below 0. A proxy (5.5.0) that cannot reach a broker, or
# waits too long for it, answers under a number of its own, counted from 0 on
# (DefaultMessagingProcessor.request): that must not pass for the answer to another request.
_ID_MASK = 0x7FFFFFFF
# struct linger: what a peer that was given up has not taken by now is never sent, and it learns of
# the end at once. What it would read later could be stored behind what is sent again meanwhile.
_ABORT = struct.pack("@ii", 1, 0)
_SILENCE = 10.0  # seconds without a byte while requests time out: it is dead, if still open
_WRITE_TIMEOUT = 10.0  # seconds a peer can take no byte before the connection is given up
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
        awake: the clock by which they expire.
        connect_timeout: seconds, and as many for the TLS handshake.
        max_frame: bytes; a longer frame from the peer is thrown away. A reply's request fails with
            ReplyTooLarge, all others go on.
        on_request: gets the peer's own requests, on the reader thread: must not block.
        on_close: called once, on the reader thread, before pending calls fail with the loss.
        security: how requests are signed and the connection is encrypted.

    Raises:
        ConnectFailed: the connection could not be opened.
    """

    def __init__(
        self,
        address: str,
        *,
        timeouts: Schedule,
        awake: AwakeClock,
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
        self._ids = itertools.count()
        self._unheard_since = math.inf  # when the first request since the last byte was sent
        self._awake = awake
        self._pending = PendingCalls(timeouts, awake, self._expire)
        self._end = threading.Lock()
        self._cause: BaseException | None = None
        self._socket = open_socket(
            address, connect_timeout=connect_timeout, write_timeout=_WRITE_TIMEOUT
        )
        tls = security.tls and security.tls.open(self._socket, address, connect_timeout)
        self._encrypted, self._heard = tls is not None, False
        self._turns = ReaderElection(self._socket, tls.recv if tls else None, self._pending.any)
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

    @property
    def heard(self) -> bool:
        """Whether the peer ever sent a byte."""
        return self._heard

    def call(self, command: RemotingCommand, timeout: float) -> RemotingCommand:
        """Send a request and wait for its reply, with any response code.

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
        deadline = self._awake.now() + timeout
        call = PendingCall(command.code, timeout, deadline, outcomes.put, attended=True)
        request_id = self._send(command, call)
        try:
            self._attend(request_id, call)
            outcome = None
            while outcome is None and (left := deadline - self._awake.now()) > 0:
                with contextlib.suppress(Empty):
                    outcome = outcomes.get(timeout=left)
            if outcome is None:
                outcome = self._given_up(request_id, call, outcomes)
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
        deadline = self._awake.now() + timeout
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
        request_id = command.request_id = ~(next(self._ids) & _ID_MASK)
        frame = self._frame(command)
        try:
            entered = self._pending.add(request_id, call)
            if entered:
                self._unheard_since = min(self._unheard_since, self._awake.now())
                self._write(frame, call.code, _MAX_UNSENT, command.sent)
        except ConnectionLost:
            if self._pending.claim(request_id) is not None:
                raise
            # else the reader saw the loss first and called on_reply: once is enough
        except BaseException:
            if not command.sent:  # else its reply will come, and is waited for
                self._pending.claim(request_id)
            raise
        if not entered:
            raise self._lost(call.code)
        if not call.attended:
            self._turns.call()
        return request_id

    def _attend(self, request_id: int, call: PendingCall) -> None:
        wanted = partial(self._pending.has, request_id)
        mine = partial(self._complete_mine, request_id)
        self._turns.read(wanted, mine, call.deadline - self._awake.now())

    def _given_up(
        self,
        request_id: int,
        call: PendingCall,
        outcomes: SimpleQueue[RemotingCommand | RemotingError],
    ) -> RemotingCommand | RemotingError:
        """What became of a call whose caller waits no longer."""
        if self._pending.claim(request_id) is None:
            return outcomes.get()  # completed at this moment by the reader
        self._end_if_silent()
        return request_timed_out(self.address, call.code, call.timeout)

    def _complete_mine(self, request_id: int, data: bytes) -> bool:
        """Complete a request of this thread if its reply is all that came, and says yes.

        A failure can need locks and logs, which no interruption must cut off: the thread's work.
        """
        reply = self._decoder.whole(data)
        if reply is None or not reply.is_response or reply.request_id != request_id:
            return False
        if reply.code != ResponseCode.SUCCESS:
            return False
        self._note_life()
        self._pending.complete(request_id, reply)
        return True

    def _frame(self, command: RemotingCommand) -> bytes:
        if self._credentials is not None:
            command = signed(command, self._credentials)
        return encode_frame(command)

    def _write(self, frame: bytes, code: int, limit: int, sent: list[int] | None = None) -> None:
        waiting = self._writer.unsent
        if waiting > limit:
            self.give_up(f"it does not read; {waiting} bytes wait for it, {limit} may")
        if self._cause is not None:
            raise self._lost(code)
        try:
            self._writer.write(frame, [] if sent is None else sent)
        except OSError as error:
            if not is_of_system(error):
                raise
            raise self._lost(code) from error

    def _abort(self, cause: BaseException) -> None:
        """Remember why the connection ends (the first cause counts) and wake the reader."""
        shielded(partial(self._end_with, cause))

    def _end_with(self, cause: BaseException) -> None:
        with self._end:
            if self._cause is not None:
                return
            self._cause = cause if self._heard else said_nothing(cause, encrypted=self._encrypted)
        with contextlib.suppress(OSError):  # it may be gone already; then the reader wakes anyway
            if not isinstance(cause, LifecycleError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
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
        except Exception as error:  # noqa: BLE001 - any end of the reader ends the connection
            self._abort(error)
        finally:
            self._finish()

    def _limit_drop(self, commands: Sequence[RemotingCommand]) -> None:
        """Give the connection up if a frame that is too large arrives too slowly."""
        now = self._awake.now()
        if commands and commands[-1].dropped:
            self._dropping_since = now
        elif now - self._dropping_since > _DROP_TIME:
            raise ProtocolError(f"a frame over max_frame was not complete after {_DROP_TIME:g} s")

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
            pass  # the reader reports the end of the connection
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
        self._end_if_silent()

    def _end_if_silent(self) -> None:
        # Half-open: a firewall or a dead relay takes our bytes and nothing comes back. Nobody else
        # would notice. (Java closes the socket after each time-out of a blocking request.)
        if self._awake.now() - self._unheard_since > _SILENCE:
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
