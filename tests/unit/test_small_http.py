"""The HTTP server against whoever can connect: scrapers, browsers, scanners, slow ones.

What it does is judged at its sockets, so another server could be put in its place.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import select
import socket
import struct
import threading
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from orderly.errors import ConfigError
from orderly.small_http import HttpResponse, Places, Server, ServerLimits, Stage, is_loopback
from tests.support.waiting import eventually

SOON = 20.0
LARGE = "x" * 5000


class Answering:
    """Answers what it is told to, and keeps the questions."""

    def __init__(self):
        self.body = "fine"
        self.asked = []

    def __call__(self, question):
        self.asked.append(question)
        if isinstance(self.body, Exception):
            raise self.body
        return HttpResponse(self.body, "text/plain")


@pytest.fixture
def answering():
    return Answering()


@pytest.fixture
def server(answering):
    with Server("127.0.0.1", 0, answering, "exporter") as server:
        yield server


def ask(server, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SOON)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=sent)
        reply = connection.getresponse()
        return reply.status, reply.read(), reply.headers
    finally:
        connection.close()


def talk(server, data):
    """Send bytes, end the sending, read until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=SOON) as sock:
        with contextlib.suppress(OSError):  # the server was faster and has closed
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            return b"".join(iter(lambda: sock.recv(65536), b""))
        return b""


def test_a_question_is_handed_on_and_its_answer_sent(server, answering):
    status, body, headers = ask(server, "/api?group=a%26b&empty=", Accept="text/x")
    assert (status, body) == (200, b"fine")
    assert headers["Content-Type"] == "text/plain"
    (question,) = answering.asked
    assert question.path == "/api"
    assert question.query == {"group": "a&b", "empty": ""}
    assert question.accept == "text/x"


def test_every_answer_has_the_headers_that_protect_browsers(server):
    for path, method in (("/", "GET"), ("/", "POST")):
        headers = ask(server, path, method)[2]
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers
        assert "Python" not in headers["Server"]


def test_head_has_the_headers_and_no_body(server, answering):
    answering.body = LARGE
    headers, _, body = talk(server, b"HEAD / HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")
    assert headers.startswith(b"HTTP/1.0 200 OK")
    assert b"Content-Length: 5000" in headers
    assert body == b""


@pytest.mark.parametrize(
    ("offered", "packed"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("", False), ("br", False), ("gzip;q=0", False)],
)
def test_a_large_answer_is_packed_if_the_caller_takes_it(server, answering, offered, packed):
    answering.body = LARGE
    _, body, headers = ask(server, Accept_Encoding=offered)
    assert (headers["Content-Encoding"] == "gzip") == packed
    assert len(body) == int(headers["Content-Length"])
    assert (gzip.decompress(body) if packed else body) == LARGE.encode()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "X"])
def test_only_get_and_head_are_served(server, answering, method):
    status, body, headers = ask(server, method=method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert body == b"405 Method Not Allowed\n"
    assert answering.asked == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"GET /" + b"x" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"GET / HTTP/1.1\r\na: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + (b"a: " + b"x" * 6000 + b"\r\n") * 10 + b"\r\n",
        b"GET /?" + b"&".join(b"%d=1" % n for n in range(50)) + b" HTTP/1.1\r\n\r\n",
        b"<script>alert(1)</script> / HTTP/1.1\r\n\r\n",
    ],
    ids=[
        "nothing", "empty line", "tls", "no path", "version", "body", "chunked", "long path",
        "many headers", "long header", "large headers", "many fields", "markup",
    ],
)  # fmt: skip
def test_a_bad_request_is_not_answered_nor_repeated_and_ends_nothing(
    server, answering, capfd, data
):
    reply = talk(server, data)
    assert answering.asked == []
    assert b"script" not in reply.partition(b"\r\n\r\n")[2]
    assert not reply or not reply.startswith(b"HTTP/1.0 2")
    assert ask(server)[0] == 200
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:9788", 200),
        ("127.0.0.1:80", 200),
        ("[::1]:9788", 200),
        ("[::1]", 200),
        ("evil.example", 421),
        ("evil.example:9788", 421),
        ("127.0.0.1.evil.example", 421),
        ("[", 421),
    ],
)
def test_on_loopback_no_foreign_name_gets_an_answer(server, answering, host, status):
    assert ask(server, Host=host)[0] == status
    assert len(answering.asked) == (status == 200)


def test_elsewhere_it_has_any_name(answering):
    with Server("0.0.0.0", 0, answering, "exporter") as server:
        assert ask(server, Host="exporter.monitoring.svc:9788")[0] == 200


@pytest.mark.parametrize("defect", [RuntimeError, ValueError, UnicodeEncodeError, OSError])
def test_a_defect_is_told_in_the_log_and_not_to_the_caller(server, answering, defect):
    args = ("utf-8", "x", 0, 1) if defect is UnicodeEncodeError else ()
    answering.body = defect(*args, "broken <inside>")
    with capture_logs() as events:
        status, body, _ = ask(server, "/metrics")
    assert (status, body) == (500, b"500 Internal Server Error\n")
    told = [event["path"] for event in events if event["event"] == "http.not_answered"]
    assert told == ["/metrics"]
    answering.body = "fine"
    assert ask(server)[0] == 200


def test_a_caller_that_hangs_up_ends_nothing(answering, capfd):
    asked, go_on = threading.Event(), threading.Event()

    def slow(question):
        asked.set()
        assert go_on.wait(SOON)
        return HttpResponse(LARGE * 1000, "text/plain", HTTPStatus.OK)

    with Server("127.0.0.1", 0, slow, "exporter") as server:
        sock = socket.create_connection(("127.0.0.1", server.port))
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert asked.wait(SOON)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        go_on.set()
        assert ask(server)[0] == 200
    assert capfd.readouterr() == ("", "")


# --- those who take connections, and no answers


def connected(server, address="127.0.0.1"):
    """A connection from an address of this machine."""
    where = ("127.0.0.1", server.port)
    return socket.create_connection(where, timeout=SOON, source_address=(address, 0))


def closed(sock):
    """Whether the server has ended it."""
    sock.settimeout(0.01)
    try:
        return sock.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def told(sock):
    """Whether something has come, be it the connection's end."""
    return bool(select.select([sock], [], [], 0)[0])


class Begun:
    """Threads that began since."""

    def __init__(self):
        self._before = set(threading.enumerate())

    def __len__(self):
        return len(set(threading.enumerate()) - self._before)


PATIENT = ServerLimits(asking=600.0)


@contextlib.contextmanager
def many(server, count, addresses=("127.0.0.1",), sending=b""):
    """That many connections, in turn from these addresses, which all send this and no more."""
    with contextlib.ExitStack() as stack:
        held = []
        for n in range(count):
            sock = stack.enter_context(connected(server, addresses[n % len(addresses)]))
            with contextlib.suppress(ConnectionError):  # it has made room already
                sock.sendall(sending)
            held.append(sock)
        yield held


@pytest.mark.parametrize("count", [16, 300])
@pytest.mark.parametrize("sent", [b"", b"GET /", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
def test_idle_connections_keep_nobody_out(server, count, sent):
    begun = Begun()
    with many(server, count, sending=sent) as idle:
        assert [ask(server)[0] for _ in range(40)] == [200] * 40
        assert len(begun) <= 2 * ServerLimits().at_once  # those that make room end soon
        assert eventually(lambda: closed(idle[0]))


def test_callers_who_do_not_read_keep_nobody_out():
    large = b"x" * 50_000_000

    def answer(question):
        return HttpResponse(large if question.path == "/large" else b"fine", "text/plain")

    with (
        Server("127.0.0.1", 0, answer, "exporter") as server,
        many(server, 16, sending=b"GET /large HTTP/1.0\r\n\r\n") as callers,
    ):
        eventually(lambda: all(map(told, callers)))
        assert [ask(server)[0] for _ in range(40)] == [200] * 40


OTHERS = ("127.0.0.2", "127.0.0.3")


@pytest.fixture
def patient(answering):
    """A server that closes nothing for being late."""
    with Server("127.0.0.1", 0, answering, "exporter", PATIENT) as server:
        try:
            connected(server, OTHERS[0]).close()
        except OSError:
            pytest.skip("here loopback has one address only")
        yield server


def test_an_address_makes_room_at_its_own_expense(patient):
    with connected(patient) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        with many(patient, 10 * PATIENT.at_once, OTHERS[:1]) as idle:
            assert eventually(lambda: closed(idle[0]))
            slow.sendall(b"Host: localhost\r\n\r\n")
            assert slow.recv(4096).startswith(b"HTTP/1.0 200")


def test_several_addresses_that_have_all_places_keep_nobody_out(patient):
    with many(patient, PATIENT.at_once, OTHERS) as idle:
        assert ask(patient)[0] == 200
        assert eventually(lambda: closed(idle[0]))


def test_who_waits_for_an_answer_that_is_being_found_keeps_the_place():
    go_on, asked = threading.Event(), threading.Semaphore(0)

    def slow(question):
        asked.release()
        assert go_on.wait(SOON)
        return HttpResponse("fine", "text/plain")

    with Server("127.0.0.1", 0, slow, "exporter", ServerLimits(at_once=2)) as server:
        with many(server, 2, sending=b"GET / HTTP/1.0\r\n\r\n") as waiting:
            assert all(asked.acquire(timeout=SOON) for _ in range(2))
            assert talk(server, b"GET / HTTP/1.0\r\n\r\n") == b""  # turned away
            go_on.set()
            for sock in waiting:
                assert sock.recv(4096).startswith(b"HTTP/1.0 200")
        eventually(lambda: talk(server, b"GET / HTTP/1.0\r\n\r\n").endswith(b"fine"), SOON)


@pytest.mark.parametrize("trickle", [b"", b"G", b"a: b\r\n"], ids=["nothing", "path", "headers"])
def test_a_request_has_a_limit_however_slowly_it_trickles(answering, trickle):
    done = threading.Event()
    with (
        Server("127.0.0.1", 0, answering, "exporter", ServerLimits(asking=0.3)) as server,
        connected(server) as sock,
    ):

        def send():
            with contextlib.suppress(OSError):
                sock.send(b"GET /")
                while not done.wait(0.05):
                    sock.send(trickle)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            with contextlib.suppress(ConnectionError):
                assert sock.recv(4096) == b""  # it is over when the server gives up
        finally:
            done.set()
            sender.join()
    assert answering.asked == []


def test_an_answer_has_a_limit_however_slowly_it_is_read():
    body = b"x" * 50_000_000
    limits, begun = ServerLimits(answering=1.0), Begun()
    with (
        Server(
            "127.0.0.1", 0, lambda _: HttpResponse(body, "text/plain"), "exporter", limits
        ) as server,
        connected(server) as sock,
    ):
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert sock.recv(1) == b"H"
        eventually(lambda: len(begun) == 1, SOON)  # it listens, and does nothing else
        with contextlib.suppress(ConnectionError):
            received = sum(map(len, iter(lambda: sock.recv(1 << 20), b"")))
            assert received < len(body)


def test_its_end_is_the_end_of_every_connection(answering):
    begun = Begun()
    with (
        Server("127.0.0.1", 0, answering, "exporter", PATIENT) as server,
        connected(server) as idle,
    ):
        eventually(lambda: len(begun) == 2, SOON)
        server.close()
        assert idle.recv(1) == b""
        eventually(lambda: len(begun) == 0, SOON)


def test_a_taken_port_is_refused_with_the_remedy(server, answering):
    with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{server.port}: .*choose another port"):
        Server("127.0.0.1", server.port, answering, "exporter").start()


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_cannot_be_is_refused(answering, port):
    with pytest.raises(ConfigError, match="0 to 65535"):
        Server("127.0.0.1", port, answering, "exporter")


def test_it_listens_on_ipv6_too(answering):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return  # a machine without IPv6
    with Server("::1", 0, answering, "exporter") as server:
        connection = http.client.HTTPConnection("::1", server.port, timeout=SOON)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.org", False)],
)  # fmt: skip
def test_loopback_is_known(host, local):
    assert is_loopback(host) == local


def threads(name):
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


def test_start_and_close_may_be_repeated_and_leave_no_thread(answering):
    server = Server("127.0.0.1", 0, answering, "exporter")
    server.close()
    assert server.port == 0
    port = server.start().port
    assert server.start().port == port > 0
    assert threads(f"orderly-exporter-{port}")
    assert ask(server)[0] == 200
    server.close()
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    eventually(lambda: not threads("orderly-exporter"))


LIMITS = ServerLimits(at_once=3, per_peer=2, asking=5.0, answering=30.0)
FOREVER = float("inf")


@pytest.fixture
def places():
    return Places(LIMITS)


def fill(places, *peers):
    """One connection of each, named by its number."""
    for number, peer in enumerate(peers):
        assert places.admit(number, peer, 0.0) == []


def test_an_address_that_has_all_of_its_places_makes_room_by_its_oldest(places):
    fill(places, "other", "here", "here")
    assert places.admit("new", "here", 1.0) == [1]


def test_without_any_place_the_oldest_of_all_makes_room(places):
    fill(places, "a", "b", "c")
    assert places.admit("new", "d", 1.0) == [0]


def test_who_has_not_asked_goes_before_who_reads_and_who_waits_for_an_answer_stays(places):
    fill(places, "a", "b", "c")
    places.enter(0, Stage.WORKING, 0.0)
    places.enter(1, Stage.READING, 0.0)
    assert places.admit("first", "d", 1.0) == [2]
    places.enter("first", Stage.WORKING, 1.0)
    assert places.admit("second", "e", 1.0) == [1]
    places.enter("second", Stage.WORKING, 1.0)
    assert places.admit("third", "f", 1.0) is None


@pytest.mark.parametrize(
    ("stage", "until"), [(None, 5.0), (Stage.WORKING, FOREVER), (Stage.READING, 31.0)]
)
def test_each_stage_has_its_time(places, stage, until):
    fill(places, "a")
    if stage is not None:
        assert places.enter(0, stage, 1.0)
    assert places.late(min(until, 1e9) - 0.1) == []
    assert places.late(until) == [0]


def test_who_lost_the_place_does_not_get_it_back(places):
    fill(places, "a", "a")
    assert places.admit("new", "a", 1.0) == [0]
    assert not places.enter(0, Stage.WORKING, 1.0)
    places.leave(0)
    assert places.late(FOREVER) == [1, "new"]


STEPS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([None, *Stage])), max_size=40)


@given(STEPS)
def test_there_are_never_more_than_the_limits_and_who_is_at_work_stays(steps):
    places, here = Places(LIMITS), {}
    for number, (peer, stage) in enumerate(steps):
        left = places.admit(number, peer, 0.0)
        if left is None:
            at_work = [each for each, now in here.values() if now is Stage.WORKING]
            assert len(at_work) == LIMITS.at_once or at_work.count(peer) == LIMITS.per_peer
            continue
        for each in left:
            assert here.pop(each)[1] is not Stage.WORKING
        here[number] = (peer, stage)
        if stage is not None:
            assert places.enter(number, stage, 0.0)
        peers = [each for each, _ in here.values()]
        assert len(peers) <= LIMITS.at_once
        assert all(peers.count(each) <= LIMITS.per_peer for each in peers)
    assert places.late(FOREVER) == list(here)
