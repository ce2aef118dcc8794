from __future__ import annotations

import os
import random
import signal
import socket
import struct
import sys
import threading
import time
from dataclasses import replace

import pytest

from orderly.client import connection as connection_module
from orderly.client.connection import Connection, open_socket
from orderly.errors import (
    ConnectFailed,
    ConnectionLost,
    LifecycleError,
    ProtocolError,
    RemotingError,
    ReplyTooLarge,
    RequestTimeout,
)
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import MAX_DROPPED, Serializer, encode_frame, reply_to, request
from tests.support.waiting import eventually

SOON = 30.0
LONG = 30.0  # a time-out that must not be what ends the test


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def encrypted(request):
    """Every promise holds with TLS, too."""
    return request.param


def ask(name="x", **fields):
    return request(RequestCode.GET_MAX_OFFSET, {"name": name}, **fields)


def name_of(command):
    return command.ext["name"]


# --- replies find their calls ------------------------------------------------------------------


def test_call_returns_the_reply_whatever_its_code(server, connect, in_thread):
    connection = connect()
    answer = in_thread(connection.call, ask(), LONG)
    peer = server.accept()
    peer.answer(peer.read(), code=22, remark="none", ext={"a": "b"}, body=b"body")
    reply = answer.result(SOON)
    assert (reply.code, reply.remark, reply.ext, reply.body) == (22, "none", {"a": "b"}, b"body")


def test_a_reply_that_comes_byte_by_byte_is_put_together(server, connect, in_thread):
    connection = connect()
    answer = in_thread(connection.call, ask(), LONG)
    peer = server.accept()
    for byte in encode_frame(reply_to(peer.read(), body=b"abc")):
        peer.sock.sendall(bytes([byte]))
    assert answer.result(SOON).body == b"abc"


def test_a_reply_in_the_binary_serialisation_is_understood(server, connect, in_thread):
    connection = connect()
    answer = in_thread(connection.call, ask(), LONG)
    peer = server.accept()
    peer.sock.sendall(encode_frame(reply_to(peer.read(), body=b"bin"), Serializer.ROCKETMQ))
    assert answer.result(SOON).body == b"bin"


def test_replies_out_of_order_reach_their_own_calls(server, connect, in_thread):
    connection = connect()
    answers = {n: in_thread(connection.call, ask(n), LONG) for n in "abcd"}
    peer = server.accept()
    requests = [peer.read() for _ in answers]
    peer.send(*(reply_to(r, remark=name_of(r)) for r in reversed(requests)))
    assert {n: a.result(SOON).remark for n, a in answers.items()} == {n: n for n in "abcd"}


def test_request_ids_in_flight_are_unique(server, connect):
    connection = connect()
    for _ in range(50):
        connection.submit(ask(), LONG, lambda _: None)
    peer = server.accept()
    assert len({peer.read().request_id for _ in range(50)}) == 50


def test_a_proxys_answer_under_a_number_of_its_own_is_nobodys(server, connect, in_thread):
    """A proxy numbers from 0 on, as process-wide as Java does, what it asks brokers."""
    connection = connect()
    answer = in_thread(connection.call, ask(), LONG)
    peer = server.accept()
    asked = peer.read()
    for number in range(1000):
        peer.send(replace(reply_to(asked, 1, remark="not yours"), request_id=number))
    peer.answer(asked, remark="mine")
    assert answer.result(SOON).remark == "mine"


def test_a_request_of_the_peer_with_the_same_id_is_not_taken_for_the_reply(
    server, connect, in_thread, inbox
):
    requests = inbox()
    connection = connect(on_request=lambda _, command: requests(command))
    answer = in_thread(connection.call, ask(), LONG)
    peer = server.accept()
    asked = peer.read()
    own = request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"})
    own.request_id = asked.request_id
    peer.send(own)
    assert requests.wait()[0].ext == {"consumerGroup": "g"}
    assert not answer.done()
    connection.reply(reply_to(requests.items[0], 3, remark="no"))
    refusal = peer.read()
    assert refusal.is_response
    assert (refusal.request_id, refusal.code) == (own.request_id, 3)
    peer.answer(asked, remark="mine")
    assert answer.result(SOON).remark == "mine"


def test_a_oneway_request_goes_out_and_nobody_waits(server, connect):
    connection = connect()
    connection.send_oneway(ask(oneway=True))
    assert server.accept().read().is_oneway


# --- time-outs ---------------------------------------------------------------------------------


def test_call_times_out_with_the_address_and_the_request_named(server, connect):
    connection = connect()
    server.accept()
    with pytest.raises(RequestTimeout, match=rf"{connection.address}.*GET_MAX_OFFSET.*0\.01 s"):
        connection.call(ask(), 0.01)
    assert connection.alive


def test_a_submitted_request_times_out_on_its_callback(server, connect, inbox):
    connection = connect()
    outcomes = inbox()
    connection.submit(ask(), 0.01, outcomes)
    assert isinstance(outcomes.wait()[0], RequestTimeout)


def test_a_later_request_with_a_shorter_time_out_expires_first(server, connect, inbox):
    connection = connect()
    outcomes = inbox()
    connection.submit(ask(), LONG, lambda _: outcomes("long"))
    connection.submit(ask(), 0.02, lambda _: outcomes("short"))
    connection.submit(ask(), 0.01, lambda _: outcomes("shortest"))
    assert set(outcomes.wait(2)) == {"short", "shortest"}


def test_a_late_reply_is_dropped_and_the_connection_goes_on(server, connect, in_thread):
    connection = connect()
    peer = server.accept()
    with pytest.raises(RequestTimeout):
        connection.call(ask("late"), 0.01)
    late = peer.read()
    answer = in_thread(connection.call, ask(), LONG)
    peer.answer(late, remark="late")
    peer.answer(peer.read(), remark="in time")
    assert answer.result(SOON).remark == "in time"


def test_slow_accept_is_covered_by_the_request_time_out(server, connect, in_thread):
    connection = connect()  # the kernel completed it; nobody accepted yet
    answer = in_thread(connection.call, ask(), LONG)
    peer = server.accept()
    peer.answer(peer.read())
    assert answer.result(SOON).code == 0


# --- the end of a connection -------------------------------------------------------------------


@pytest.mark.parametrize("end", ["close", "reset"])
def test_all_pending_requests_fail_when_the_peer_cuts(server, connect, in_thread, inbox, end):
    closed, outcomes = inbox(), inbox()
    connection = connect(on_close=closed)
    waiting = in_thread(connection.call, ask(), LONG)
    peer = server.accept()
    peer.read()
    connection.submit(ask(), LONG, outcomes)
    peer.read()
    getattr(peer, end)()
    with pytest.raises(ConnectionLost, match=connection.address):
        waiting.result(SOON)
    assert isinstance(outcomes.wait()[0], ConnectionLost)
    assert closed.wait() == [connection]
    assert not connection.alive


def test_a_lost_connection_is_reported_gone_before_its_requests_fail(server, connect, inbox):
    events = inbox()
    connection = connect(on_close=lambda _: events("closed"))
    connection.submit(ask(), LONG, lambda _: events("failed"))
    server.accept().close()
    assert events.wait(2) == ["closed", "failed"]


def test_a_request_on_a_lost_connection_raises_and_calls_nobody(server, connect, inbox):
    closed = inbox()
    connection = connect(on_close=closed)
    server.accept().close()
    closed.wait()
    outcomes = []
    with pytest.raises(ConnectionLost):
        connection.submit(ask(), LONG, outcomes.append)
    with pytest.raises(ConnectionLost):
        connection.call(ask(), LONG)
    with pytest.raises(ConnectionLost):
        connection.send_oneway(ask())
    connection.close()
    assert outcomes == []


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x00\x02\x00\x00",  # a frame shorter than its own header length
        b"\x00\x00\x00\x08\x00\x00\x00\x04oops",  # a header that is no JSON
        b"\x00\x00\x00\x08\x07\x00\x00\x04oops",  # an unknown serialiser
    ],
)
def test_bytes_that_break_the_format_end_the_connection(
    server, connect, in_thread, caplog, garbage
):
    connection = connect()
    answer = in_thread(connection.call, ask(), LONG)
    peer = server.accept()
    peer.read()
    peer.sock.sendall(garbage)
    with pytest.raises(ConnectionLost, match="break the protocol") as raised:
        answer.result(SOON)
    assert isinstance(raised.value.__cause__, ProtocolError)
    assert peer.at_end()
    assert "connection.given_up" in caplog.text


def test_a_frame_far_over_the_limit_ends_the_connection(server, connect, in_thread):
    connection = connect(max_frame=64 * 1024)
    answer = in_thread(connection.call, ask(), LONG)
    peer = server.accept()
    peer.read()
    peer.sock.sendall((MAX_DROPPED + 1).to_bytes(4, "big"))
    with pytest.raises(ConnectionLost) as raised:
        answer.result(SOON)
    assert isinstance(raised.value.__cause__, ProtocolError)


def test_a_reply_over_the_limit_fails_its_own_request_only(server, connect, in_thread, inbox):
    connection = connect(max_frame=64 * 1024)
    other = inbox()
    connection.submit(ask("other"), LONG, other)
    answer = in_thread(connection.call, ask("large"), LONG)
    peer = server.accept()
    by_name = {name_of(command): command for command in (peer.read(), peer.read())}
    large = reply_to(by_name["large"], body=bytes(1024 * 1024))
    peer.send(large, large, reply_to(by_name["other"], body=b"small"))
    with pytest.raises(ReplyTooLarge, match="max_frame is 65536") as raised:
        answer.result(SOON)
    assert raised.value.size == len(encode_frame(large)) - 4
    assert not raised.value.retriable
    assert not raised.value.refresh_route
    eventually(lambda: [reply.body for reply in other.items] == [b"small"], within=SOON)
    again = in_thread(connection.call, ask(), LONG)
    peer.answer(peer.read(), body=b"goes on")
    assert again.result(SOON).body == b"goes on"


def test_a_frame_over_the_limit_may_not_take_for_ever(server, connect, in_thread, monkeypatch):
    monkeypatch.setattr(connection_module, "_DROP_TIME", 0.0)
    connection = connect(max_frame=64 * 1024)
    answer = in_thread(connection.call, ask(), LONG)
    peer = server.accept()
    large = encode_frame(reply_to(peer.read(), body=bytes(1024 * 1024)))
    peer.sock.sendall(large[:2000])
    with pytest.raises(ReplyTooLarge):
        answer.result(SOON)
    peer.sock.sendall(b"a little more")
    eventually(lambda: not connection.alive, within=SOON)
    assert peer.at_end()


def test_a_request_over_the_limit_is_refused_by_an_answer(server, connect, inbox):
    requests = inbox()
    connection = connect(max_frame=64 * 1024, on_request=lambda *received: requests(received))
    peer = server.accept()
    peer.send(request(220, body=bytes(1024 * 1024), oneway=True), request(221, body=bytes(70_000)))
    refusal = peer.read()
    assert (refusal.code, "max_frame" in refusal.remark) == (1, True)
    peer.send(request(40))
    eventually(lambda: [command.code for _, command in requests.items] == [40], within=SOON)
    assert connection.alive


def test_close_fails_pending_requests_and_is_idempotent(server, connect, in_thread, inbox):
    closed = inbox()
    connection = connect(on_close=closed)
    answer = in_thread(connection.call, ask(), LONG)
    peer = server.accept()
    peer.read()
    connection.close()
    connection.close()
    with pytest.raises(ConnectionLost, match="closed by this client"):
        answer.result(SOON)
    assert peer.at_end()
    assert closed.items == [connection]


def test_close_ends_the_reader_thread(server, connect):
    connection = connect()
    name = f"orderly-read-{connection.address}"
    assert [t.daemon for t in threading.enumerate() if t.name == name] == [True]
    connection.close()
    assert [t for t in threading.enumerate() if t.name == name] == []


def test_a_callback_may_close_the_connection(server, connect, inbox):
    connection = connect()
    done = inbox()

    def close_it(_):
        connection.close()
        done("closed")

    connection.submit(ask(), LONG, close_it)
    peer = server.accept()
    peer.answer(peer.read())
    done.wait()
    assert peer.at_end()


# --- other people's failures -------------------------------------------------------------------


def test_a_raising_callback_is_logged_and_kills_nothing(server, connect, in_thread, caplog):
    connection = connect()
    connection.submit(ask(), LONG, lambda _: 1 / 0)
    peer = server.accept()
    peer.answer(peer.read())
    answer = in_thread(connection.call, ask(), LONG)
    peer.answer(peer.read())
    assert answer.result(SOON).code == 0
    assert "ZeroDivisionError" in caplog.text


def test_a_raising_request_handler_is_logged_and_kills_nothing(server, connect, in_thread, caplog):
    connection = connect(on_request=lambda *_: 1 / 0)
    peer = server.accept()
    peer.send(request(RequestCode.GET_CONSUMER_RUNNING_INFO))
    answer = in_thread(connection.call, ask(), LONG)
    peer.answer(peer.read())
    assert answer.result(SOON).code == 0
    assert "GET_CONSUMER_RUNNING_INFO" in caplog.text


def test_call_from_a_callback_is_refused_instead_of_waiting_for_itself(server, connect, inbox):
    connection = connect()
    outcomes = inbox()

    def nested(_):
        try:
            connection.call(ask(), LONG)
        except LifecycleError as error:
            outcomes(error)

    connection.submit(ask(), LONG, nested)
    peer = server.accept()
    peer.answer(peer.read())
    assert "submit" in str(outcomes.wait()[0])


def waits_in_call(thread):
    return sys._current_frames()[thread.ident].f_code.co_name in ("call", "read")


@pytest.mark.parametrize("moment", ["while it sends", "while it waits"])
def test_an_interrupted_call_leaves_the_connection_usable(server, connect, in_thread, moment):
    connection = connect()
    peer = server.accept()
    main = threading.main_thread()

    def interrupt():
        asked = peer.read()
        while moment == "while it waits" and not waits_in_call(main):
            pass
        signal.pthread_kill(main.ident, signal.SIGINT)
        while waits_in_call(main):  # Python misses a signal right before it begins to wait
            time.sleep(0.1)
            if waits_in_call(main):
                signal.pthread_kill(main.ident, signal.SIGINT)
        return asked

    interrupted = in_thread(interrupt)
    with pytest.raises(KeyboardInterrupt):
        connection.call(ask("interrupted"), LONG)
    answer = in_thread(connection.call, ask("next"), LONG)
    peer.answer(interrupted.result(SOON), remark="too late")
    peer.answer(peer.read(), remark="next")
    assert answer.result(SOON).remark == "next"


# --- exactly one completion --------------------------------------------------------------------


class Tally:
    """Counts how often each request was completed, by callback or by a raise."""

    def __init__(self, connection):
        self.connection = connection
        self.lock = threading.Lock()
        self.counts = {}
        self.kinds = set()
        self.replied = threading.Event()

    def submit(self, number, timeout):
        try:
            self.connection.submit(ask(str(number)), timeout, lambda o: self.note(number, o))
        except RemotingError as error:
            self.note(number, error)

    def call(self, number, timeout):
        try:
            self.note(number, self.connection.call(ask(str(number)), timeout))
        except RemotingError as error:
            self.note(number, error)

    def note(self, number, outcome):
        with self.lock:
            self.counts[number] = self.counts.get(number, 0) + 1
            self.kinds.add(type(outcome).__name__)
        if not isinstance(outcome, RemotingError):
            self.replied.set()


@pytest.mark.parametrize("way", ["submit", "call"])
@pytest.mark.parametrize("end", ["peer", "close"])
def test_each_request_completes_exactly_once_whatever_races(server, connect, in_thread, way, end):
    chance = random.Random(1)
    connection = connect()
    peer = server.accept()
    tally = Tally(connection)

    def answer_all():
        try:
            while True:
                asked = peer.read()
                time.sleep(chance.choice((0, 0, 0.0005)))  # hits time-outs from both sides
                if asked.ext["name"] != "400":
                    peer.answer(asked)
        except (AssertionError, OSError):
            return

    def requests(first):
        for number in range(first, first + 100):
            getattr(tally, way)(number, chance.choice((0.0, 0.0005, 0.002, LONG)))

    answering = in_thread(answer_all)
    senders = [in_thread(requests, first) for first in range(0, 400, 100)]
    assert tally.replied.wait(SOON)
    tally.submit(400, LONG)  # one at least is under way when it ends
    if end == "peer":
        # Of the socket itself: SSLSocket's own would go on reading, without decrypting.
        socket.socket.shutdown(peer.sock, socket.SHUT_RDWR)
    else:
        connection.close()
    for sender in senders:
        sender.result(SOON)
    connection.close()
    answering.result(SOON)
    eventually(lambda: len(tally.counts) == 401)  # another thread may still be telling the last
    assert tally.counts == dict.fromkeys(range(401), 1)
    assert {"RemotingCommand", "ConnectionLost"} <= tally.kinds


# --- a peer that does not read -----------------------------------------------------------------


def test_a_slow_peer_blocks_no_sender_and_gets_all_frames_in_order(server, connect):
    connection = connect()
    peer = server.accept()
    body = os.urandom(1024 * 1024)
    for number in range(24):  # far more than the kernel's buffers hold
        connection.submit(ask(str(number), body=body), LONG, lambda _: None)
    writer = f"orderly-write-{connection.address}"
    congested = [t for t in threading.enumerate() if t.name == writer]
    assert len(congested) == 1
    received = [peer.read() for _ in range(24)]
    assert [int(name_of(r)) for r in received] == list(range(24))
    assert all(r.body == body for r in received)
    congested[0].join(SOON)
    assert not congested[0].is_alive()
    connection.submit(ask("after"), LONG, lambda _: None)
    assert name_of(peer.read()) == "after"


def test_a_peer_that_never_reads_is_given_up(server, connect, inbox, monkeypatch):
    monkeypatch.setattr(connection_module, "_WRITE_TIMEOUT", 0.05)
    connection = connect()
    server.accept()
    outcomes = inbox()
    for _ in range(24):
        try:
            connection.submit(ask(body=bytes(1024 * 1024)), LONG, outcomes)
        except ConnectionLost as error:  # given up already
            outcomes(error)
    assert {type(o) for o in outcomes.wait(24)} == {ConnectionLost}


def test_what_waits_for_a_slow_peer_is_counted_until_it_is_read(server, connect):
    connection = connect()
    peer = server.accept()
    writer = connection._writer
    for number in range(24):
        connection.submit(ask(str(number), body=bytes(1024 * 1024)), LONG, lambda _: None)
    assert 0 < writer.unsent < 25 * 2**20, "the kernel holds the rest"
    for _ in range(24):
        peer.read()
    eventually(lambda: writer.unsent == 0)


def flood(peer, size):
    """Ask until the connection ends; the answers are not read."""
    command = request(RequestCode.GET_CONSUMER_RUNNING_INFO, {"size": str(size)})
    frames = encode_frame(command) * 64
    try:
        for _ in range(4096):
            peer.sock.sendall(frames)
    except OSError:
        return True
    return False


@pytest.mark.parametrize("size", [0, 1024 * 1024])
def test_a_peer_that_asks_and_reads_no_answer_is_given_up(
    server, connect, inbox, monkeypatch, caplog, size
):
    """Small answers, too: each costs more than its bytes."""
    limit, most, frames, ended = 1024 * 1024, [0], [0], inbox()
    monkeypatch.setattr(connection_module, "_MAX_UNREAD", limit)

    def answer(connection, command):
        connection.reply(reply_to(command, body=bytes(size)))
        most[0] = max(most[0], connection._writer.unsent)
        frames[0] = max(frames[0], len(connection._writer._unsent))

    connection = connect(on_request=answer, on_close=ended)
    assert flood(server.accept(), size), "it was not stopped"
    assert ended.one() is connection
    eventually(lambda: "connection.given_up" in caplog.text)
    assert "it does not read" in caplog.text
    assert "handler_failed" not in caplog.text
    assert most[0] < limit + 3 * (size + 1024)
    assert frames[0] < limit / 200


def test_requests_that_nobody_reads_are_bounded_too(server, connect, inbox, monkeypatch, caplog):
    monkeypatch.setattr(connection_module, "_MAX_UNSENT", 16 * 1024 * 1024)
    connection = connect()
    server.accept()
    outcomes, refused = inbox(), []
    for _ in range(64):
        try:
            connection.submit(ask(body=bytes(1024 * 1024)), LONG, outcomes)
        except ConnectionLost as error:
            refused.append(str(error))
    assert "was given up: it does not read" in refused[0]
    assert {type(outcome) for outcome in outcomes.wait(64 - len(refused))} == {ConnectionLost}
    eventually(lambda: "connection.given_up" in caplog.text)


# --- opening -----------------------------------------------------------------------------------


@pytest.fixture
def dial(timeouts, awake):
    def dial(address, connect_timeout=1.0):
        return Connection(
            address,
            timeouts=timeouts,
            awake=awake,
            connect_timeout=connect_timeout,
            max_frame=2**20,
            on_request=lambda *_: None,
            on_close=lambda _: None,
        )

    return dial


def test_nothing_listens(server, dial):
    server.stop_listening()
    with pytest.raises(ConnectFailed, match=f"nothing listens at {server.address}"):
        dial(server.address)


def test_a_name_that_does_not_resolve(dial, monkeypatch):
    def unresolvable(*_):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unresolvable)
    with pytest.raises(ConnectFailed, match=r"'nowhere' of nowhere:1.*DNS"):
        dial("nowhere:1")


def test_no_answer_hints_at_the_address_the_broker_announces(dial, monkeypatch):
    def silent(*_):
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(ConnectFailed, match=r"10\.0\.0\.1:1 within 0\.2 s.*brokerIP1"):
        dial("10.0.0.1:1", 0.2)


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:65536", "host:x"])
def test_an_address_that_is_none(dial, address):
    with pytest.raises(ConnectFailed, match="host:port"):
        dial(address)


def test_a_peer_that_vanished_is_noticed_in_a_minute_and_nothing_waits_to_be_sent(server):
    with open_socket(server.address, connect_timeout=SOON, write_timeout=2.5) as sock:

        def told(name, level=socket.IPPROTO_TCP):
            return sock.getsockopt(level, getattr(socket, name))

        assert told("SO_KEEPALIVE", socket.SOL_SOCKET)
        idle = told("TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE")
        assert idle + told("TCP_KEEPINTVL") * told("TCP_KEEPCNT") <= 60
        assert told("TCP_NODELAY")
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert 0 < told("TCP_USER_TIMEOUT") <= 60_000
        assert sock.gettimeout() is None
        limit = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, 16)
        assert struct.unpack("@ll", limit) == (2, 500_000)
