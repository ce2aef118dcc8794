import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.reset_bodies import (
    decode_member_offsets,
    decode_offsets_of_members,
    decode_reset,
    encode_member_offsets,
    encode_offsets_of_members,
    encode_reset,
    encode_reset_list,
)

texts = st.text(st.characters(codec="utf-8"), max_size=10)
queues = st.builds(MessageQueue, texts, texts, st.integers(0, 2**31 - 1))
offsets = st.dictionaries(queues, st.integers(0, 2**63 - 1), max_size=4)

QUEUE = MessageQueue("t", "b", 3)
KEY = '{"brokerName":"b","queueId":3,"topic":"t"}'


@pytest.mark.parametrize("encode", [encode_reset, encode_reset_list])
@given(table=offsets)
def test_a_reset_survives_the_wire_in_both_forms(encode, table):
    assert decode_reset(encode(table)) == table


@given(offsets)
def test_a_members_offsets_survive_the_wire(table):
    assert decode_member_offsets(encode_member_offsets(table)) == table


@given(st.dictionaries(texts, offsets, max_size=3))
def test_the_offsets_of_members_survive_the_wire(table):
    assert decode_offsets_of_members(encode_offsets_of_members(table)) == table


def test_queues_are_written_as_whole_objects():
    assert encode_reset({QUEUE: 7}) == f'{{"offsetTable":{{{KEY}:7}}}}'.encode()
    mine = encode_member_offsets({QUEUE: 7})
    assert mine == f'{{"messageQueueTable":{{{KEY}:7}},"consumerTable":{{}}}}'.encode()


def test_the_list_for_cpp_is_what_java_sends():
    row = '{"brokerName":"b","queueId":3,"topic":"t","offset":7}'
    assert encode_reset_list({QUEUE: 7}) == f'{{"offsetTable":[{row}]}}'.encode()


def test_a_reset_without_a_body_resets_nothing():
    assert decode_reset(b"") == {}


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":7}',
        b'{"offsetTable":[{"topic":"t"}]}',
        b'{"offsetTable":{"t":7}}',
        b'{"offsetTable":{{"topic":"t","brokerName":"b","queueId":3}:"7"}}',
    ],
)
def test_what_is_no_reset_is_refused(body):
    with pytest.raises(ProtocolError):
        decode_reset(body)
