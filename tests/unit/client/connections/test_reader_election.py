"""Who reads from a connection: its thread, or a caller who waits alone."""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from orderly.client.reader_election import ReaderElection
from orderly.errors import RequestTimeout
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import reply_to, request
from tests.support.waiting import eventually

SOON = LONG = 30.0


def ask(name="x"):
    return request(RequestCode.GET_MAX_OFFSET, {"name": name})


class Sides:
    """Turns at one end of a socket pair, and the other end."""

    def __init__(self):
        self.near, self.far = socket.socketpair()
        self.waits = True  # whether anybody waits for something
        self.turns = ReaderElection(self.near, None, lambda: self.waits)
        self.taken = []

    def read(self, mine=True, wanted=True, timeout=LONG):
        """Read as a caller does; the bytes, or None if it did not."""
        seen = []

        def look(data):
            seen.append(data)
            return mine

        self.turns.read(lambda: wanted, look, timeout)
        return seen[0] if seen else None

    def close(self):
        self.near.close()
        self.far.close()


@pytest.fixture
def sides():
    sides = Sides()
    yield sides
    sides.close()


def test_a_caller_reads_if_nobody_else_does(sides):
    sides.far.sendall(b"a")
    assert sides.read() == b"a"


def test_a_caller_does_not_read_what_has_come_already(sides):
    sides.far.sendall(b"a")
    assert sides.read(wanted=False) is None
    assert sides.turns.take() == b"a"


def test_a_caller_waits_no_longer_than_its_time(sides):
    sides.far.sendall(b"a")
    assert sides.read(timeout=0.01) is None  # it could not be sure to stop in time
    assert sides.turns.take() == b"a"


def test_a_caller_leaves_it_to_the_thread_when_nothing_comes_for_long(sides):
    assert sides.read() is None
    sides.far.sendall(b"a")
    assert sides.read() == b"a"


@pytest.fixture
def on_the_thread():
    """Run a function on the one thread that takes and gives; the result is a Future."""
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit


def test_a_caller_does_not_read_while_the_thread_has_the_turn(sides, on_the_thread):
    taking = on_the_thread(sides.turns.take)
    sides.far.sendall(b"a")
    assert taking.result(SOON) == b"a"
    sides.far.sendall(b"b")
    assert sides.read() is None
    on_the_thread(sides.turns.give, alone=False).result(SOON)
    assert sides.read() == b"b"


def test_what_is_for_others_is_left_to_the_thread_and_read_by_nobody_before(sides):
    sides.far.sendall(b"a")
    assert sides.read(mine=False) == b"a"
    sides.far.sendall(b"b")
    assert sides.read() is None
    assert sides.turns.take() == b"a"
    sides.turns.give(alone=False)
    assert sides.turns.take() == b"b"


def test_an_interruption_loses_no_byte_and_no_turn(sides):
    sides.far.sendall(b"a")

    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sides.turns.read(lambda: True, interrupted, LONG)
    assert sides.turns.take() == b"a"


def test_the_thread_stands_back_until_it_is_called(sides, on_the_thread, monkeypatch):
    monkeypatch.setattr("orderly.client.reader_election._STANDS_BACK", LONG)
    sides.waits = False
    sides.far.sendall(b"a")
    assert on_the_thread(sides.turns.take).result(SOON) == b"a"
    standing = on_the_thread(sides.turns.give, alone=True)
    eventually(lambda: sides.turns._stands_back)
    sides.far.sendall(b"b")
    assert sides.read() == b"b"
    assert not standing.done()
    sides.turns.call()
    standing.result(SOON)


def test_the_thread_reads_again_when_no_caller_does(sides):
    sides.waits = False
    sides.far.sendall(b"a")
    assert sides.turns.take() == b"a"
    sides.turns.give(alone=True)  # returns by itself
    sides.far.sendall(b"b")
    assert sides.turns.take() == b"b"


def test_with_tls_only_the_thread_reads(sides):
    turns = ReaderElection(sides.near, sides.near.recv, lambda: False)
    sides.far.sendall(b"a")
    turns.read(lambda: True, lambda _: True, LONG)
    assert turns.take() == b"a"
    turns.give(alone=True)


# --- on a connection ---------------------------------------------------------------------------


def answer_each(peer, count):
    for _ in range(count):
        peer.answer(peer.read())


def answer_all(peer):
    with contextlib.suppress(AssertionError, OSError):  # the client went
        while True:
            peer.answer(peer.read())


def test_a_lone_caller_reads_its_own_replies(server, connect, in_thread):
    connection = connect()
    peer = server.accept()
    answering = in_thread(answer_each, peer, 20)
    me = []
    for _ in range(20):
        sent = connection.submit(
            ask(), LONG, lambda _: me.append(threading.current_thread()), attended=True
        )
        sent()
        eventually(lambda: len(me) > 0)
        last = me.pop()
    assert last is threading.current_thread()
    answering.result(SOON)


def test_a_request_of_the_peer_is_heard_while_the_thread_stands_back(
    server, connect, in_thread, inbox
):
    heard = inbox()
    connection = connect(on_request=lambda _, command: heard(command))
    peer = server.accept()
    answering = in_thread(answer_each, peer, 3)
    for _ in range(3):
        connection.call(ask(), LONG)
    answering.result(SOON)
    peer.send(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"}))
    assert heard.wait(1)[0].ext == {"consumerGroup": "g"}


def test_others_are_served_while_a_caller_waits_for_its_reply(server, connect, in_thread, inbox):
    heard, done = inbox(), inbox()
    connection = connect(on_request=lambda _, command: heard(command))
    peer = server.accept()
    answering = in_thread(answer_each, peer, 1)
    connection.call(ask(), LONG)  # from here on the thread stands back
    answering.result(SOON)
    slow = in_thread(connection.call, ask("slow"), LONG)
    asked = peer.read()
    connection.submit(ask(), LONG, done)
    both = [request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED), reply_to(peer.read())]
    peer.send(*both)
    heard.wait(1)
    done.wait(1)
    assert not slow.done()
    peer.answer(asked, remark="at last")
    assert slow.result(SOON).remark == "at last"


def test_a_reply_that_comes_in_pieces_is_put_together_for_a_lone_caller(server, connect, in_thread):
    connection = connect()
    peer = server.accept()
    body = bytes(200_000)  # more than one read
    for _ in range(3):
        answer = in_thread(connection.call, ask(), LONG)
        peer.answer(peer.read(), body=body)
        assert answer.result(SOON).body == body


def test_a_lone_caller_times_out_and_the_next_is_served(server, connect, in_thread):
    connection = connect()
    peer = server.accept()
    answering = in_thread(answer_each, peer, 1)
    connection.call(ask(), LONG)
    answering.result(SOON)
    with pytest.raises(RequestTimeout):
        connection.call(ask("late"), 0.01)
    late = peer.read()
    answer = in_thread(connection.call, ask(), LONG)
    peer.answer(late, remark="late")
    peer.answer(peer.read(), remark="in time")
    assert answer.result(SOON).remark == "in time"


def test_a_callback_that_is_interrupted_runs_again_on_the_reader_thread(
    server, connect, in_thread, inbox
):
    connection = connect()
    answering = in_thread(answer_all, server.accept())
    told, sent = inbox(), 0

    def on_reply(reply):
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        told(reply)

    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - whichever of them is read here
        while True:  # until this thread is the one that reads
            sent += 1
            connection.submit(ask(), LONG, on_reply, attended=True)()
            told.wait(sent)
    told.wait(sent)
    assert not connection._pending.any()
    connection.close()
    answering.result(SOON)
