"""The probe endpoint: true answers, and nothing a caller does ends it."""

import contextlib
import http.client
import json
import socket
import threading

import pytest
from structlog.testing import capture_logs

from orderly.consumer.health import Health
from orderly.consumer.probe import Probe
from tests.support.programs import idle_connections
from tests.support.waiting import eventually

SOON = 30.0
WELL = Health(live=True, ready=True, state="running")


class Told:
    """A consumer that says what it is told to."""

    def __init__(self):
        self.health = WELL

    def __call__(self):
        if isinstance(self.health, Exception):
            raise self.health
        return self.health


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def probe(told):
    with Probe(0, told) as probe:
        yield probe


def get(probe, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", probe.port, timeout=SOON)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def get_json(probe, path):
    status, body = get(probe, path)
    return status, json.loads(body)


def talk(probe, data):
    """Send bytes, end the sending, read until the probe closes."""
    with socket.create_connection(("127.0.0.1", probe.port), timeout=SOON) as sock:
        sock.sendall(data)
        with contextlib.suppress(OSError):  # the probe was faster and has closed
            sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(4096), b""))


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("ready", [True, False])
def test_live_and_ready_are_answered_apart(probe, told, live, ready):
    told.health = Health(live, ready, "running", reasons=("because",))
    assert get_json(probe, "/live") == (
        200 if live else 503,
        {"live": live, "reasons": ["because"]},
    )
    assert get_json(probe, "/ready") == (
        200 if ready else 503,
        {"ready": ready, "reasons": ["because"]},
    )
    assert get_json(probe, "/health") == (200, json.loads(told.health.to_json()))


def test_a_query_does_not_matter_and_other_paths_are_404(probe):
    assert get(probe, "/live?verbose=1")[0] == 200
    for path in ("/", "/livez", "/health/", "/../etc/passwd"):
        status, body = get_json(probe, path)
        assert (status, body) == (
            404,
            {"error": "unknown path; the probe has /live, /ready, /health"},
        )


def test_health_that_cannot_be_read_is_not_well(probe, told, capsys):
    told.health = RuntimeError("broken <inside>")
    with capture_logs() as events:
        for path in ("/live", "/ready", "/health"):
            status, body = get_json(probe, path)
            assert status == 503
            assert "broken" not in str(body)
    assert [event["error"] for event in events] == ["RuntimeError('broken <inside>')"] * 3
    told.health = WELL
    assert get(probe, "/ready")[0] == 200


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET /live HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 100_000,
        b"GET /live HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"POST /live HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    ],
    ids=["nothing", "tls", "no path", "version", "long", "headers", "post"],
)
def test_a_bad_request_gets_no_health_and_ends_nothing(probe, capfd, data):
    assert b'"live"' not in talk(probe, data)
    assert get(probe, "/live")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_no_web_page_reads_the_health_by_a_name_of_its_own(probe):
    for host, answered in ((b"evil.example", False), (b"localhost:8080", True)):
        reply = talk(probe, b"GET /live HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        assert (b'"live"' in reply) is answered


def test_idle_connections_do_not_make_it_look_dead(probe):
    with idle_connections(probe.port):
        assert [get(probe, "/live")[0] for _ in range(40)] == [200] * 40


def test_it_listens_on_loopback_unless_told_otherwise(told):
    another = "127.0.0.2"  # of this machine, too: where one listens everywhere, there as well
    with Probe(0, told) as probe, pytest.raises(OSError):
        socket.create_connection((another, probe.port), timeout=1.0).close()


def test_start_and_close_may_be_repeated_and_leave_no_thread(told):
    probe = Probe(0, told)
    probe.close()
    assert probe.port == 0
    port = probe.start().port
    assert probe.start().port == port > 0
    assert f"orderly-probe-{port}" in {thread.name for thread in threading.enumerate()}
    probe.close()
    probe.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("orderly-probe")])
