"""`orderly tail`: one safe row a message, filters, limits, and how it ends."""

from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from orderly.model import UndecodableMessage
from tests.support.messages import message
from tests.unit.cli.golden.transcript import Table, client_is

MESSAGE = replace(message(5, "order-1"), store_time=1_700_000_000.5, body=b"created")
EVIL = {"__SHARDINGKEY": "k\x1b]0;t\x07\n", "TAGS": "\x9b31mt"}
INDEXED = replace(MESSAGE, queue_offset=9, properties={"KEYS": "a order-1"})
OWN = {"KEYS": "a b", "TAGS": "paid", "UNIQ_KEY": "X", "region": "eu", "evil": "\x1b[2J"}
OTHER = message(6, "order-2")


@contextmanager
def world(found=(MESSAGE,)):
    """The messages that the reader finds; an exception among them is raised."""

    def messages(*, follow):
        for item in found:
            if isinstance(item, BaseException):
                raise item
            yield item

    reader = mock.Mock(messages=messages)
    with client_is(None), mock.patch("orderly.cli.reader.TopicReader", return_value=reader):
        yield []


TABLE = Table(__file__, world, {
    "evil": {"found": (replace(MESSAGE, body=b"\x1b[2Jx\ny\xff", properties=EVIL),)},
    "with properties": {"found": (replace(INDEXED, properties=OWN),)},
    "no text": {"found": (replace(MESSAGE, body=b"\xff"),)},
    "an escape": {"found": (replace(MESSAGE, body=b"\x1b\n"),)},
    "unreadable": {"found": (UndecodableMessage(MESSAGE, "it is garbage"),)},
    "two of three by their key": {"found": (MESSAGE, OTHER, INDEXED)},
    "a trap after two": {"found": (OTHER, MESSAGE, MESSAGE, RuntimeError("read too far"))},
    "Ctrl-C after one": {"found": (MESSAGE, KeyboardInterrupt())},
})  # fmt: skip
