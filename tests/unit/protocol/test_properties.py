import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import InvalidMessage, ProtocolError
from orderly.protocol.properties import (
    ATTEMPT,
    MAX_PROPERTIES_BYTES,
    RESERVED,
    SHARDING_KEY,
    attempt_of,
    decode_properties,
    decode_sharding_key,
    encode_properties,
    marked,
)

part = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=20)


@given(st.dictionaries(part, part, max_size=8))
def test_properties_survive_the_wire(properties):
    assert decode_properties(encode_properties(properties).encode()) == properties


def test_the_text_is_what_java_writes():
    assert encode_properties({"KEYS": "k1 k2", "TAGS": "t"}) == "KEYS\x01k1 k2\x02TAGS\x01t\x02"


@pytest.mark.parametrize(
    "properties",
    [
        {"": "v"},
        {"n": ""},
        {"n\x01": "v"},
        {"n": "a\x02b"},
        {"n": "\ud800"},
        {"\udfff": "v"},
        {"n": 5},
        {"n": None},
        {"n": "\u8ba2" * 11_000},
    ],
    ids=repr,
)
def test_what_the_broker_would_drop_split_or_refuse_is_not_encoded(properties):
    with pytest.raises(InvalidMessage):
        encode_properties(properties)


def test_the_largest_text_allowed_is_encoded():
    fits = {"n": "v" * (MAX_PROPERTIES_BYTES - 3)}
    assert len(encode_properties(fits)) == MAX_PROPERTIES_BYTES
    with pytest.raises(InvalidMessage, match="at most 32767"):
        encode_properties({"n": fits["n"] + "v"})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", {}),
        (b"a\x01b", {"a": "b"}),  # the last separator may be missing
        (b"a\x01\x02\x01b\x02c\x02d\x01e\x02", {"d": "e"}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"a\x01\xff\x02", {"a": "\ufffd"}),
        (b"a\x01b\x02a\x01c\x02", {"a": "c"}),
    ],
)
def test_what_other_clients_wrote_is_read_as_java_reads_it(data, expected):
    assert decode_properties(data) == expected


@given(st.binary(max_size=100))
def test_any_bytes_can_be_read(data):
    assert all(name and value for name, value in decode_properties(data).items())


pieces = st.sampled_from(
    [b"__SHARDINGKEY", b"\x01", b"\x02", b"_", b"key", b"\xff", b"\xe8", "é".encode()]
)


@given(st.lists(pieces, max_size=12).map(b"".join))
def test_the_sharding_key_alone_is_the_one_among_all_properties(data):
    assert decode_sharding_key(data) == decode_properties(data).get(SHARDING_KEY)


def test_more_bytes_than_the_wire_carries_are_refused():
    with pytest.raises(ProtocolError):
        decode_properties(bytes(MAX_PROPERTIES_BYTES + 1))


def test_names_of_rocketmq_are_reserved():
    assert {"KEYS", "TAGS", "UNIQ_KEY", "__SHARDINGKEY", "DELAY", "POP_CK"} <= RESERVED
    assert "order_id" not in RESERVED


def test_a_mark_counts_for_the_message_that_it_was_written_for():
    properties = decode_properties(marked("a\x01b\x02", 3, 1_764_331_200_000).encode())
    assert attempt_of(properties, 1_764_331_200_000) == 3
    assert attempt_of(properties, 1_764_331_200_001) == 1
    assert attempt_of({"a": "b"}, 0) == 1


@pytest.mark.parametrize("text", ["2", "@7", "x@7", "²@7", "-2@7", "2@7@7", f"{'9' * 5000}@7", ""])
def test_what_is_no_mark_says_nothing(text):
    assert attempt_of({ATTEMPT: text}, 7) == 1
