"""`orderly tail`: one safe line a message, filters, limits, and how it ends."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from orderly.cli.root import run
from orderly.cli.settings import Settings
from orderly.cli.tail import as_json, as_line
from orderly.model import UndecodableMessage
from tests.support.messages import message

MESSAGE = replace(message(5, "order-1"), store_time=1_700_000_000.5, body=b"created")


@pytest.fixture
def topic(monkeypatch):
    """The messages that the reader finds; an exception among them is raised."""
    found = []

    class Reader:
        def __init__(self, client, topic, start):
            pass

        def messages(self, *, follow):
            for item in found:
                if isinstance(item, BaseException):
                    raise item
                yield item

    @contextmanager
    def client(_):
        yield None

    monkeypatch.setattr("orderly.cli.reader.TopicReader", Reader)
    monkeypatch.setattr(Settings, "client", client)
    return found


def test_a_line():
    assert as_line(MESSAGE) == "2023-11-14T22:13:20.500Z  broker-a/0  5  order-1  -  created"


def test_a_message_cannot_forge_a_line_or_repaint_the_screen():
    evil = replace(
        MESSAGE,
        body=b"\x1b[2Jx\ny\xff",
        properties={"__SHARDINGKEY": "k\x1b]0;t\x07\n", "TAGS": "\x9b31mt"},
    )
    line = as_line(evil)
    assert line == "2023-11-14T22:13:20.500Z  broker-a/0  5  k\\n  t  x\\ny\ufffd"


def test_json_keeps_everything():
    shown = json.loads(as_json(replace(MESSAGE, body=b"\x1b\n")))
    assert shown["body"] == "\x1b\n"
    assert (shown["key"], shown["offset"], shown["tags"]) == ("order-1", 5, None)
    assert json.loads(as_json(replace(MESSAGE, body=b"\xff")))["body_base64"] == "/w=="


def test_a_body_that_cannot_be_read_is_shown_with_the_reason():
    unreadable = UndecodableMessage(MESSAGE, "it is garbage")
    shown = json.loads(as_json(unreadable))
    assert (shown["body_base64"], shown["undecodable"]) == ("Y3JlYXRlZA==", "it is garbage")
    assert "body" not in shown
    assert shown["key"] == "order-1"
    assert as_line(unreadable).endswith("(cannot be read: it is garbage)")


def test_only_one_key(topic, capsys):
    by_index_key = replace(MESSAGE, queue_offset=9, properties={"KEYS": "a order-1"})
    topic += [MESSAGE, message(6, "order-2"), by_index_key]
    assert run(["tail", "orders", "--key", "order-1"]) == 0
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == ["5", "9"]


def test_the_limit_counts_what_is_printed(topic, capsys):
    topic += [message(1, "x"), MESSAGE, MESSAGE, RuntimeError("read too far")]
    assert run(["tail", "orders", "--key", "order-1", "--limit", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_ctrl_c_ends_following_well_and_reading_not(topic, capsys):
    topic += [MESSAGE, KeyboardInterrupt()]
    assert run(["tail", "orders", "--follow"]) == 0
    assert run(["tail", "orders"]) == 3
    assert "interrupted" in capsys.readouterr().err
