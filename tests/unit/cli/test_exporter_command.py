"""`orderly exporter`: it scans, serves what it knows, and ends when it is told to."""

import http.client
import json
import re
import signal
import subprocess
import sys

import pytest

from orderly import Ack, Message, OrderlyConsumer
from orderly.cli.exporter import exporter
from orderly.cli.options import address
from orderly.cli.root import run
from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.protocol.parked_key import key_tag
from orderly.small_http import is_loopback
from tests.support.programs import idle_connections
from tests.support.waiting import eventually, patient_client, patient_producer

SOON = 60


@pytest.fixture
def namesrv(orderly_fake):
    """A cluster in which group shipping has 3 of 5 messages before it."""
    orderly_fake.create_topic("orders", queues=1)
    with patient_producer(orderly_fake.namesrv) as producer:
        for n in range(5):
            producer.send(Message("orders", b"x", sharding_key=str(n)))
    with patient_client(orderly_fake.namesrv) as client:
        member = OrderlyConsumer("shipping", lambda *_: Ack(), client=client)
        with member.subscribe("orders"):
            pass  # the group is known from now on
        client.brokers.update_offset("shipping", MessageQueue("orders", "broker-a", 0), 2)
    return orderly_fake.namesrv


class Service:
    """The command in a process of its own; what it prints is in a file."""

    def __init__(self, folder, *options):
        self._errors = folder / "errors"
        with self._errors.open("w") as errors:
            command = [sys.executable, "-m", "orderly.cli", "exporter", *options]
            self.process = subprocess.Popen(command, stderr=errors)

    @property
    def told(self):
        return self._errors.read_text()

    def port(self):
        found = eventually(
            lambda: self.process.poll() is not None or re.search(r":(\d+)/\n", self.told), SOON
        )
        assert self.process.poll() is None, self.told
        return int(found[1])

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=SOON)
        connection.request("GET", path)
        reply = connection.getresponse()
        status, body = reply.status, reply.read().decode()
        connection.close()
        return status, body


@pytest.fixture
def start(tmp_path):
    started = []

    def service(*options):
        started.append(Service(tmp_path, "--listen", "127.0.0.1:0", *options))
        return started[-1]

    yield service
    for each in started:
        each.process.kill()
        each.process.wait()


def test_it_listens_on_loopback_unless_told_otherwise():
    (listen,) = (option for option in exporter.params if option.name == "listen")
    assert is_loopback(address(listen.default, "--listen", "")[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_the_last_scan_until_it_is_told_to_end(namesrv, start, number):
    service = start("--namesrv", namesrv, "--interval", "1s")
    eventually(lambda: service.get("/readyz")[0] == 200, SOON)
    with idle_connections(service.port()):
        assert [service.get("/healthz")[0] for _ in range(40)] == [200] * 40
    backlog = r"orderly_group_backlog_messages{.*group=\"shipping\"} 3\n"
    eventually(lambda: re.search(backlog, metrics(service)), SOON)
    found = json.loads(service.get("/api/v1/backlog")[1])
    assert [group["group"] for group in found["groups"]] == ["shipping"]
    eventually(lambda: len(history(service)) > 1, SOON)
    assert history(service)[-1][1] == 3
    assert "<!doctype html>" in service.get("/")[1]
    service.process.send_signal(number)
    assert service.process.wait(SOON) == 0, service.told
    slow = "event='broker."  # the cluster is in this process: a machine that stalls makes it silent
    told = [line for line in service.told.splitlines() if slow not in line]
    assert len(told) == 1, "nothing but where it serves"


def metrics(service):
    return service.get("/metrics")[1]


def history(service):
    return json.loads(service.get("/api/v1/history")[1])["groups"]["shipping"]


def test_keys_are_hidden_where_that_is_asked_for(namesrv, start):
    service = start("--namesrv", namesrv, "--interval", "1s", "--redact-keys", "hash")
    eventually(lambda: service.get("/readyz")[0] == 200, SOON)
    head = eventually(lambda: first_message(service), SOON)
    assert (head["offset"], head["key"]) == (2, f"#{key_tag('2')}")


def first_message(service):
    """Of the queue in trouble; it is read in the second scan, or a later one."""
    for group in json.loads(service.get("/api/v1/backlog")[1])["groups"]:
        for topic in group["topics"]:
            for queue in topic["queues"]:
                return queue["head"]
    return None


def test_without_a_cluster_it_lives_is_not_ready_and_ends_cleanly(start):
    service = start("--namesrv", "127.0.0.1:1", "--interval", "1s")
    eventually(lambda: re.search("orderly_scan_failures_total [1-9]", metrics(service)), SOON)
    assert service.get("/healthz")[0] == 200
    status, body = service.get("/readyz")
    assert status == 503
    assert "no scan is complete yet; the last scan failed" in body
    service.process.terminate()
    assert service.process.wait(SOON) == 0, service.told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9788", ("127.0.0.1", 9788)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:9788", ("::1", 9788)),
    ],
)
def test_an_address_is_a_host_and_a_port(text, expected):
    assert address(text, "--listen", "a:1") == expected


@pytest.mark.parametrize("text", ["", "9788", ":9788", "localhost", "localhost:x", "::1:9788"])
def test_what_is_no_address_is_refused(text, capsys):
    with pytest.raises(ConfigError, match="HOST:PORT"):
        address(text, "--listen", "a:1")
    assert run(["exporter", "--listen", text, "--namesrv", "127.0.0.1:1"]) == 3
    assert "HOST:PORT" in capsys.readouterr().err


def test_who_lets_everybody_connect_is_warned(tmp_path):
    service = Service(tmp_path, "--listen", "0.0.0.0:0", "--namesrv", "127.0.0.1:1")
    try:
        service.port()
        assert "anyone who can connect to 0.0.0.0" in service.told
    finally:
        service.process.kill()
        service.process.wait()
