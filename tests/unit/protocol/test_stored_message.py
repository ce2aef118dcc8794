import re
import struct
import sys
from dataclasses import replace
from zlib import crc32

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import InvalidMessage, ProtocolError, UndecodableBody
from orderly.model import MessageQueue, ReceivedMessage, UndecodableMessage
from orderly.protocol import stored_message
from orderly.protocol.compression import Compression, compress_zlib
from orderly.protocol.hosts import host_from_text, host_to_text
from orderly.protocol.outgoing import encode_batch
from orderly.protocol.stored_message import (
    MAGIC_V1,
    MAGIC_V2,
    SysFlag,
    decode_messages,
    decode_pull,
    encode_stored_message,
)

part = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=10)
int32 = st.integers(-(2**31), 2**31 - 1)
offsets = st.integers(0, 2**63 - 1)
times = st.integers(0, 2**45).map(lambda milliseconds: milliseconds / 1000)
hosts = (st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)).map(host_to_text)
magics = st.sampled_from([MAGIC_V1, MAGIC_V2])
COMPRESSORS = {
    Compression.OLD_ZLIB: compress_zlib,
    Compression.LZ4: lz4.frame.compress,
    Compression.ZSTD: zstandard.ZstdCompressor().compress,
    Compression.ZLIB: compress_zlib,
}


def received(**fields):
    """A message as `decode_messages` returns it: what follows from other fields is filled in."""
    defaults = {
        "queue": MessageQueue("orders", "broker-a", 3),
        "queue_offset": 17,
        "body": b"body",
        "properties": {"UNIQ_KEY": "id-1", "__SHARDINGKEY": "order-1"},
        "born_time": 1_700_000_000.123,
        "store_time": 1_700_000_001.456,
        "born_host": "10.0.0.1:50000",
        "store_host": "10.0.0.2:10911",
        "reconsume_times": 0,
        "flag": 0,
        "sys_flag": 0,
        "physical_offset": 4096,
        "message_id": "",
        "offset_message_id": "",
        "stored_size": 0,
    }
    message = ReceivedMessage(**(defaults | fields))
    store_host = host_from_text(message.store_host)
    offset_id = (store_host + message.physical_offset.to_bytes(8)).hex().upper()
    return replace(
        message,
        sys_flag=message.sys_flag
        | (SysFlag.BORN_HOST_V6 if "[" in message.born_host else 0)
        | (SysFlag.STORE_HOST_V6 if "[" in message.store_host else 0),
        offset_message_id=offset_id,
        message_id=message.properties.get("UNIQ_KEY", offset_id),
        stored_size=len(encode_stored_message(message)),
    )


messages = st.builds(
    received,
    queue=st.builds(MessageQueue, part, st.just("broker-a"), int32),
    queue_offset=offsets,
    body=st.binary(max_size=60),
    properties=st.dictionaries(part | st.sampled_from(["UNIQ_KEY", "TAGS"]), part, max_size=5),
    born_time=times,
    store_time=times,
    born_host=hosts,
    store_host=hosts,
    reconsume_times=int32,
    flag=int32,
    sys_flag=st.sampled_from([0, 2, 4, 8, 12, 0x300, 64, 128]),
    physical_offset=offsets,
)


@given(st.lists(messages, max_size=4))
def test_messages_survive_the_wire(sent):
    data = b"".join(map(encode_stored_message, sent))
    assert decode_messages(data, "broker-a") == sent
    assert decode_messages(memoryview(data), "broker-a") == sent


@given(messages, magics)
def test_both_versions_of_the_layout_are_read(message, magic):
    (decoded,) = decode_messages(encode_stored_message(message, magic=magic), "broker-a")
    grown = message.stored_size + (magic == MAGIC_V2)
    assert decoded == replace(message, stored_size=grown)


@given(st.binary(max_size=300), st.sampled_from(Compression), magics)
def test_a_compressed_body_is_given_decompressed(body, kind, magic):
    flags = SysFlag.COMPRESSED | kind << 8
    stored = received(body=COMPRESSORS[kind](body), sys_flag=flags)
    (decoded,) = decode_messages(encode_stored_message(stored, magic=magic), "broker-a")
    assert decoded.body == body
    assert decoded.sys_flag == kind << 8  # no longer marked as compressed


def test_the_layout_is_javas():
    data = (
        struct.pack(">iIiiiqq", 105, 0xDAA320A7, crc32(b"hello") & 0x7FFFFFFF, 2, 0, 5, 1234)
        + struct.pack(">iq", 0, 1_700_000_000_500)
        + bytes([127, 0, 0, 1]) + struct.pack(">i", 40000)
        + struct.pack(">q", 1_700_000_001_000)
        + bytes([127, 0, 0, 2]) + struct.pack(">i", 10911)
        + struct.pack(">iq", 1, 0)
        + struct.pack(">i", 5) + b"hello"
        + b"\x01t"
        + struct.pack(">h", 7) + b"TAGS\x01a\x02"
    )  # fmt: skip
    data = struct.pack(">i", len(data)) + data[4:]
    assert decode_messages(data, "b") == [
        ReceivedMessage(
            queue=MessageQueue("t", "b", 2),
            queue_offset=5,
            body=b"hello",
            properties={"TAGS": "a"},
            message_id="7F00000200002A9F00000000000004D2",
            offset_message_id="7F00000200002A9F00000000000004D2",
            born_time=1_700_000_000.5,
            store_time=1_700_000_001.0,
            born_host="127.0.0.1:40000",
            store_host="127.0.0.2:10911",
            reconsume_times=1,
            flag=0,
            sys_flag=0,
            physical_offset=1234,
            stored_size=len(data),
        )
    ]


def test_with_two_ipv4_hosts_the_size_of_the_body_stands_at_byte_84():
    data = encode_stored_message(received(body=b"xyz"))
    assert data[84:91] == b"\x00\x00\x00\x03xyz"


def test_a_batch_stored_as_one_message_becomes_its_members():
    body = encode_batch([(b"one", "UNIQ_KEY\x01a\x02", 1), (b"two", "TAGS\x01t\x02", 0)])
    flags = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
    batch = received(body=body, sys_flag=flags, queue_offset=100)
    first, second = decode_messages(encode_stored_message(batch), "broker-a")
    assert (first.queue_offset, first.body, first.message_id, first.flag) == (100, b"one", "a", 1)
    assert (second.queue_offset, second.body, second.tags) == (101, b"two", "t")
    assert second.message_id == batch.offset_message_id
    assert first.sys_flag == second.sys_flag == 0


def test_a_retried_message_shows_its_original_topic():
    message = received(
        queue=MessageQueue("%RETRY%g", "broker-a", 0), properties={"RETRY_TOPIC": "orders"}
    )
    (decoded,) = decode_messages(encode_stored_message(message), "broker-a")
    assert (decoded.topic, decoded.queue.topic) == ("orders", "%RETRY%g")


def test_of_any_other_message_the_sender_cannot_choose_its_topic():
    message = received(properties={"RETRY_TOPIC": "payments"})
    (decoded,) = decode_messages(encode_stored_message(message), "broker-a")
    assert decoded.topic == decoded.queue.topic


def test_no_bytes_are_no_messages():
    assert decode_messages(b"", "b") == []


def damaged(at, new, message=None):
    data = bytearray(encode_stored_message(message or received()))
    data[at : at + len(new)] = new
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(damaged(4, struct.pack(">I", 0xCBD43194)), id="end-of-file filler"),
        pytest.param(damaged(8, b"\x7f"), id="checksum"),
        pytest.param(damaged(88, b"B"), id="body"),
        pytest.param(damaged(0, struct.pack(">i", -1)), id="negative size"),
        pytest.param(damaged(0, struct.pack(">i", 0)), id="no size"),
        pytest.param(damaged(0, struct.pack(">i", 2**31 - 1)), id="huge size"),
        pytest.param(damaged(84, struct.pack(">i", -1)), id="negative body size"),
        pytest.param(damaged(84, struct.pack(">i", -(2**31))), id="very negative body size"),
        pytest.param(damaged(84, struct.pack(">i", 2**31 - 1)), id="huge body size"),
        pytest.param(damaged(92, b"\x00"), id="no topic"),
        pytest.param(damaged(93, b"\xff"), id="topic not UTF-8"),
        pytest.param(damaged(99, struct.pack(">h", -1)), id="negative properties size"),
        pytest.param(damaged(39, b"\x30"), id="longer hosts announced"),
        pytest.param(encode_stored_message(received())[:-1], id="cut"),
        pytest.param(encode_stored_message(received()) + b"\x00", id="a byte left over"),
    ],
)
def test_a_damaged_message_is_an_error_and_never_skipped(data):
    with pytest.raises(ProtocolError):
        decode_messages(encode_stored_message(received()) + data, "broker-a")


ZLIB = SysFlag.COMPRESSED | Compression.ZLIB << 8
BATCH = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
UNREADABLE = {
    "garbage": (b"garbage", ZLIB, "no zlib stream"),
    "cut": (compress_zlib(b"body" * 100)[:-1], ZLIB, "is cut"),
    "too large": (compress_zlib(bytes(1001)), ZLIB, "more than the 1000 bytes"),
    "lz4 garbage": (b"garbage", SysFlag.COMPRESSED | Compression.LZ4 << 8, "no lz4 frame"),
    "zstd garbage": (b"garbage", SysFlag.COMPRESSED | Compression.ZSTD << 8, "no zstd frame"),
    "unknown": (b"garbage", SysFlag.COMPRESSED | 7 << 8, "unknown here"),
    "a batch that is cut": (encode_batch([(b"one", "", 0)])[:-1], BATCH, "announces|cut"),
    "a batch of too many": (encode_batch([(b"", "", 0)]) * 65537, BATCH, "more than 65536"),
    "a packed batch that is cut": (compress_zlib(b"\0" * 30), BATCH | ZLIB, "announces|cut"),
    "a packed batch of garbage": (b"garbage", BATCH | ZLIB, "no zlib stream"),
}


@pytest.mark.parametrize(("body", "flags", "why"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_body_that_cannot_be_read_is_its_own_messages_trouble(body, flags, why):
    bad = received(body=body, sys_flag=flags, queue_offset=18)
    sent = [received(), bad, received(queue_offset=19)]
    first, found, last = decode_messages(
        b"".join(map(encode_stored_message, sent)), "broker-a", max_body=1000
    )
    assert (first, last) == (sent[0], sent[2])
    assert isinstance(found, UndecodableMessage)
    assert re.search(why, found.why)
    with pytest.raises(UndecodableBody, match="offset 18 of orders/broker-a/3"):
        _ = found.body
    assert (found.raw_body, found.sys_flag) == (body, flags), "the bytes as they are stored"
    for name in ("properties", "sharding_key", "message_id", "store_time", "stored_size"):
        assert getattr(found, name) == getattr(bad, name), name


def test_a_body_that_an_extra_could_read_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    bad = received(body=lz4.frame.compress(b"x"), sys_flag=SysFlag.COMPRESSED | 1 << 8)
    (found,) = decode_messages(encode_stored_message(bad), "broker-a")
    with pytest.raises(UndecodableBody, match="speed") as raised:
        _ = found.body
    assert raised.value.retriable


@given(st.binary(max_size=200))
def test_garbage_gives_messages_or_a_protocol_error(data):
    try:
        decode_messages(data, "b")
    except ProtocolError:
        return


@given(messages, magics, st.data())
def test_a_mutated_message_gives_messages_or_a_protocol_error(message, magic, data):
    mutated = bytearray(encode_stored_message(message, magic=magic))
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_messages(bytes(mutated), "b")
    except ProtocolError:
        return


def test_a_body_beyond_the_limit_is_refused():
    flags = SysFlag.COMPRESSED | Compression.ZLIB << 8
    data = encode_stored_message(received(body=compress_zlib(bytes(1001)), sys_flag=flags))
    assert len(decode_messages(data, "b", max_body=1001)[0].body) == 1001
    (refused,) = decode_messages(data, "b", max_body=1000)
    with pytest.raises(UndecodableBody, match="more than the 1000 bytes"):
        _ = refused.body


def numbered(count, **fields):
    """Stored messages with the offsets from 0 on."""
    return [encode_stored_message(received(queue_offset=n, **fields)) for n in range(count)]


@pytest.mark.parametrize("body", [compress_zlib(bytes(1000)), b"garbage"], ids=["good", "bad"])
def test_many_small_bombs_are_read_in_several_pulls(body):
    """None is taken for one that cannot be read because others took the room."""
    data = numbered(5, body=body, sys_flag=ZLIB)
    messages, left_at = decode_pull(b"".join(data), "b", max_body=1000)
    assert (len(messages), left_at) == (4, 4)
    (last,), left_at = decode_pull(data[4], "b", max_body=1000)
    assert left_at is None
    assert type(last) is type(messages[0])
    with pytest.raises(ProtocolError, match="more than"):
        decode_messages(b"".join(data), "b", max_body=1000)


def test_more_messages_than_a_pull_can_hold_are_left_for_the_next(monkeypatch):
    monkeypatch.setattr(stored_message, "MAX_MESSAGES", 3)
    assert decode_pull(b"".join(numbered(3)), "b")[1] is None
    messages, left_at = decode_pull(b"".join(numbered(5)), "b")
    assert ([m.queue_offset for m in messages], left_at) == ([0, 1, 2], 3)
    with pytest.raises(ProtocolError, match="more than 3"):
        decode_messages(b"".join(numbered(4)), "b")


def test_batches_that_are_too_many_together_are_left_for_the_next_pull():
    body = encode_batch([(b"", "", 0)]) * 40_000
    batches = [received(body=body, sys_flag=BATCH, queue_offset=at) for at in (0, 40_000)]
    messages, left_at = decode_pull(b"".join(map(encode_stored_message, batches)), "b")
    assert (len(messages), left_at) == (40_000, 40_000)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"queue": MessageQueue("t" * 256, "b", 0)}, ProtocolError),
        ({"queue": MessageQueue("\ud800", "b", 0)}, ProtocolError),
        ({"queue_offset": 2**63}, ProtocolError),
        ({"store_host": "somewhere"}, ProtocolError),
        ({"properties": {"": "x"}}, InvalidMessage),
    ],
)
def test_what_does_not_fit_the_layout_is_not_encoded(fields, error):
    with pytest.raises(error):
        encode_stored_message(replace(received(), **fields))
