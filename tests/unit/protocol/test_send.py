"""The request for a dead letter: every broker must put it there, and nothing may be missing."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import InvalidMessage, ProtocolError
from orderly.model import MessageQueue, UndecodableMessage
from orderly.protocol import send
from orderly.protocol.compression import Compression, decompress
from orderly.protocol.ext import from_ext
from orderly.protocol.properties import decode_properties
from orderly.protocol.send import (
    BatchMember,
    SendMessage,
    UniqueKey,
    dead_letter_request,
    decode_batch,
    encode_batch,
    parse_unique_key,
    unique_key,
)
from orderly.protocol.stored_message import SysFlag
from tests.support.messages import message

members = st.builds(
    BatchMember,
    st.binary(max_size=50),
    st.text(st.characters(codec="utf-8"), max_size=30),
    st.integers(-(2**31), 2**31 - 1),
)


@given(st.lists(members, max_size=6))
def test_a_batch_survives_the_wire(batch):
    assert decode_batch(encode_batch(batch)) == batch


def test_a_member_has_the_layout_java_reads():
    assert encode_batch([(b"body", "a\x01b\x02", 7)]).hex(" ") == (
        "00 00 00 1e 00 00 00 00 00 00 00 00 00 00 00 07"  # size 22 + 4 + 4, zeroes, flag
        " 00 00 00 04 62 6f 64 79 00 04 61 01 62 02"
    )


@pytest.mark.parametrize("text", ["x" * 32768, "\ud800"])
def test_what_the_layout_cannot_hold_is_refused(text):
    with pytest.raises(ProtocolError):
        encode_batch([(b"b", text, 0)])


@given(st.lists(members, min_size=1, max_size=3), st.data())
def test_a_cut_batch_is_a_protocol_error(batch, data):
    encoded = encode_batch(batch)
    ends = {len(encode_batch(batch[:count])) for count in range(len(batch) + 1)}
    size = data.draw(st.integers(0, len(encoded)).filter(lambda size: size not in ends))
    with pytest.raises(ProtocolError):
        decode_batch(encoded[:size])


@given(st.lists(members, min_size=1, max_size=3), st.data())
def test_a_damaged_batch_gives_members_or_a_protocol_error(batch, data):
    damaged = bytearray(encode_batch(batch))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_batch(bytes(damaged))
    except ProtocolError:
        return


@pytest.mark.parametrize(
    ("size", "body_size", "properties_size"),
    [(22, -1, 0), (21, 0, -1), (0, 0, 0), (-22, 0, 0), (22, 2**31 - 1, 0), (22, -(2**31), 0)],
)
def test_sizes_that_do_not_fit_are_a_protocol_error(size, body_size, properties_size):
    data = struct.pack(">iiiiih", size, 0, 0, 0, body_size, properties_size)
    with pytest.raises(ProtocolError):
        decode_batch(data)


def test_a_batch_of_too_many_members_is_refused(monkeypatch):
    monkeypatch.setattr(send, "MAX_BATCH", 3)
    assert len(decode_batch(encode_batch([(b"", "", 0)] * 3))) == 3
    with pytest.raises(ProtocolError, match="more than 3"):
        decode_batch(encode_batch([(b"", "", 0)] * 4))


@given(
    st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32),
    st.integers(0, 2**16 - 1),
)
def test_a_unique_key_can_be_read_back(ip, pid, process_hash, now, counter):
    text = unique_key(ip, pid, process_hash, now, counter)
    assert len(text) == 2 * (len(ip) + 12)
    parsed = parse_unique_key(text)
    moment = datetime.fromtimestamp(now, UTC)
    assert parsed == UniqueKey(ip, pid, process_hash, parsed.milliseconds, counter)
    days, rest = divmod(parsed.milliseconds, 86_400_000)
    assert (days + 1, rest // 3_600_000) == (moment.day, moment.hour)


def test_a_unique_key_has_the_layout_of_javas():
    now = datetime(2024, 5, 1, 0, 0, 1, 500_000, tzinfo=UTC).timestamp()
    assert unique_key(bytes([127, 0, 0, 1]), 4242, 0x18B4AAC2, now, 7) == (
        "7F000001" + "1092" + "18B4AAC2" + "000005DC" + "0007"
    )


def test_large_numbers_keep_their_low_bits():
    text = unique_key(bytes(4), 2**16 + 1, -1, 0.0, 2**16 + 2)
    assert parse_unique_key(text) == UniqueKey(bytes(4), 1, 2**32 - 1, 0, 2)


@given(st.lists(st.integers(0, 65_535), unique=True, min_size=2, max_size=2))
def test_keys_of_one_millisecond_differ_by_their_counter(counters):
    first, second = (unique_key(bytes(4), 1, 2, 3.0, counter) for counter in counters)
    assert first != second


@pytest.mark.parametrize("text", ["", "xyz", "00" * 15, "00" * 17, "\u0661" * 32])
def test_what_is_no_unique_key_is_a_protocol_error(text):
    with pytest.raises(ProtocolError):
        parse_unique_key(text)


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
    assert not {"TRAN_MSG", "DELAY"} & properties.keys()
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
