"""The request for a dead letter: every broker must put it there, and nothing may be missing."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import InvalidMessage
from orderly.model import MessageQueue, UndecodableMessage
from orderly.protocol.compression import Compression, decompress
from orderly.protocol.dead_letter import dead_letter_request
from orderly.protocol.headers import SendMessage, from_ext
from orderly.protocol.properties import decode_properties
from orderly.protocol.stored_message import SysFlag
from tests.support.messages import message

COMPRESSED = SysFlag.COMPRESSED | Compression.ZLIB << 8


def sent(given_message, now=1_700_000_000.5):
    """The header, properties and body of the request for this message."""
    command = dead_letter_request("shipping", given_message, "broker-a", now)
    header = from_ext(SendMessage, command.ext)
    return header, decode_properties(header.properties.encode()), command.body


@given(st.integers(0, 2**31 - 2))
def test_every_broker_takes_it_for_over_the_limit(count):
    header, properties, _ = sent(replace(message(0), reconsume_times=count))
    assert header.reconsume_times > header.max_reconsume_times  # 5.x
    assert header.reconsume_times >= header.max_reconsume_times  # 4.x, and 5.0 to 5.1.0
    assert header.reconsume_times == count + 1 == int(properties["RECONSUME_TIME"])


def test_it_goes_to_the_retry_topic_as_from_java():
    header, properties, _ = sent(replace(message(7), flag=5))
    assert (header.topic, header.queue_id, header.broker_name) == ("%RETRY%shipping", 0, "broker-a")
    assert (header.producer_group, header.flag) == ("CLIENT_INNER_PRODUCER", 5)
    assert header.born_timestamp == 1_700_000_000_500
    assert properties["RETRY_TOPIC"] == "orders"
    assert properties["ORIGIN_MESSAGE_ID"] == "id-7"


def test_what_it_was_sent_with_is_kept():
    given_properties = {"KEYS": "k1 k2", "TAGS": "red", "UNIQ_KEY": "id", "amount": "12,50 €"}
    given_message = replace(message(0), properties=given_properties)
    assert given_properties.items() <= sent(given_message)[1].items()


def test_what_was_retried_before_still_tells_where_it_came_from_first():
    before = {"RETRY_TOPIC": "first", "ORIGIN_MESSAGE_ID": "the-first-id"}
    retried = replace(message(0), queue=MessageQueue("%RETRY%shipping", "broker-a", 0))
    assert before.items() <= sent(replace(retried, properties=before))[1].items()


def test_a_sender_cannot_say_where_its_message_came_from():
    told = {"RETRY_TOPIC": "payments"}
    assert sent(replace(message(0), properties=told))[1]["RETRY_TOPIC"] == "orders"


def test_what_counted_or_delayed_another_message_is_not_copied():
    stale = {"TRAN_MSG": "true", "RECONSUME_TIME": "9", "MAX_RECONSUME_TIMES": "9", "DELAY": "9"}
    properties = sent(replace(message(0), properties=stale))[1]
    assert "TRAN_MSG" not in properties
    assert "9" not in properties.values()


@pytest.mark.parametrize(
    ("body", "sys_flag"),
    [
        (b"x" * 4096, 0),
        (b"x" * 4097, COMPRESSED),
        (random.Random(7).randbytes(5000), 0),  # compressing would make it longer
    ],
    ids=["small", "large", "incompressible"],
)
def test_a_large_body_travels_compressed_if_that_makes_it_smaller(body, sys_flag):
    header, _, travelling = sent(replace(message(0), body=body))
    assert header.sys_flag == sys_flag
    assert len(travelling) <= len(body)
    arrived = decompress(Compression.ZLIB, travelling, len(body)) if sys_flag else travelling
    assert arrived == body


def test_properties_that_leave_no_room_are_an_error_and_not_cut():
    with pytest.raises(InvalidMessage, match="32767"):
        sent(replace(message(0), properties={"p": "x" * 32760}))


def test_a_body_that_cannot_be_read_goes_as_it_is_stored():
    bad = replace(message(0), body=b"garbage", sys_flag=0x301)
    header, properties, body = sent(UndecodableMessage(bad, "why"))
    assert (body, header.sys_flag, properties["ORDERLY_UNREAD"]) == (b"garbage", 0x301, "769")


def test_a_batch_that_cannot_be_read_goes_as_a_plain_message():
    """A topic of dead letters takes no batches; the property says what it was."""
    bad = replace(message(0), body=b"garbage", sys_flag=0xC0)
    header, properties, body = sent(UndecodableMessage(bad, "why"))
    assert (body, header.sys_flag, properties["ORDERLY_UNREAD"]) == (b"garbage", 0, "192")
    assert "ORDERLY_UNREAD" not in sent(message(0))[1]
