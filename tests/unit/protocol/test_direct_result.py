import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol.direct_result import (
    DirectOutcome,
    DirectResult,
    decode_direct_result,
    encode_direct_result,
)

results = st.builds(
    DirectResult,
    st.sampled_from(DirectOutcome),
    st.booleans(),
    st.text(st.characters(codec="utf-8")),
    st.integers(0, 2**40).map(lambda ms: ms / 1000),
)


@given(results)
def test_a_result_survives_the_wire(result):
    assert decode_direct_result(encode_direct_result(result)) == result


def test_a_result_is_written_as_java_reads_it():
    result = DirectResult(DirectOutcome.LATER, auto_commit=False, remark="no", spent=1.2345)
    assert json.loads(encode_direct_result(result)) == {
        "order": True,
        "autoCommit": False,
        "consumeResult": "CR_LATER",
        "remark": "no",
        "spentTimeMills": 1234,
    }


@pytest.mark.parametrize("body", [b"{}", b'{"consumeResult":"CR_FINE"}', b"[]"])
def test_what_is_no_result_is_refused(body):
    with pytest.raises(ProtocolError):
        decode_direct_result(body)
