"""`orderly backlog record` and `orderly exporter --record`: a history that outlives them."""

import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from orderly import Ack, Message, OrderlyConsumer, OrderlyProducer
from orderly.cli.root import run
from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.monitoring.recording.reading import find_history
from orderly.monitoring.recording.recorder import Recorder
from tests.support.patient import patient_client
from tests.support.waiting import eventually

SOON = 60
NOBODY = "127.0.0.1:1"


@pytest.fixture
def namesrv(orderly_fake):
    """A cluster in which group shipping has 3 of 5 messages before it."""
    orderly_fake.create_topic("orders", queues=1)
    with OrderlyProducer(namesrv=orderly_fake.namesrv) as producer:
        for n in range(5):
            producer.send(Message("orders", b"x", sharding_key=str(n)))
    member = OrderlyConsumer("shipping", lambda *_: Ack(), namesrv=orderly_fake.namesrv)
    with member.subscribe("orders"):
        pass  # the group is known from now on
    with patient_client(orderly_fake.namesrv) as client:
        client.brokers.update_offset("shipping", MessageQueue("orders", "broker-a", 0), 2)
    return orderly_fake.namesrv


@pytest.fixture
def start(tmp_path):
    started = []

    def command(*args):
        with (tmp_path / "errors").open("w") as errors:
            started.append(
                subprocess.Popen([sys.executable, "-m", "orderly.cli", *args], stderr=errors)
            )
        return started[-1]

    yield command
    for each in started:
        each.kill()
        each.wait()


def commands(directory, namesrv):
    every = ("--interval", "1s", "--namesrv", namesrv)
    return {
        "record": ("backlog", "record", str(directory), *every),
        "exporter": ("exporter", "--listen", "127.0.0.1:0", "--record", str(directory), *every),
    }


def recorded(directory):
    try:
        return find_history(directory).growing.to_pylist()
    except ConfigError:
        return []


@pytest.mark.parametrize("which", ["record", "exporter"])
def test_every_scan_is_kept_until_it_is_told_to_end(tmp_path, namesrv, start, which):
    directory = tmp_path / "history"
    process = start(*commands(directory, namesrv)[which])
    rows = eventually(lambda: (it := recorded(directory))[1:] and it, SOON)
    orders = [row for row in rows if (row["group"], row["topic"]) == ("shipping", "orders")]
    assert [row["backlog"] for row in orders] == [3] * len(orders)
    assert orders[0]["interval"] == 1.0
    process.send_signal(signal.SIGTERM)
    assert process.wait(SOON) == 0
    [file] = find_history(directory).files
    assert pq.read_metadata(file).num_rows >= len(rows)


def test_without_a_cluster_it_goes_on_trying_and_keeps_nothing(tmp_path, start):
    directory = tmp_path / "history"
    process = start(*commands(directory, NOBODY)["record"])
    eventually(lambda: "recording into" in (tmp_path / "errors").read_text(), SOON)
    process.send_signal(signal.SIGTERM)
    assert process.wait(SOON) == 0
    assert recorded(directory) == []


def test_a_directory_in_use_is_not_measured(tmp_path, capsys):
    with Recorder(tmp_path, interval=1):
        assert run(commands(tmp_path, NOBODY)["record"]) == 3
    assert "another process records" in capsys.readouterr().err
