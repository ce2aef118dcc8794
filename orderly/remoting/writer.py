"""Frames out, in order, without ever blocking the caller.

A send on a connection whose peer reads is one system call. When the peer's window is full the
rest waits here and a thread that lives only as long as the congestion writes it, so that neither
a reader thread (which must go on reading) nor a user's thread hangs on a slow peer.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable

_DO_NOT_WAIT = (socket.MSG_DONTWAIT,)
_OVERHEAD = 256  # bytes that a waiting frame costs besides its own


class FrameWriter:
    """The write side of one socket. Thread-safe; frames go out whole and in the order given.

    `unsent` is about how many bytes of memory wait for the peer to read; how many may is for the
    owner to say.

    Args:
        sock: blocking, with a write time-out set on it.
        name: of the thread that writes in a congestion.
        on_broken: called with the cause when the stream broke; must not write.
        seal: puts what is sent for a frame into a list, with TLS; see `TlsStream.seal`.
    """

    def __init__(
        self,
        sock: socket.socket,
        name: str,
        on_broken: Callable[[BaseException], None],
        seal: Callable[[bytes, list[bytes]], None] | None = None,
    ) -> None:
        self._socket = sock
        self._name = name
        self._on_broken = on_broken
        self._seal = seal or _as_it_is
        self._lock = threading.Lock()
        self._unsent: deque[memoryview] = deque()
        self.unsent = 0

    def write(self, frame: bytes) -> None:
        """Hand `frame` to the kernel, or queue what the kernel does not take now.

        An interruption (KeyboardInterrupt) leaves the stream whole: `frame` goes out entirely or
        not at all.

        Raises:
            OSError: the stream is broken and the peer cannot have seen all of `frame`.
        """
        with self._lock:
            held: list[bytes] = []
            sent: list[int] = []
            try:
                self._seal(frame, held)
                if not self._unsent:
                    # map and extend run in C: a signal cannot come between the system call and
                    # the note of its result, as it could with `sent = send(frame)`.
                    sent.extend(map(self._socket.send, held, _DO_NOT_WAIT))
            except BlockingIOError:
                pass  # nothing of it went out
            except OSError as error:
                held.clear()
                self._on_broken(error)
                raise
            finally:
                if held and sum(sent) < len(held[0]):
                    self._queue(memoryview(held[0])[sum(sent) :])

    def _queue(self, rest: memoryview) -> None:
        try:
            self._unsent.append(rest)
            self.unsent += len(rest) + _OVERHEAD
            if len(self._unsent) == 1:
                threading.Thread(target=self._drain, name=self._name, daemon=True).start()
        except BaseException as error:
            self._on_broken(error)  # half a frame went out, and nobody will write the rest
            raise

    def _drain(self) -> None:
        chunk: memoryview | None = self._unsent[0]
        try:
            while chunk is not None:
                chunk = self._advance(chunk, self._socket.send(chunk))
        except OSError as error:
            self._on_broken(error)

    def _advance(self, chunk: memoryview, sent: int) -> memoryview | None:
        """Drop what was sent and return what is next.

        None ends the congestion, and with it the thread: decided under the lock, so that two
        threads never write at once.
        """
        with self._lock:
            self.unsent -= sent
            if sent < len(chunk):
                self._unsent[0] = chunk[sent:]
            else:
                self._unsent.popleft()
                self.unsent -= _OVERHEAD
            return self._unsent[0] if self._unsent else None


def _as_it_is(frame: bytes, held: list[bytes]) -> None:
    held.append(frame)
