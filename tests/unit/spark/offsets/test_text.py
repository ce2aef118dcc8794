import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.offsets import text as offsets_json

QUEUES = st.builds(
    MessageQueue, st.sampled_from(["a", "b%c"]), st.sampled_from(["x", "y"]), st.integers(0, 300)
)


@given(st.dictionaries(QUEUES, st.integers(-2, 2**62)))
def test_offsets_come_back(offsets):
    assert offsets_json.loads(offsets_json.dumps(offsets)) == offsets


@given(st.sets(QUEUES, min_size=1))
def test_queues_come_back(queues):
    assert offsets_json.loads_queues(offsets_json.dumps_queues(queues)) == queues


def test_the_shape():
    offsets = {MessageQueue("orders", "a", 10): 5, MessageQueue("orders", "a", 9): -2}
    assert json.loads(offsets_json.dumps(offsets)) == {"orders": {"a": {"9": -2, "10": 5}}}


BAD = {
    '{"orders": ': "no JSON",
    "[]": r"the whole is \[\]",
    '{"orders": 5}': "orders is 5",
    '{"orders": {"a": [1]}}': r"orders/a is \[1\]",
    '{"orders": {"a": {"x": 1}}}': 'orders/a/x is "x"',
    '{"orders": {"a": {"-1": 1}}}': "orders/a/-1",
    '{"orders": {"a": {"0": -3}}}': "orders/a/0 is -3",
    '{"orders": {"a": {"0": true}}}': "orders/a/0 is true",
    '{"orders": {"a": {"0": 1.5}}}': "orders/a/0 is 1.5",
    '{"orders": {"a": {"0": 1, "0": 2}}}': "twice",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_offsets_are_refused_with_place_and_shape(text):
    with pytest.raises(ConfigError, match=BAD[text]) as refused:
        offsets_json.loads(text, "startingOffsets")
    assert str(refused.value).startswith("startingOffsets")
    assert '{"topic": {"broker": {"0": 123}}}' in str(refused.value)


@pytest.mark.parametrize(
    "text", ["{}", '{"t": {"b": []}}', '{"t": {"b": ["0"]}}', '{"t": [1]}', "x"]
)
def test_bad_queues_are_refused(text):
    with pytest.raises(ConfigError, match=r'\{"topic": \{"broker": \[0, 1\]\}\}'):
        offsets_json.loads_queues(text)
