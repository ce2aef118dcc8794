"""What is sent: keys as often as the skew says, numbered one by one, in bodies of the size."""

from collections import Counter
from itertools import islice
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.bench.load import STAMP, Load, filler, key_indexes, shares, stamp_of


def received(body):
    return SimpleNamespace(body=body)


@given(st.integers(0, 10**6), st.integers(1, 200), st.floats(0, 3), st.integers(1, 16).filter(bool))
def test_the_shares_of_threads_are_all_there_is(count, keys, skew, threads):
    threads = min(threads, keys)
    found = shares(count, keys, skew, threads)
    assert (sum(found), len(found)) == (count, threads)
    assert min(found) >= 0


@pytest.mark.parametrize("skew", [0, 1.2])
def test_threads_have_keys_of_their_own(skew):
    keys = [set(islice(key_indexes(10, skew, n, 3), 2000)) for n in range(3)]
    assert keys == [{0, 3, 6, 9}, {1, 4, 7}, {2, 5, 8}]


def test_the_skew_is_zipfs():
    found = Counter(islice(key_indexes(100, 1, 0, 1), 50_000))
    assert found[0] / found[1] == pytest.approx(2, rel=0.1)
    assert found[0] / found[9] == pytest.approx(10, rel=0.2)


def test_keys_are_numbered_from_0_each():
    load = Load("t", 7, iter([2, 0, 2, 2]), 3, 100)
    messages = [load.next(5) for _ in range(4)]
    assert [m.sharding_key for m in messages] == ["key-2", "key-0", "key-2", "key-2"]
    assert [stamp_of(m) for m in messages] == [(7, 0, 5), (7, 0, 5), (7, 1, 5), (7, 2, 5)]
    assert {len(m.body) for m in messages} == {100}


@given(st.integers(STAMP.size, 5000))
def test_bodies_have_the_size(size):
    assert STAMP.size + len(filler(size)) == size


@given(st.binary(max_size=60))
def test_a_message_of_somebody_else_has_no_stamp(body):
    assert stamp_of(received(body)) is None or body.startswith(b"orB1")
