"""A body that cannot be read fails alone: those before it go on, and no byte of it is lost."""

import base64
import json
import zlib

import pytest
import structlog

from orderly import Ack, Listener
from orderly.errors import UndecodableBody
from orderly.model import UndecodableMessage
from orderly.monitoring.dead_letters import DeadLetters
from orderly.monitoring.parked import ParkedMessages
from orderly.protocol.stored_message import MAX_BODY
from tests.support.consuming import named
from tests.support.messages import GARBAGE, ZLIB, send_raw
from tests.support.waiting import eventually

EARLIER, LATER = list(range(6)), list(range(6, 9))
BAD = {
    "garbage": GARBAGE,
    "cut": zlib.compress(b"x" * 99)[:-1],
    "over 64 MiB": zlib.compress(bytes(MAX_BODY + 1)),
}


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=1)


@pytest.fixture
def send(client, queue):
    """Store six good messages, a bad one, three good ones; each of keys a and b, in turn.

    Returns:
        The offset of the bad one, which is of key b.
    """

    def good(numbers):
        for number in numbers:
            body = zlib.compress(str(number).encode())
            send_raw(client, queue, body, key="ab"[number % 2])

    def send(bad=GARBAGE):
        client.routes.get(queue.topic)
        good(EARLIER)
        offset = send_raw(client, queue, bad, key="b")
        good(LATER)
        return offset

    return send


class Reading:
    """A handler that reads the bodies; remembers them."""

    def __init__(self):
        self.numbers = []

    def __call__(self, messages, context):
        for message in messages:
            self.numbers.append(int(message.body))
        return Ack()

    def one(self, message, attempt):
        return self((message,), attempt)

    def of(self, key):
        return [n for n in dict.fromkeys(self.numbers) if "ab"[n % 2] == key]


@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_by_queue_it_holds_its_queue_and_the_earlier_ones_go_on(
    bad, batch_size, send, queue, group, client, start_member
):
    reading = Reading()
    with structlog.testing.capture_logs() as events:
        consumer, _ = start_member(recorder=reading, suspend=0.05, batch_size=batch_size)
        offset = send(bad)
        raised = eventually(lambda: named(events, "handler.raised")[3:], within=30)
        assert list(dict.fromkeys(reading.numbers)) == EARLIER
        consumer.close()
        assert client.brokers.query_offset(group, queue) == offset
    (told,) = named(events, "message.undecodable")
    assert (told["offset"], told["key"]) == (offset, "b")
    assert f"offset {offset} of {queue}" in raised[0]["error"]
    assert not named(events, "pull.failed")
    if batch_size == 1:
        assert reading.numbers == EARLIER, "they are not handled again and again"


def test_by_key_it_holds_its_key_only(send, start_member):
    reading = Reading()
    start_member(recorder=reading, order="key", suspend=0.05)
    send()
    eventually(lambda: reading.of("a") == [0, 2, 4, 6, 8], within=30)
    assert reading.of("b") == [1, 3, 5]


def test_a_handler_that_needs_no_body_does_not_notice(send, start_member):
    seen = []

    def count(messages, context):
        seen.extend(m.queue_offset for m in messages)
        return Ack()

    start_member(recorder=count)
    last = send() + len(LATER)
    eventually(lambda: seen == list(range(last + 1)), within=30)


def test_after_enough_tries_it_is_a_dead_letter_as_it_was_stored(send, client, group, start_member):
    reading = Reading()
    start_member(recorder=reading, suspend=0.05, max_reconsume_times=2)
    send()
    eventually(lambda: list(dict.fromkeys(reading.numbers)) == EARLIER + LATER, within=30)
    is_a_dead_letter_as_stored(client, group)


def is_a_dead_letter_as_stored(client, group):
    (letter,) = eventually(lambda: DeadLetters(client, group).list(), within=30)
    assert isinstance(letter.message, UndecodableMessage)
    assert (letter.message.raw_body, letter.message.sys_flag & 0x701) == (GARBAGE, ZLIB)
    assert letter.message.sharding_key == "b"
    dead = DeadLetters(client, group)
    (again,) = dead.replay(dead.plan([letter]))
    assert isinstance(again.error, UndecodableBody), "garbage is sent to nobody"


@pytest.mark.parametrize("decode", [None, "json"], ids=["the message", "decoded"])
def test_a_listener_gives_it_up_at_once_as_its_policy_says(
    decode, send, client, group, start_member
):
    reading = Reading()

    def value(number, attempt):
        reading.numbers.append(number)
        return Ack()

    function = reading.one if decode is None else value
    listener = Listener(function, decode=decode, on_poison="dead_letter")
    with structlog.testing.capture_logs() as events:
        start_member(recorder=listener, order="key", patient=True)
        offset = send()
        eventually(lambda: reading.of("a") == [0, 2, 4, 6, 8], within=30)
        eventually(lambda: reading.of("b") == [1, 3, 5, 7], within=30)
    (poison,) = named(events, "message.poison")
    assert (poison["offset"], poison["because"]) == (offset, "FATAL")
    assert "not a zlib stream" in poison["reason"]
    is_a_dead_letter_as_stored(client, group)


def test_skip_says_which_bytes_were_given_up(send, start_member):
    reading = Reading()
    with structlog.testing.capture_logs() as events:
        start_member(recorder=Listener(reading.one, on_poison="skip"))
        offset = send()
        eventually(lambda: reading.numbers == EARLIER + LATER, within=30)
    (skipped,) = named(events, "message.skipped")
    assert (skipped["offset"], skipped["body_bytes"]) == (offset, len(GARBAGE))


def test_parked_it_is_shown_exported_and_dropped(
    send, client, group, topic, queue, parks, start_member, tmp_path
):
    reading = Reading()
    start_member(
        recorder=Listener(reading.one, on_poison="park_key"), order="key", commit_interval=0.1
    )
    offset = send()
    eventually(lambda: reading.of("a") == [0, 2, 4, 6, 8], within=30)
    eventually(lambda: client.brokers.query_offset(group, queue) == offset + 4, within=30)
    assert reading.of("b") == [1, 3, 5]
    parked = ParkedMessages(client, group, topic)
    shown = eventually(lambda: list(parked.show("b")), within=30)
    bad, behind = shown
    assert isinstance(bad.original, UndecodableMessage)
    assert (bad.original.queue_offset, bad.original.raw_body) == (offset, GARBAGE)
    assert bad.original.sys_flag & 0x701 == ZLIB
    assert int(behind.original.body) == 7
    file = tmp_path / "parked.jsonl"
    assert parked.export(file).messages == 2
    line = json.loads(file.read_text().splitlines()[0])
    assert base64.b64decode(line["body_base64"]) == GARBAGE
    assert "not a zlib stream" in line["undecodable"]
    assert line["sys_flag"] & 0x701 == ZLIB
    (released,) = parked.release("b")
    assert (released.settled, released.failed_at) == (0, offset)
    (dropped,) = parked.drop("b")
    assert dropped.settled == 2
