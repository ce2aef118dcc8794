"""A write that Ctrl-C, or an alarm, ends between any two steps leaves the stream whole."""

import contextlib
import queue
import socket
import struct
import threading

import pytest

from orderly.client.connection import FrameWriter
from orderly.errors import ConnectionLost
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from tests.support.interruptions import at_each_step
from tests.support.waiting import eventually

LONG = 60.0
HEAD = struct.Struct(">II")  # the length of what follows the head, and a number


class Far:
    """The far end of a socket pair: takes frames apart on a thread of its own."""

    def __init__(self, sock):
        self.numbers = []
        self._sock = sock
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        with self._sock, self._sock.makefile("rb") as file:
            while head := file.read(HEAD.size):
                size, number = HEAD.unpack(head)
                assert file.read(size) == bytes([number % 256]) * size, "it is torn"
                self.numbers.append(number)

    def all(self):
        self._thread.join(LONG)
        assert not self._thread.is_alive()
        return self.numbers


def frame(number, size):
    return HEAD.pack(size, number) + bytes([number % 256]) * size


@pytest.mark.parametrize("size", [10, 400_000], ids=["at once", "in a congestion"])
def test_each_frame_is_there_whole_or_not_at_all_and_its_sender_knows(size):
    near, there = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
    far, broken, expected = Far(there), [], []
    writer = FrameWriter(near, "orderly-write-test", broken.append)

    def prepared(step):
        return frame(step, size), step, []

    tries = []

    def write(given):
        tries.append(given)
        writer.write(given[0], given[2])

    def check(step, _place):
        if tries[-1][2]:  # something of it went out, or will
            expected.append(step)
        after = 1_000_000 + step
        writer.write(frame(after, size), [])
        expected.append(after)

    steps = at_each_step(write, check, prepare=prepared)
    expected.append(steps)
    for number in range(100):  # nobody is in the way
        writer.write(frame(2_000_000 + number, 1), [])
        expected.append(2_000_000 + number)
    eventually(lambda: not writer._unsent and writer.unsent == 0)
    near.close()
    assert far.all() == expected
    assert broken == []


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_what_follows_on_the_connection_is_answered(server, connect, encrypted):
    """With TLS the connection may end: what is sealed in part cannot be taken back."""
    connections = []

    def serve():
        while True:
            with contextlib.suppress(AssertionError, OSError, ValueError, queue.Empty):
                peer = server.accept()
                threading.Thread(target=answer_all, args=(peer,), daemon=True).start()
                continue
            return

    def answer_all(peer):
        with contextlib.suppress(AssertionError, OSError):
            while True:
                peer.answer(peer.read())

    threading.Thread(target=serve, daemon=True).start()
    connections.append(connect())

    def call(_):
        ask = request(RequestCode.GET_MAX_OFFSET)
        ask.sent = []
        connections[-1].submit(ask, LONG, lambda _: None)

    def check(_step, _place):
        try:
            reply = connections[-1].call(request(RequestCode.GET_MIN_OFFSET), LONG)
        except ConnectionLost:
            assert encrypted
            connections.append(connect())
            reply = connections[-1].call(request(RequestCode.GET_MIN_OFFSET), LONG)
        assert reply.is_response

    at_each_step(call, check, 3 if encrypted else 1)
    assert encrypted or len(connections) == 1
