"""Committed offsets searched in the text: the same as parsing all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol.backlog_bodies import decode_committed
from orderly.protocol.broker_bodies import encode_committed
from orderly.protocol.committed_text import read_committed

NAMES = st.text("ab%_|-", min_size=1, max_size=3)
TABLES = st.dictionaries(
    st.tuples(NAMES, NAMES),
    st.dictionaries(st.integers(-1, 20), st.integers(-(2**63), 2**63 - 1), max_size=4),
    max_size=6,
)


@given(TABLES, st.frozensets(NAMES, max_size=3))
def test_it_finds_what_reading_all_finds(table, groups):
    body = encode_committed(table)
    everything = decode_committed(body)
    wanted = {pair: offsets for pair, offsets in everything.items() if pair[0] in groups}
    assert read_committed(body, groups) == wanted
    assert read_committed(body) == everything


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{"orders@pay":{0:1},"x@y":{0:2}},"pullOffsetTable":{"orders@pay":{0:7}}}',
        b'{"pullOffsetTable":{"orders@pay":{0:7}},"offsetTable":{"orders@pay":{0:1}}}',
        b'{"offsetTable":{"orders@pay":{"0":1}}}',  # as standard JSON has it
        b'{ "offsetTable" : { "orders@pay" : { "0" : 1 } } }',
        b'{"offsetTable":{"ord\\u0065rs@pay":{0:1}}}',
        b'{"offsetTable":{"orders@pay":{0:1},"a@b@pay":{0:2},"@pay":{0:2},"pay":{0:3}}}',
    ],
)
def test_other_tables_and_other_ways_to_write_one_do_not_disturb(body):
    assert read_committed(body, ["pay"]) == {("pay", "orders"): {0: 1}}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{}x",
        b'{"offsetTable":{"orders@pay":{0:1:2}}}',
        b'{"offsetTable":{"orders@pay":{0:-}}}',
        b'{"offsetTable":{"orders@pay":{0:99999999999999999999}}}',
    ],
)
def test_what_is_no_such_table_is_refused(body):
    with pytest.raises(ProtocolError):
        read_committed(body, ["pay"])


def test_without_groups_there_is_nothing():
    assert read_committed(b'{"offsetTable":{"orders@pay":{0:1}}}', []) == {}
