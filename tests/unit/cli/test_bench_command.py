"""`orderly bench` on the fake broker: what it tells, what it refuses, and that nothing is left."""

import json
import os
import signal
import threading

import pytest

from orderly import Message, OrderlyProducer
from orderly.bench import consuming
from orderly.bench.scratch import PREFIX
from orderly.cli.root import run
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.testing import Fail, Fault
from tests.support.patient import patient_client
from tests.support.waiting import eventually


@pytest.fixture
def bench(orderly_fake, capsys):
    """Run one command line; returns (exit code, stdout, stderr)."""

    def call(*args):
        code = run(["bench", *args, "--namesrv", orderly_fake.namesrv])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def client(orderly_fake):
    with patient_client(orderly_fake.namesrv) as client:
        yield client


def left(client):
    """What there is of measurements."""
    names = (*client.admin.topics(), *client.admin.groups())
    return [name for name in names if PREFIX in name]


def measured(answer):
    code, out, err = answer
    assert code == 0, err
    return json.loads(out)


def test_there_and_back(bench, client):
    found = measured(bench("-n", "2000", "--keys", "20", "-o", "json"))
    assert (found["schema"], found["together"], found["left_behind"]) == (
        "orderly.bench/v1",
        None,
        [],
    )
    sent, consumed = found["send"]["sent"], found["consume"]["consumed"]
    assert (sent["messages"], sent["bytes"], sent["failed_messages"]) == (2000, 512_000, {})
    assert sent["latency_ms"]["p50"] <= sent["latency_ms"]["p99"] <= sent["latency_ms"]["max"]
    assert sent["messages_per_request"] > 1
    # A machine that stands still for seconds has batches sent again: repeats, never anything else.
    assert (consumed["messages"] - consumed["repeats"], consumed["keys"]) == (2000, 20)
    assert (consumed["inversions"], consumed["lost"]) == (0, 0)
    assert consumed["commits"] > 0
    for name in "send", "consume":
        assert sum(found[name]["where_time_goes"].values()) == pytest.approx(1)
        assert found[name]["verdict"]["next"]
    assert left(client) == []


def test_what_a_reader_sees(bench, client):
    code, out, err = bench("send", "-n", "500", "--mode", "sync", "--threads", "2")
    assert code == 0
    assert "sends 500 messages of 256 bytes (0.1 MB), 1000 keys, by send from 2 threads" in err
    assert f"makes topic {PREFIX}" in err
    lines = out.splitlines()
    assert lines[0].split() == ["FIGURE", "SEND"]
    assert lines[1].split() == ["messages", "500"]
    assert any(line.startswith("WHERE TIME GOES") for line in lines)
    assert lines[-1].startswith("send: bound by ")
    assert ". Try: " in lines[-1]
    assert left(client) == []


@pytest.mark.parametrize("more", [[], ["--async", "--concurrency", "50"]])
def test_by_key_with_a_handler_that_waits(bench, client, more):
    args = ("consume", "-n", "300", "--order", "key", "--handler-ms", "1", *more)
    found = measured(bench(*args, "-o", "json"))
    assert found["send"] is None
    assert found["consume"]["consumed"]["messages"] == 300
    assert left(client) == [], "state and park topics are taken away, too"


def test_at_a_rate_both_run_at_once(bench, client):
    found = measured(bench("--rate", "400", "--duration", "1s", "-o", "json"))
    together = found["together"]
    assert (found["send"], found["consume"]) == (None, None)
    assert together["sent"]["messages"] == together["consumed"]["messages"] > 0
    assert together["consumed"]["end_to_end_ms"]["p50"] > 0
    assert left(client) == []


def test_keep_leaves_what_was_made(bench, client):
    code, _, err = bench("-n", "50", "--keep")
    assert code == 0
    topic, group = (name for name in left(client) if not name.startswith("%"))
    assert f"kept: topic {topic}, group {group}" in err


# --- topics of the user --------------------------------------------------------------------------


@pytest.fixture
def orders(orderly_fake, client, monkeypatch):
    monkeypatch.setattr(consuming, "_LET_GO", 0.0)  # the fake broker forgets who has gone
    orderly_fake.create_topic("orders", queues=2)
    with OrderlyProducer(client=client) as producer:
        for number in range(20):
            producer.send(Message("orders", b"theirs", sharding_key=f"key-{number % 3}"))
    return "orders"


def end_of(client, topic):
    return sum(offset.max_offset for offset in client.admin.topic_stats(topic).values())


def test_a_topic_of_the_user_is_only_read(bench, client, orders):
    found = measured(bench("consume", "--topic", orders, "-o", "json"))
    consumed = found["consume"]["consumed"]
    assert (consumed["messages"], consumed["keys"], consumed["inversions"]) == (20, 3, 0)
    assert (end_of(client, orders), left(client)) == (20, [])


@pytest.mark.parametrize("command", ["run", "send"])
def test_nothing_is_sent_into_it_unless_that_is_said(bench, client, orders, command):
    code, out, err = bench(command, "--topic", orders, "-n", "10")
    assert (code, out) == (3, "")
    assert "--send-into-it" in err
    assert end_of(client, orders) == 20
    code, _, _ = bench(command, "--topic", orders, "-n", "10", "--send-into-it")
    assert (code, end_of(client, orders), left(client)) == (0, 30, [])


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["-n", "9000000"], "9000000 messages"),
        (["--queues", "500"], "500 queues on each broker"),
        (["--count", "5", "--duration", "5s"], "--count or --duration"),
        (["consume", "--rate", "5"], "a backlog has none"),
        (["--size", "3"], "24 to 4194304 bytes"),
        (["--threads", "9", "--keys", "3"], "more threads than keys"),
        (["consume", "--topic", "nosuch"], "nosuch"),
        (["--topic", "bad name", "--send-into-it"], "bad name"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_made(bench, client, args, text):
    code, out, err = bench(*args)
    assert (code, out) == (3, "")
    last = err.splitlines()[-1]
    assert last.startswith("error: ")
    assert text in last
    assert "Traceback" not in err
    assert left(client) == []


def test_an_empty_topic_has_nothing_to_measure(bench, orderly_fake):
    orderly_fake.create_topic("empty", queues=1)
    code, _, err = bench("consume", "--topic", "empty")
    assert (code, "has no messages to consume" in err) == (3, True)


def test_messages_that_fail_are_told(bench, orderly_fake, client):
    refused = Fail(ResponseCode.NO_PERMISSION, "not you")
    orderly_fake.script(Fault(RequestCode.SEND_MESSAGE_V2, refused, times=None))
    code, out, err = bench("send", "-n", "5000", "--mode", "sync", "-o", "json")
    assert code == 1, err
    sent = json.loads(out)["send"]
    assert sent["verdict"]["bound"] == "nothing was done"
    assert sum(sent["sent"]["failed_messages"].values()) < 5000, "it gave up before the end"
    assert left(client) == []


def test_interrupted_it_tells_the_figures_and_takes_all_away(bench, client):
    def interrupt():
        eventually(lambda: left(client))
        eventually(lambda: sum(end_of(client, name) for name in left(client)[:1]) > 50)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code, out, _ = bench("send", "--mode", "sync", "-n", "1000000", "-o", "json")
    thread.join()
    assert code == 3
    sent = json.loads(out)["send"]
    assert sent["ended"] == "interrupted"
    assert 0 < sent["sent"]["messages"] < 1_000_000
    assert left(client) == []


def test_what_cannot_be_taken_away_is_named(bench, orderly_fake):
    refused = Fail(ResponseCode.NO_PERMISSION, "not you")
    orderly_fake.script(Fault(RequestCode.DELETE_TOPIC_IN_BROKER, refused, times=None))
    code, _, err = bench("send", "-n", "10")
    assert code == 0
    assert f"left behind: topic {PREFIX}" in err
    assert "orderly bench clean" in err


def test_what_was_left_is_taken_away_later(bench, client, orderly_fake):
    orderly_fake.create_topic("orderly-bench-marks", queues=1)
    assert bench("-n", "20", "--keep", "--order", "key")[0] == 0
    code, out, err = bench("clean")
    assert (code, "give --yes" in err) == (3, True)
    assert len(out.splitlines()) > 3
    assert bench("clean", "--yes")[0] == 0
    assert left(client) == ["orderly-bench-marks"], "a name of ours is one with a number"
    assert bench("clean") == (0, "", "measurements have left nothing\n")


def test_a_namespace_has_its_own(bench, client):
    for namespace in "shop", "bank":
        assert bench("-n", "20", "--keep", "--order", "key", "--namespace", namespace)[0] == 0
    assert bench("clean", "--yes", "--namespace", "shop")[0] == 0
    assert left(client)
    assert all("bank%" in name for name in left(client))


def test_nobody_there(capsys):
    assert run(["bench", "--namesrv", "127.0.0.1:1"]) == 3
    assert "no name server answered" in capsys.readouterr().err
