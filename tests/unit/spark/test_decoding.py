from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orderly.errors import ConfigError, ProtocolError, UndecodableBody
from orderly.model import MessageQueue
from orderly.protocol.compression import Compression, compress_zlib
from orderly.protocol.send import encode_batch
from orderly.protocol.stored_message import MAGIC_V1, MAGIC_V2, SysFlag, decode_messages
from orderly.spark import decoding
from orderly.spark.columns import COLUMNS, DEFAULT_COLUMNS
from orderly.spark.decoding import WantedColumns, decode, find_starts, rows_of
from tests.support.messages import stored_bytes

QUEUE = MessageQueue("orders", "broker-a", 3)
ALL = WantedColumns(tuple(COLUMNS), seq_property="seq")
NARROW = WantedColumns(("queue_offset", "sharding_key", "seq"), seq_property="seq")
UNWRAP = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
ZLIB = SysFlag.COMPRESSED | Compression.ZLIB << 8

# Few names and odd values, so that what is rare in life meets often: names that begin alike or
# come twice, no value, no name, a separator too many, no UTF-8, NUL, and no last separator.
names = st.sampled_from(
    ["TAGS", "KEYS", "UNIQ_KEY", "__SHARDINGKEY", "__SHARDI", "__SHARDINGKEY2", "seq", "s", "é", "",
     "ORDERLY_ATTEMPT"]
)  # fmt: skip
values = st.one_of(
    st.sampled_from(["", "1", "-5", "007", "0x10", " 1", "9" * 19, "9223372036854775807", "1\0"]),
    st.sampled_from(["2@1700000000123", "x@1700000000123", "2@1"]),
    st.integers(-(2**70), 2**70).map(str),
    st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=12),
)
entries = st.tuples(names, values).map(lambda it: f"{it[0]}\x01{it[1]}\x02".encode())
mess = st.one_of(entries, entries, entries, st.binary(max_size=6), st.just(b"TAGS\x01a\x01b\x02"))
properties = st.tuples(st.lists(mess, max_size=6).map(b"".join), st.booleans()).map(
    lambda it: it[0].removesuffix(b"\x02") if it[1] else it[0]
)
bodies = st.one_of(st.binary(max_size=40), st.just(MAGIC_V1.to_bytes(4) * 2))
unusual = st.sampled_from(
    [SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, UNWRAP, ZLIB, UNWRAP | ZLIB]
)


mostly_usual = st.one_of(st.just(0), st.just(0), unusual)
any_offset = st.integers(0, 2**62)


@st.composite
def messages(draw, flags=mostly_usual, offsets=any_offset):
    flag, body, number = int(draw(flags)), draw(bodies), b""
    if flag & UNWRAP == UNWRAP:
        members = st.tuples(bodies, st.just("TAGS\x01a\x02seq\x013\x02"), st.just(0))
        found = draw(st.lists(members, min_size=1, max_size=3))
        body, number = encode_batch(found), b"INNER_NUM\x01%d\x02" % len(found)
    if flag & SysFlag.COMPRESSED:
        body = compress_zlib(body)
    return stored_bytes(
        body=body,
        properties=number + draw(properties),
        topic=draw(st.sampled_from([b"orders", b"t" * 127, "zäh".encode()])),
        offset=draw(offsets),
        magic=draw(st.sampled_from([MAGIC_V1, MAGIC_V1, MAGIC_V1, MAGIC_V2])),
        sys_flag=flag,
        born=draw(st.integers(0, 2**64) | st.just(1_700_000_000_123)),
        physical=draw(st.integers(-(2**63), 2**63 - 1)),
        reconsumed=draw(st.integers(-(2**31), 2**31 - 1)),
    )


@st.composite
def blocks_of(draw):
    """Messages as a queue has them: a batch has the offsets of its members."""
    first = draw(any_offset)
    places = range(draw(st.integers(0, 8)))
    return b"".join(draw(messages(offsets=st.just(first + 3 * place))) for place in places)


blocks = blocks_of()
WANTED = st.sampled_from(
    [
        ALL,
        NARROW,
        WantedColumns(DEFAULT_COLUMNS),
        WantedColumns(("body",)),
        WantedColumns(("properties", "body"), tags=frozenset({"a", "1"})),
        WantedColumns(("queue_offset",), tags=frozenset({"a\x01b", "007"})),
        WantedColumns(("body", "seq"), "seq", only={"sharding_key": frozenset({"1", "", "-5"})}),
        WantedColumns(
            ("queue_offset", "tag"),
            tags=frozenset({"a", "1"}),
            only={"keys": frozenset({"1", "007"}), "sharding_key": frozenset({"1", "007"})},
        ),
    ]
)


def by_loop(data, wanted):
    found = decode_messages(data, QUEUE.broker_name)
    seen = [message for message in found if not wanted.tags or message.tags in wanted.tags]
    texts = WantedColumns(tuple(wanted.only))
    fits = [
        all(row[name] in wanted.only[name] for name in wanted.only)
        for row in rows_of(seen, QUEUE, texts).to_pylist() or [{}] * len(seen)
    ]
    kept = [message for message, fit in zip(seen, fits, strict=True) if fit]
    batch = rows_of(kept, QUEUE, wanted)
    return batch, *([message.queue_offset for message in some] for some in (kept, seen))


def test_attempts_are_those_of_marks_of_their_own():
    marks = ["2@1700000000123", "3@1700000000123", "2@1700000000124", None]
    texts = [f"ORDERLY_ATTEMPT\x01{mark}\x02".encode() if mark else b"" for mark in marks]
    data = b"".join(
        stored_bytes(properties=text, offset=place, body=b"xy"[: 1 + place % 2])
        for place, text in enumerate(texts)
    )
    batch, *_ = decode(data, QUEUE, WantedColumns(("attempt", "body_sum")))
    assert batch["attempt"].to_pylist() == [2, 3, None, None]
    first, second, *others = batch["body_sum"].to_pylist()
    assert (others, first == second) == ([first, second], False)


@settings(max_examples=200)
@given(blocks, WANTED)
def test_in_bulk_and_one_by_one_give_the_same_rows(data, wanted):
    batch, offsets, seen = decode(data, QUEUE, wanted)
    expected, expected_offsets, expected_seen = by_loop(data, wanted)
    batch.validate(full=True)
    assert batch.schema.equals(wanted.schema)
    assert batch.to_pylist() == expected.to_pylist()
    assert offsets.tolist() == expected_offsets
    assert seen.tolist() == expected_seen


@pytest.mark.parametrize(
    ("text", "tag", "seq"),
    [
        (b"TAGS\x01a\x02TAGS\x01b\x02seq\x011\x02seq\x012\x02", "b", 2),
        (b"TAGS\x01a\x02TAGS\x01\x02seq\x01\x02", "a", None),
        (b"TAGS\x01a\x01b\x02seq\x010x10\x02", "a\x01b", None),
        (b"TAGS\x02TAGSX\x01a\x02seq\x01-7\x02", None, -7),
        (b"seq\x01007\x02TAGS\x01a", "a", 7),
        (b"", None, None),
        (b"seq\x01 1\x02", None, None),
        (b"seq\x01" + b"0" * 30 + b"9223372036854775807\x02", None, 2**63 - 1),
        (b"seq\x019223372036854775808\x02", None, None),
    ],
)
def test_odd_properties(text, tag, seq):
    block = stored_bytes(properties=text) + stored_bytes(
        offset=1, properties=b"TAGS\x01z\x02seq\x013\x02"
    )
    wanted = WantedColumns(("tag", "seq"), seq_property="seq")
    expected = [{"tag": tag, "seq": seq}, {"tag": "z", "seq": 3}]
    assert decode(block, QUEUE, wanted)[0].to_pylist() == expected
    assert by_loop(block, wanted)[0].to_pylist() == expected


@given(st.lists(messages(), max_size=8))
def test_every_message_is_found_also_with_the_magic_number_in_a_body(sent):
    starts = find_starts(b"".join(sent))
    assert starts.tolist() == [sum(map(len, sent[:n])) for n in range(len(sent))]


def test_an_ordinary_block_needs_no_loop(monkeypatch):
    monkeypatch.setattr("orderly.spark.decoding.decode_messages", None)
    monkeypatch.setattr(decoding, "number_in", None)
    text = b"TAGS\x01paid\x02__SHARDINGKEY\x01k-1\x02seq\x01%d\x02"
    data = b"".join(stored_bytes(offset=n, properties=text % n) for n in range(100))
    cut = b"".join(stored_bytes(offset=n, properties=text[:-1] % n) for n in range(100))
    for block in (data, cut):
        batch, *_ = decode(block, QUEUE, ALL)
        assert batch["seq"].to_pylist() == list(range(100))
        assert batch["sharding_key"].to_pylist() == ["k-1"] * 100


@given(st.data(), blocks.filter(bool), WANTED)
def test_damage_is_a_protocol_error_or_changes_nothing_that_was_asked_for(data, block, wanted):
    at = data.draw(st.integers(0, len(block) - 1))
    damaged = bytearray(block)
    if data.draw(st.booleans()):
        damaged[at] ^= data.draw(st.integers(1, 255))
    else:
        del damaged[at:]
    try:
        batch, *_ = decode(bytes(damaged), QUEUE, wanted)
    except ProtocolError:
        return
    batch.validate(full=True)
    try:
        expected, *_ = by_loop(bytes(damaged), wanted)
    except ProtocolError:  # of a body that is not asked for, or whose row is left out
        looked_at = "body" in wanted.columns and not (wanted.tags or wanted.only)
        assert not looked_at or _topic_is_broken(bytes(damaged))
    else:
        assert batch.to_pylist() == expected.to_pylist()


def _topic_is_broken(data):
    """The topic of a message is not read: the queue says it."""
    try:
        decode_messages(data, "broker-a")
    except ProtocolError as error:
        return "utf-8" in str(error)
    return False


@given(st.binary(max_size=300), WANTED)
def test_garbage_is_a_protocol_error(data, wanted):
    if data:
        with pytest.raises(ProtocolError):
            decode(data, QUEUE, wanted)
    else:
        assert len(decode(data, QUEUE, wanted)[0]) == 0


def test_a_body_is_compared_with_its_checksum_when_it_is_asked_for():
    block = stored_bytes(offset=1) + stored_bytes(offset=2, checksum=1)
    with pytest.raises(ProtocolError, match="damaged"):
        decode(block, QUEUE, ALL)
    assert decode(block, QUEUE, NARROW)[1].tolist() == [1, 2]


def test_a_compressed_body_that_nobody_wants_is_not_unpacked():
    block = stored_bytes(
        body=b"no zlib stream", sys_flag=int(ZLIB), properties=b"seq\x0112\x02", offset=5
    )
    assert decode(block, QUEUE, NARROW)[0]["seq"].to_pylist() == [12]
    with pytest.raises(UndecodableBody, match=r"offset 5 of orders/broker-a/3 .*zlib"):
        decode(block, QUEUE, ALL)


def test_a_batch_that_cannot_be_read_fails_though_nobody_wants_its_bodies():
    block = stored_bytes(body=b"x", sys_flag=int(UNWRAP), offset=5)
    with pytest.raises(UndecodableBody, match="offset 5 of orders/broker-a/3 "):
        decode(block, QUEUE, NARROW)


def test_a_batch_that_claims_offsets_of_others_is_none():
    """Rows of what is stored there would be taken for repeats."""
    body, told = encode_batch([(b"forged", "", 0)] * 3), b"INNER_NUM\x013\x02"
    batch = stored_bytes(body=body, sys_flag=int(UNWRAP), properties=told, offset=5)
    assert decode(batch, QUEUE, NARROW, 8)[1].tolist() == [5, 6, 7]
    for block, end in ((batch, 6), (batch + stored_bytes(offset=6), 7)):
        with pytest.raises(UndecodableBody, match=r"offset 5 of .*reaches over .* offset 6"):
            decode(block, QUEUE, NARROW, end)


def test_a_time_that_no_calendar_holds_becomes_the_nearest_one():
    block = stored_bytes(born=2**62, at=-(2**62))
    row = decode(block, QUEUE, WantedColumns(("born_ts", "store_ts")))[0].to_pylist()[0]
    assert [str(moment)[:19] for moment in row.values()] == [
        "9999-12-31 23:59:59",
        "0001-01-01 00:00:00",
    ]


def test_a_separator_in_the_name_of_a_property_is_refused():
    with pytest.raises(ConfigError, match="separate"):
        WantedColumns(("seq",), seq_property="a\x01b")


def test_a_long_name_is_looked_for_among_properties_that_are_shorter():
    data = stored_bytes(properties=b"sequence\x01v\x02")
    wanted = WantedColumns(("seq",), seq_property="sequence_of_the_event_within_its_order")
    batch, *_ = decode(data, QUEUE, wanted)
    assert batch["seq"].to_pylist() == [None]
