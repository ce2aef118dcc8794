from __future__ import annotations

import gc
import pickle
import re
import struct
import sys
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime
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
from orderly.protocol.moments import FIRST_MOMENT, LAST_MOMENT, milliseconds_of, moment_of
from orderly.protocol.properties import ATTEMPT
from orderly.protocol.send import encode_batch
from orderly.protocol.stored_message import (
    MAGIC_V1,
    MAGIC_V2,
    MOST_TRIES,
    SysFlag,
    decode_each,
    decode_messages,
    decode_pull,
    encode_stored_message,
    host_from_text,
    host_to_text,
)
from tests.support.messages import stored_bytes

part = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=10)
int32 = st.integers(-(2**31), 2**31 - 1)
offsets = st.integers(0, 2**63 - 1)
times = st.integers(FIRST_MOMENT, LAST_MOMENT).map(moment_of)
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
    reconsume_times=st.integers(0, MOST_TRIES),
    flag=int32,
    sys_flag=st.sampled_from([0, 2, 4, 8, 12, 0x300, 64, 128]),
    physical_offset=offsets,
)


@given(st.lists(messages, max_size=4))
def test_messages_survive_the_wire(sent):
    data = b"".join(map(encode_stored_message, sent))
    assert decode_messages(data, "broker-a") == sent
    assert decode_messages(memoryview(data), "broker-a") == sent


@pytest.mark.parametrize(
    ("claimed", "moment"),
    [
        (2**63 - 1, LAST_MOMENT),
        (1_764_285_943_000_000_000, LAST_MOMENT),  # of a sender that counts nanoseconds
        (LAST_MOMENT, LAST_MOMENT),
        (0, 0),
        (-1, -1),
        (-(2**63), FIRST_MOMENT),
    ],
)
def test_a_time_that_is_none_is_kept_to_the_calendar(claimed, moment):
    (decoded,) = decode_messages(stored_bytes(born=claimed, at=claimed), "broker-a")
    assert decoded.born_time == decoded.store_time == moment / 1000
    assert milliseconds_of(decoded.born_time) == moment
    assert datetime.fromtimestamp(decoded.born_time, UTC)


@pytest.mark.parametrize(
    ("claimed", "tries"), [(-(2**31), 0), (-1, 0), (16, 16), (2**31 - 1, MOST_TRIES)]
)
def test_the_tries_that_a_sender_claims_are_kept_to_what_can_be_counted_on(claimed, tries):
    (decoded,) = decode_messages(stored_bytes(reconsumed=claimed), "broker-a")
    assert decoded.reconsume_times == tries


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


BATCH = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
TWO = encode_batch([(b"one", "UNIQ_KEY\x01a\x02", 1), (b"two", "TAGS\x01t\x02", 0)])


def batch_of(body, says, **fields):
    """A batch as a queue of type BatchCQ stores it; `says` is how many messages it says it has."""
    properties = {"UNIQ_KEY": "id-1", "INNER_NUM": str(says), "INNER_BASE": "1"}
    return received(**{"body": body, "properties": properties, "sys_flag": BATCH} | fields)


@pytest.mark.parametrize("end", [None, 102, 150])
def test_a_batch_stored_as_one_message_becomes_its_members(end):
    batch = batch_of(TWO, 2, queue_offset=100)
    first, second = decode_messages(encode_stored_message(batch), "broker-a", end=end)
    assert (first.queue_offset, first.body, first.message_id, first.flag) == (100, b"one", "a", 1)
    assert (second.queue_offset, second.body, second.tags) == (101, b"two", "t")
    assert second.message_id == batch.offset_message_id
    assert first.sys_flag == second.sys_flag == 0


FORGED = {
    "says nothing": (received(body=TWO, sys_flag=BATCH), 19, "says that it has None"),
    "says fewer than it has": (batch_of(TWO, 1), 19, "of 2 messages says that it has 1"),
    "says more than it has": (batch_of(TWO, 3), 20, "of 2 messages says that it has 3"),
    "reaches over the next one": (batch_of(TWO, 2), 18, "reaches over .* offset 18"),
    "packed, it reaches over the next one": (
        batch_of(compress_zlib(TWO), 2, sys_flag=BATCH | SysFlag.COMPRESSED),
        18,
        "reaches over .* offset 18",
    ),
}


@pytest.mark.parametrize("last", [False, True], ids=["with a message behind it", "last"])
@pytest.mark.parametrize(("batch", "following", "why"), FORGED.values(), ids=FORGED)
def test_a_forged_batch_is_one_message_that_cannot_be_read(batch, following, why, last):
    """What it says of offsets that others have counts for nothing."""
    sent = [received(queue_offset=16), batch, received(queue_offset=following)]
    if last:
        del sent[2]
    data = b"".join(map(encode_stored_message, sent))
    messages, left_at, _ = decode_pull(data, "broker-a", end=following + (not last))
    assert (messages[:1], messages[2:], left_at) == (sent[:1], sent[2:], None)
    found = messages[1]
    assert isinstance(found, UndecodableMessage)
    assert re.search(why, found.why)
    assert (found.queue_offset, found.raw_body) == (17, batch.body)
    assert found.sys_flag == batch.sys_flag


def test_of_messages_in_any_order_each_is_read_by_itself_and_no_batch_is_unwrapped():
    """As a broker's index finds them: what stands next in the answer is next nowhere else."""
    sent = [batch_of(TWO, 2, queue_offset=at) for at in (100, 99)] + [received(queue_offset=7)]
    found = list(decode_each(b"".join(map(encode_stored_message, sent)), "broker-a"))
    assert [message.queue_offset for message in found] == [100, 99, 7]
    assert [message.raw_body for message in found] == [TWO, TWO, sent[2].raw_body]
    assert not list(decode_each(b"", "b"))


def test_a_batch_whose_properties_would_fill_the_memory_is_not_read():
    """Of two bytes a name, properties take forty times their size."""
    names = (chr(33 + n // 90) + chr(33 + n % 90) for n in range(1000))
    text = "".join(f"{name}\x01v\x02" for name in names)
    data = encode_stored_message(batch_of(encode_batch([(b"", text, 0)] * 9), 9))
    assert len(decode_messages(data, "b", max_body=400_000)) == 9
    (found,) = decode_messages(data, "b", max_body=200_000)
    assert isinstance(found, UndecodableMessage)
    assert "more than the 800000 bytes of memory" in found.why


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
    with pytest.raises(ProtocolError):
        list(decode_each(encode_stored_message(received()) + data, "broker-a"))


ZLIB = SysFlag.COMPRESSED | Compression.ZLIB << 8
UNREADABLE = {
    "garbage": (b"garbage", ZLIB, "not a zlib stream"),
    "cut": (compress_zlib(b"body" * 100)[:-1], ZLIB, "is cut"),
    "too large": (compress_zlib(bytes(1001)), ZLIB, "more than the 1000 bytes"),
    "lz4 garbage": (b"garbage", SysFlag.COMPRESSED | Compression.LZ4 << 8, "not an lz4 frame"),
    "zstd garbage": (b"garbage", SysFlag.COMPRESSED | Compression.ZSTD << 8, "not a zstd frame"),
    "unknown": (b"garbage", SysFlag.COMPRESSED | 7 << 8, "unknown here"),
    "a batch that is cut": (encode_batch([(b"one", "", 0)])[:-1], BATCH, "announces|cut"),
    "a batch of too many": (encode_batch([(b"", "", 0)]) * 65537, BATCH, "more than 65536"),
    "a packed batch that is cut": (compress_zlib(b"\0" * 30), BATCH | ZLIB, "announces|cut"),
    "a packed batch of garbage": (b"garbage", BATCH | ZLIB, "not a zlib stream"),
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
    messages, left_at, _ = decode_pull(b"".join(data), "b", max_body=1000)
    assert (len(messages), left_at) == (4, 4)
    (last,), left_at, _ = decode_pull(data[4], "b", max_body=1000)
    assert left_at is None
    assert type(last) is type(messages[0])
    with pytest.raises(ProtocolError, match="more than"):
        decode_messages(b"".join(data), "b", max_body=1000)


def test_as_much_is_unpacked_as_there_is_room_for():
    data = b"".join(numbered(5, body=compress_zlib(bytes(1000)), sys_flag=ZLIB))
    for room, count in ((5000, 5), (4999, 4), (2000, 2), (1001, 1), (0, 1)):
        messages, left_at, _ = decode_pull(data, "b", room=room)
        assert [len(message.body) for message in messages] == [1000] * count, room
        assert left_at == (count if count < 5 else None)


def test_what_is_not_packed_is_read_without_room():
    """It is in memory already, with the reply."""
    packed = received(queue_offset=9, body=compress_zlib(bytes(1000)), sys_flag=ZLIB)
    data = b"".join([*numbered(3), *map(encode_stored_message, (packed, packed))])
    messages, left_at, _ = decode_pull(data, "b", room=0)
    assert ([m.queue_offset for m in messages], left_at) == ([0, 1, 2, 9], 9)


def test_what_is_unpacked_never_takes_more_than_the_room_and_one_body():
    data = b"".join(numbered(32, body=compress_zlib(bytes(4 << 20)), sys_flag=ZLIB))
    tracemalloc.start()
    messages, left_at, _ = decode_pull(data, "b", room=10 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(messages), left_at) == (2, 2)
    assert peak < 15 << 20, "as many as fit, and one that was tried"


MANY = {f"{chr(33 + n // 90)}{chr(33 + n % 90)}": "v" for n in range(3000)}
USUAL = {
    "UNIQ_KEY": "7F00000200002A9F00000000000004D2",
    "__SHARDINGKEY": "order-1",
    "TAGS": "paid",
    "WAIT": "true",
    "CLUSTER": "DefaultCluster",
    "MSG_REGION": "DefaultRegion",
    "TRACE_ON": "true",
}
HELD = {
    "small": received(properties=USUAL),
    "large": received(properties=USUAL, body=bytes(100_000)),
    "packed": received(properties=USUAL, body=compress_zlib(bytes(100_000)), sys_flag=ZLIB),
    "many properties": received(properties=MANY),
    "a wide character": received(properties={"wide": "a" * 20_000 + "\U0001f600"}),
    "a batch": batch_of(encode_batch([(b"x" * 500, "TAGS\x01t\x02", 0)] * 9), 9),
    "not readable": received(body=bytes(10_000), sys_flag=ZLIB),
}


@pytest.mark.parametrize("stored", HELD.values(), ids=HELD)
def test_the_size_held_is_about_what_messages_take_of_memory(stored):
    data = encode_stored_message(stored)
    decode_messages(data, "b")
    tracemalloc.start()
    found = [message for _ in range(50) for message in decode_messages(data, "b")]
    for message in found:
        _ = message.properties, message.message_id
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    counted = sum(message.held_size for message in found)
    assert taken / 1.3 < counted < 3 * taken, "objects have other sizes in each Python"


def test_nothing_of_a_bomb_stays():
    data = b"".join(numbered(3, body=compress_zlib(bytes(4 << 20)), sys_flag=ZLIB))
    decode_messages(data, "b", max_body=2 << 20)
    gc.disable()
    try:
        tracemalloc.start()
        found = decode_messages(data, "b", max_body=2 << 20)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert [type(message) for message in found] == [UndecodableMessage] * 3
    assert taken < 1 << 20


def test_a_changed_message_counts_as_before():
    (message,) = decode_messages(encode_stored_message(HELD["packed"]), "b")
    assert message.changed(reconsume_times=3).held_size == message.held_size > 100_000
    assert pickle.loads(pickle.dumps(message)).held_size == message.held_size


def test_more_messages_than_a_pull_can_hold_are_left_for_the_next(monkeypatch):
    monkeypatch.setattr(stored_message, "MAX_MESSAGES", 3)
    assert decode_pull(b"".join(numbered(3)), "b")[1] is None
    messages, left_at, _ = decode_pull(b"".join(numbered(5)), "b")
    assert ([m.queue_offset for m in messages], left_at) == ([0, 1, 2], 3)
    with pytest.raises(ProtocolError, match="more than 3"):
        decode_messages(b"".join(numbered(4)), "b")


def test_batches_that_are_too_many_together_are_left_for_the_next_pull():
    body = encode_batch([(b"", "", 0)]) * 40_000
    batches = [batch_of(body, 40_000, queue_offset=at) for at in (0, 40_000)]
    messages, left_at, _ = decode_pull(b"".join(map(encode_stored_message, batches)), "b")
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


@given(st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20))
def test_a_host_survives_its_text_form(host):
    assert host_from_text(host_to_text(host)) == host


def test_both_families_are_written_with_their_port():
    assert host_to_text(bytes([10, 0, 0, 7]) + (10911).to_bytes(4)) == "10.0.0.7:10911"
    assert host_to_text(bytes(15) + b"\x01" + (80).to_bytes(4)) == "[::1]:80"


@pytest.mark.parametrize(
    "text", ["", "localhost:80", "1.2.3.4", "1.2.3.4:x", "1.2.3.4:99999999999"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ProtocolError):
        host_from_text(text)


@pytest.mark.parametrize(
    ("properties", "marked"),
    [
        ({}, False),
        ({"from": "ann@example.com", "why": "ORDERLY_ATTEMPT"}, False),
        ({ATTEMPT: "2@1764331200000"}, True),
    ],
)
def test_a_pull_says_whether_some_may_be_marked(properties, marked):
    stored = [received(queue_offset=1), received(queue_offset=2, properties=properties)]
    assert decode_pull(b"".join(map(encode_stored_message, stored)), "b")[2] is marked
