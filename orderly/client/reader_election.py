"""Whose turn it is to read from a socket: the connection's own thread's, or a waiting caller's.

To hand a reply from one thread to another costs more than all the rest of a small request. So a
caller who would only wait for the reader thread reads its reply itself, if nobody else reads. The
reader thread pauses while callers do so, and is called when anybody waits for what nobody
reads. It alone hands on what is for others: a caller that finds more than its own reply leaves
all of it to the thread, as it came.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from orderly.interruptions import let_go

_READ_SIZE = 64 * 1024
_ONE_READ = (_READ_SIZE,)
# Seconds a caller reads at most; the kernel counts them (a poll before each read: 8 % of a send).
_PATIENCE = 1
# Seconds without a caller that reads, after which the thread does: for what the peer says unasked.
_STANDS_BACK = 0.02


class ReaderElection:
    """The turns at one socket. `take` and `give` are the reader thread's, the rest is thread-safe.

    Args:
        sock: blocking.
        receive: as the socket's recv; with TLS it decrypts, and callers cannot read for themselves:
            what is decrypted cannot be left as it came.
        expected: whether anybody waits for something from the peer.
    """

    def __init__(
        self,
        sock: socket.socket,
        receive: Callable[[int], bytes] | None,
        expected: Callable[[], bool],
    ) -> None:
        self._expected = expected
        self._receive = receive or sock.recv
        self._shared = receive is None
        self._role = threading.RLock()  # who holds it reads; kept for ever once the stream ended
        self._left: list[bytes] = []  # what a caller read, and the thread has to hand on
        self._failed: list[OSError] = []  # how a caller's read ended
        self._calls: SimpleQueue[None] = SimpleQueue()  # for the thread
        self._stands_back = False
        self._readings = 0  # of callers
        limit = struct.pack("@ll", _PATIENCE, 0)  # struct timeval
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def take(self) -> bytes:
        """Wait for the turn, then for bytes; b"" is the end. The thread has the turn until `give`.

        Raises:
            OSError: the stream broke.
        """
        self._role.acquire()
        if self._failed:
            raise self._failed[0]
        if self._left:
            return self._left.pop()
        while True:
            with contextlib.suppress(BlockingIOError):  # nothing came for so long
                return self._receive(_READ_SIZE)

    def give(self, *, alone: bool) -> None:
        """End the thread's turn.

        Args:
            alone: all that came was for callers who may read for themselves. Then the thread
                waits here until it is called, or for a while in which none of them did.
        """
        self._role.release()
        if not (alone and self._shared):
            return
        while not self._calls.empty():  # of the last time
            self._calls.get()
        self._stands_back = True
        if not self._expected():  # asked after it can be called: who waits now, calls
            self._wait_until_called()
        self._stands_back = False

    def read(
        self, wanted: Callable[[], bool], mine: Callable[[bytes], bool], timeout: float
    ) -> None:
        """Read once on this thread, if nobody else does.

        Args:
            wanted: asked when nobody else can read any more: whether something is to come.
            mine: gets the bytes; False: they are for others, and left to the thread. So they are
                if it raises: an interruption (KeyboardInterrupt) loses nothing.
            timeout: seconds the caller waits. With little left it does not read: it could not
                stop in time.
        """
        if not self._shared or timeout < _PATIENCE:
            self._call_if_expected()
            return
        try:
            had_turn = self._in_turn(wanted, mine)
        except BaseException:  # an interruption; it may have come before the turn was given back
            let_go(self._role)
            self._call_if_expected()
            raise
        if had_turn:
            self._call_if_expected()

    def _in_turn(self, wanted: Callable[[], bool], mine: Callable[[bytes], bool]) -> bool:
        if not self._role.acquire(False):
            return False
        if not self._left and wanted():
            self._readings += 1
            try:
                # In C, as no signal may come between: bytes would be taken and not held.
                self._left.extend(map(self._receive, _ONE_READ))
            except BlockingIOError:
                pass  # nothing came for so long; the thread goes on
            except OSError as error:
                if error.errno is None:  # a TimeoutError of a signal's handler, say
                    raise
                self._failed.append(error)
            else:
                if mine(self._left[0]):
                    self._left.clear()
        self._role.release()
        return True

    def call(self) -> None:
        """Make the thread read if it pauses."""
        if self._stands_back:
            self._calls.put(None)

    def _call_if_expected(self) -> None:
        if self._left or self._failed or self._expected():
            self.call()

    def _wait_until_called(self) -> None:
        seen = -1
        while seen != self._readings:
            seen = self._readings
            with contextlib.suppress(Empty):
                self._calls.get(timeout=_STANDS_BACK)
                return
