import struct
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol import outgoing
from orderly.protocol.outgoing import (
    BatchMember,
    UniqueKey,
    decode_batch,
    encode_batch,
    parse_unique_key,
    unique_key,
)

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
    monkeypatch.setattr(outgoing, "MAX_BATCH", 3)
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
