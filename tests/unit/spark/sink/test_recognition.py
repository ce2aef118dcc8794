"""Copies of a message have one id, other messages other ids, today and in the next release."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from orderly.protocol.outgoing import parse_unique_key, unique_key
from orderly.spark.sink.recognition import recognition_ids, unique_keys
from orderly.spark.sink.roles import Roles
from orderly.spark.sink.rows import read_rows


def ids(rows, partition=0, first=0):
    """The ids of (key, number, body)."""
    keys, numbers, bodies = zip(*rows, strict=True)
    batch = pa.record_batch(
        {
            "key": pa.array(keys, pa.string()),
            "seq": pa.array(numbers, pa.int64()),
            "body": pa.array(bodies, pa.binary()),
        }
    )
    roles = Roles(body="body", key="key", order="seq")
    return recognition_ids(read_rows(batch, roles, partition, first)).cast(pa.string()).to_pylist()


ROW = st.tuples(st.none() | st.text("ab", max_size=3), st.integers(-2, 300), st.binary(max_size=3))


@given(st.lists(ROW, min_size=1, unique=True))
def test_different_rows_have_different_ids_wherever_they_are(rows):
    found = ids(rows)
    assert len(set(found)) == len(rows)
    assert found == [ids([row], partition=3, first=7)[0] for row in rows]


def test_ids_are_those_of_every_release():
    assert ids([("customer-1", 7, b"paid"), (None, -1, b"x")]) == [
        "cc8bc78b75c93a799010406bba69ec36",
        "e3b56083c2f76fb56ffd48600ae2ff67",
    ]


def test_unique_keys_are_written_as_the_producer_writes_them():
    of_producer = unique_key(bytes([10, 0, 0, 1]), 5, 6, 1_795_255_200.0, 0xFFFE)
    made = unique_keys(of_producer[:-4], 0xFFFE, 3).cast(pa.string()).to_pylist()
    assert made[0] == of_producer
    assert [parse_unique_key(text).counter for text in made] == [0xFFFE, 0xFFFF, 0]


def test_unique_keys_of_one_moment_differ():
    made = unique_keys("0" * 28, 12_345, 65_536).cast(pa.string())
    assert len(np.unique(made.to_numpy(zero_copy_only=False))) == 65_536
