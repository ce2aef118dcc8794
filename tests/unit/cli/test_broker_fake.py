"""`orderly broker fake` stays until it is told to end."""

import json
import signal
import subprocess
import sys

import pytest

from orderly.cli.root import run
from tests.support.waiting import patient_client


@pytest.fixture
def start():
    started = []

    def start(*arguments):
        command = [sys.executable, "-m", "orderly.cli", "broker", "fake", *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_its_topics_until_a_signal(start, end):
    process = start("orders:4", "payments:2")
    (namesrv,) = [
        line.partition("ORDERLY_NAMESRV=")[2].strip()
        for line in (process.stdout.readline(), process.stdout.readline())
        if "ORDERLY_NAMESRV=" in line
    ]
    with patient_client(namesrv) as client:
        counts = [len(client.routes.get(t).write_queues()) for t in ("orders", "payments")]
    process.send_signal(end)
    assert (counts, process.wait(60)) == ([4, 2], 0)


def test_as_json_the_first_object_says_where_it_is(start):
    process = start("orders:4", "-o", "json")
    text = ""
    while not text.endswith("}\n}\n") and (line := process.stdout.readline()):
        text += line
    told = json.loads(text)
    assert told["topics"] == {"orders": 4}
    assert told["namesrv"].startswith("127.0.0.1:")


@pytest.mark.parametrize("topic", ["orders", "orders:", "orders:x", "orders:-1"])
def test_a_topic_without_a_number_is_refused(topic, capsys):
    assert run(["broker", "fake", topic]) == 3
    assert "TOPIC:QUEUES" in capsys.readouterr().err
