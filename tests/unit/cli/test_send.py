"""`orderly send`: what becomes a message, and results in the order of sending."""

import io
import json
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from orderly.cli import send as send_module
from orderly.cli.root import run
from orderly.cli.settings import Settings
from orderly.errors import SendFailed
from orderly.model import (
    BrokerData,
    MessageQueue,
    Permission,
    QueueData,
    SendResult,
    TopicRoute,
)


@pytest.fixture
def sent(monkeypatch):
    """Take the place of the producer; returns the messages it was given."""
    messages, pins = [], []

    class Producer:
        def __init__(self, *, client, config):
            pins.append(config.layout)

        def __enter__(self):
            return self

        def __exit__(self, *exc_info):
            pass

        def submit(self, message):
            future = Future()
            queue = MessageQueue(message.topic, "broker-a", 3)
            if message.body == b"refused":
                future.set_exception(SendFailed("not stored: disk full"))
            else:
                future.set_result(SendResult(queue, len(messages), f"ID{len(messages)}", "x"))
            messages.append(message)
            return future

    @contextmanager
    def client(_):
        both = Permission.READ | Permission.WRITE
        broker = BrokerData("broker-a", "c", {0: "127.0.0.1:1"})
        route = TopicRoute("orders", (QueueData("broker-a", 4, 4, both),), (broker,))
        yield SimpleNamespace(routes=SimpleNamespace(get=lambda _: route))

    monkeypatch.setattr("orderly.producer.OrderlyProducer", Producer)
    monkeypatch.setattr(Settings, "client", client)
    yield messages
    assert set(pins) <= {"broker-a:4"}


def bodies(messages):
    return [message.body for message in messages]


def give_stdin(monkeypatch, data):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_a_body_with_key_tag_and_properties(sent, capsys):
    args = ["send", "orders", "hello", "--key", "k", "--tag", "t"]
    assert run([*args, "--property", "a=b=c", "--property", "empty="]) == 0
    (message,) = sent
    assert (message.topic, message.body) == ("orders", b"hello")
    assert (message.sharding_key, message.tags) == ("k", "t")
    assert message.properties == {"a": "b=c", "empty": ""}
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC   BROKER    QUEUE  OFFSET  MESSAGE ID  STATUS",
        "orders  broker-a      3       0  ID0         SEND_OK",
    ]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["orders", ""], "BODY is empty"),
        (["orders"], "BODY is empty"),
        (["orders", "--lines"], "line 2 is empty"),
        (["orders", "x", "--key", ""], "--key is empty"),
    ],
)
def test_what_is_empty_is_named(sent, capsys, monkeypatch, args, said):
    give_stdin(monkeypatch, b"one\n\ntwo\n" if "--lines" in args else b"")
    assert run(["send", *args]) == 3
    assert said in capsys.readouterr().err
    assert b"" not in bodies(sent)


def test_count_repeats_the_message(sent):
    assert run(["send", "orders", "x", "--count", "3"]) == 0
    assert bodies(sent) == [b"x"] * 3


@pytest.mark.parametrize("args", [[], ["-"]])
def test_standard_input_is_one_message(sent, monkeypatch, args):
    give_stdin(monkeypatch, b"two\nlines\n\xff")
    assert run(["send", "orders", *args]) == 0
    assert bodies(sent) == [b"two\nlines\n\xff"]


def test_with_lines_each_line_is_a_message(sent, monkeypatch):
    give_stdin(monkeypatch, b"one\r\ntwo\nthree")
    assert run(["send", "orders", "--lines"]) == 0
    assert bodies(sent) == [b"one", b"two", b"three"]


def test_a_file(sent, tmp_path):
    path = tmp_path / "body"
    path.write_bytes(b"one\ntwo\n")
    assert run(["send", "orders", "--file", str(path)]) == 0
    assert run(["send", "orders", "--file", str(path), "--lines"]) == 0
    assert bodies(sent) == [b"one\ntwo\n", b"one", b"two"]


def test_results_as_json_lines(sent, capsys):
    assert run(["send", "orders", "x", "--count", "2", "-o", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["offset"] for line in lines] == [0, 1]
    assert lines[0]["queue"] == 3


def test_a_message_that_was_not_stored_is_an_error(sent, capsys):
    assert run(["send", "orders", "refused"]) == 3
    assert capsys.readouterr().err == "error: not stored: disk full\n"


def test_results_come_in_the_order_of_sending_and_few_are_awaited(monkeypatch):
    monkeypatch.setattr(send_module, "IN_FLIGHT", 2)
    futures = [Future() for _ in range(4)]
    handed_over = []

    def give():
        for future in futures:
            handed_over.append(future)
            yield future

    results = send_module.in_order(give())
    futures[1].set_result("second")
    futures[0].set_result("first")
    assert [next(results), next(results)] == ["first", "second"]
    assert len(handed_over) <= 2
    futures[2].set_result("third")
    futures[3].set_result("fourth")
    assert list(results) == ["third", "fourth"]
