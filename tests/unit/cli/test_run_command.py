"""`orderly run`: it starts what a module has, and ends when it is told to."""

import json
import re
import signal
import sys
import urllib.error
import urllib.request

import pytest

from orderly import Message
from orderly.cli.root import run
from orderly.consumer.health import Health, together
from orderly.model import MessageQueue
from tests.support.programs import ROOT, SOON, Program, idle_connections
from tests.support.waiting import eventually, patient_client, patient_producer

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]
SHOP = """
import logging
import time
from pathlib import Path

from orderly import Ack, ConsumerConfig, OrderlyConsumer

log = logging.getLogger("shop")


def handle(messages, context):
    log.info("handling %s of %s", messages[0].body.decode(), context.group)
    while messages[0].body == b"hang":
        time.sleep(1)
    return Ack()


class app:
    config = ConsumerConfig(consume_from="first", close_timeout=5)
    shipping = OrderlyConsumer("shipping", handle, config=config).subscribe("orders")


config = ConsumerConfig(consume_from="first", order="key", executor="process")
billing = OrderlyConsumer("billing", handle, config=config).subscribe("orders")
lost = OrderlyConsumer("lost", handle).subscribe("nowhere")
closed = OrderlyConsumer("closed", handle)
closed.close()
"""


@pytest.fixture
def namesrv(orderly_fake):
    orderly_fake.create_topic("orders", queues=2)
    return orderly_fake.namesrv


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with the module `shop`; the test is in it."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    return tmp_path


@pytest.fixture
def start(namesrv, shop):
    started = []

    def start(*arguments, **environment):
        command = ["-m", "orderly.cli", "run", "--namesrv", namesrv, *arguments]
        environment = {"PYTHONPATH": str(ROOT), "ORDERLY_NAMESRV": "", **environment}
        started.append(Program(command, shop, cwd=shop, **environment))
        return started[-1]

    yield start
    for program in started:
        program.kill()


@pytest.fixture
def send(namesrv):
    with patient_producer(namesrv) as producer:
        yield lambda body: producer.send(Message("orders", body, sharding_key="k"))


def tells(program, text):
    """Wait until its stderr has that."""

    def found():
        assert program.process.poll() is None, program.errors
        return re.search(text, program.errors)

    return eventually(found, SOON, every=0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_runs_several_consumers_tells_how_they_are_and_closes_all(start, send, namesrv, number):
    program = start("shop:app.shipping", "shop:billing", "--probe", "127.0.0.1:0")
    url = tells(program, r"serving (http\S+)/health\n")[1]

    def ready():
        try:
            with urllib.request.urlopen(f"{url}/ready", timeout=SOON) as reply:
                return reply.status == 200
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False

    eventually(ready, SOON, every=0.05)
    with idle_connections(int(url.rpartition(":")[2])):
        assert all(ready() for _ in range(40))
    health = json.loads(urllib.request.urlopen(f"{url}/health", timeout=SOON).read())
    assert (health["live"], health["ready"], health["state"]) == (True, True, "running")
    sent = send(b"one")
    tells(program, "info shop handling one of shipping\n")
    with patient_client(namesrv) as client:
        eventually(lambda: client.brokers.query_offset("billing", sent.queue) == 1, SOON)
        assert program.end(number) == 0, program.errors
        for group in ("shipping", "billing"):
            assert client.brokers.lock_queues(group, "broker-a", QUEUES) == set(QUEUES)
    started = re.findall(r" info orderly.consumer event='consumer.started' .*\n", program.errors)
    assert len(started) == 2
    assert "None" not in started[0]
    assert program.errors.count("event='consumer.closed'") == 2


def test_a_handler_that_does_not_return_is_told(start, send):
    program = start("shop:app.shipping")
    send(b"hang")
    tells(program, "handling hang of shipping")
    assert program.end() == 1
    last = program.errors.splitlines()[-1]
    assert re.search(r"^left locked .*orders/broker-a/\d: .*a handler still runs", last), last


def test_a_program_s_own_logging_is_left_as_it_is(start, shop):
    with (shop / "shop.py").open("a") as module:
        module.write('logging.basicConfig(level=logging.INFO, format="mine %(message)s")\n')
    program = start("shop:app.shipping")
    tells(program, r"(?m)^mine event='consumer.started' ")
    assert program.end() == 0
    assert " info orderly" not in program.errors


def test_a_start_that_fails_closes_the_others(start):
    program = start("shop:app.shipping", "shop:lost")
    assert program.process.wait(SOON) == 3
    assert "event='consumer.closed'" in program.errors
    assert re.search("(?m)^error: .*nowhere", program.errors)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("shop", "is not MODULE:NAME"),
        ("shop:", "is not MODULE:NAME"),
        (":app", "is not MODULE:NAME"),
        ("shop:a-b", "is not MODULE:NAME"),
        ("nowhere:consumer", "there is no module nowhere in"),
        ("shop.nowhere:consumer", "there is no module shop.nowhere in"),
        ("shop:nothing", "module shop has no nothing: there is billing, lost, closed"),
        ("shop:config", "shop:config is not an OrderlyConsumer but of type ConsumerConfig"),
        ("shop:closed", "shop:closed is closed, and cannot be started again"),
        ("broken:consumer", "module broken cannot be imported: ModuleNotFoundError"),
        ("ends:consumer", "module ends cannot be imported: SystemExit"),
    ],
)
def test_what_cannot_be_run_is_one_line(name, error, shop, namesrv, monkeypatch, capsys):
    (shop / "broken.py").write_text("import not_installed_anywhere")
    (shop / "ends.py").write_text("raise SystemExit(0)")
    monkeypatch.setenv("ORDERLY_NAMESRV", namesrv)
    assert run(["run", name]) == 3
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert error in told
    assert told.count("\n") == 1
    for module in ("shop", "broken", "ends"):
        sys.modules.pop(module, None)


def test_several_are_well_if_each_is():
    well = Health(live=True, ready=True, state="running")
    waits = Health(live=True, ready=False, state="running", reasons=("no round yet",))
    gone = Health(live=False, ready=False, state="failed", reasons=("the consumer is failed",))
    assert together([("a", well), ("b", well)]) == well
    found = together([("a", well), ("b", waits), ("c", gone)])
    assert (found.live, found.ready, found.state) == (False, False, "running, failed")
    assert found.reasons == ("b: no round yet", "c: the consumer is failed")
