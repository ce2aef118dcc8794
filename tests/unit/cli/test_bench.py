"""`orderly bench` on the fake broker: what it shows, what it refuses, and that nothing is left."""

import json
import os
import signal
import threading

import pytest

from orderly import Message, OrderlyProducer
from orderly.bench import OrderCheck
from orderly.cli.root import run
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.testing import Fail, Fault
from tests.support.waiting import eventually, patient_client


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
    return [name for name in names if "orderly-bench" in name]


def measured(answer):
    code, out, err = answer
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize(
    "how",
    [
        [],
        ["--sync"],
        ["--order", "key", "--handler-ms", "1", "--async", "--concurrency", "50"],
        ["--namespace", "shop"],
    ],
)
def test_there_and_back(bench, client, how):
    found = measured(bench("-n", "600", "--keys", "20", "-o", "json", *how))
    sent, consumed = found["send"], found["consume"]
    assert (sent["messages"], sent["failed_messages"]) == (600, {})
    assert sent["latency_ms_p50"] <= sent["latency_ms_p99"]
    assert consumed["latency_ms_p50"] is None, "a backlog's age says nothing"
    # A machine that stalls for seconds has batches sent again: repeats, never anything else.
    assert consumed["messages"] - consumed["repeats"] == 600
    assert (consumed["out_of_order"], consumed["missing"]) == (0, 0)
    assert sent["megabytes_per_second"] == pytest.approx(sent["messages_per_second"] * 256 / 1e6)
    assert found["left_behind"] == left(client) == []


def test_at_a_rate_both_run_at_once(bench, client):
    found = measured(bench("--rate", "400", "-n", "200", "-o", "json"))
    assert found["send"]["seconds"] > 199 / 400
    assert found["consume"]["latency_ms_p50"] > 0
    assert left(client) == []


def test_what_a_reader_sees(bench):
    code, out, err = bench("-n", "300")
    assert (code, "sends 300 messages of 256 bytes (0.1 MB)" in err) == (0, True)
    lines = out.splitlines()
    assert lines[0].split() == ["FIGURE", "SEND", "CONSUME"]
    assert lines[1].split()[:2] == ["messages", "300"]
    assert int(lines[1].split()[2]) >= 300, "on a machine that stalls there are repeats"
    assert lines[2].split() == ["failed", "messages", "none", "none"]
    assert any(line.startswith("messages/second") for line in lines)


@pytest.mark.parametrize(("compiled", "said"), [(True, "yes"), (False, "no")])
def test_it_says_whether_it_is_compiled(bench, monkeypatch, compiled, said):
    monkeypatch.setattr("orderly.cli.bench.COMPILED", compiled)
    code, out, err = bench("--send-only", "-n", "5", "-o", "json")
    assert (code, f"compiled: {said}" in err.splitlines()) == (0, True)
    assert json.loads(out)["compiled"] is compiled


def test_only_to_send(bench, client):
    found = measured(bench("--send-only", "-n", "50", "-o", "json"))
    assert (found["send"]["messages"], found["consume"], left(client)) == (50, None, [])


def test_messages_that_fail_are_a_verdict(bench, orderly_fake, client):
    refused = Fail(ResponseCode.NO_PERMISSION, "not you")
    orderly_fake.script(Fault(RequestCode.SEND_MESSAGE_V2, refused, times=150))
    code, out, err = bench("--sync", "-n", "5000", "--send-only", "-o", "json")
    assert code == 1, err
    sent = json.loads(out)["send"]
    assert (sent["messages"], set(sent["failed_messages"])) == (0, {"SendFailed"})
    assert sent["failed_messages"]["SendFailed"] < 5000, "it gave up before the end"
    assert left(client) == []


def test_messages_that_overtake_others_are_a_verdict_and_not_waited_for(bench, monkeypatch):
    send, swapped = OrderlyProducer.send, {b"1": b"2", b"2": b"1"}

    def swapping(producer, message, **given):
        number, space, rest = message.body.partition(b" ")
        body = swapped.get(number, number) + space + rest
        overtaken = Message(message.topic, body, sharding_key=message.sharding_key)
        return send(producer, overtaken, **given)

    monkeypatch.setattr(OrderlyProducer, "send", swapping)
    code, out, err = bench("-n", "50", "--keys", "1", "--sync", "-o", "json")
    consumed = json.loads(out)["consume"]
    assert (consumed["out_of_order"], consumed["missing"]) == (1, 0)
    assert code == 1, err


def test_interrupted_it_tells_the_figures_and_takes_all_away(bench, client):
    def interrupt():
        eventually(lambda: left(client), within=30)
        eventually(
            lambda: sum(o.max_offset for o in client.admin.topic_stats(left(client)[0]).values()),
            within=30,
        )
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code, out, _ = bench("--sync", "-n", "1000000", "-o", "json")
    thread.join()
    assert code == 3
    assert 0 < json.loads(out)["send"]["messages"] < 1_000_000
    assert left(client) == []


def test_what_cannot_be_taken_away_is_named(bench, orderly_fake):
    refused = Fail(ResponseCode.NO_PERMISSION, "not you")
    orderly_fake.script(Fault(RequestCode.DELETE_TOPIC_IN_BROKER, refused, times=None))
    code, _, err = bench("-n", "10", "--send-only")
    assert (code, "left behind: topic and group orderly-bench-" in err) == (0, True)


@pytest.mark.parametrize("args", [["-n", "0"], ["--size", "3"], ["--queues", "500"]])
def test_mistakes_are_one_line_and_nothing_is_made(bench, client, args):
    code, out, err = bench(*args)
    assert (code, out, err.splitlines()[-1].startswith("error: ")) == (3, "", True)
    assert left(client) == []


def test_nobody_there(capsys):
    assert run(["bench", "--namesrv", "127.0.0.1:1"]) == 3
    assert "no name server answered" in capsys.readouterr().err


def test_the_check_sees_a_swap_and_a_repeat():
    check = OrderCheck()
    for number in (0, 2, 1, 2, 3):
        check.came("a", number)
    check.came("b", 0)
    assert (check.inversions, check.repeats, check.reached) == (1, 2, 5)
