"""Keys go where code that is not ours puts them: golden vectors, made by that code.

`placements/make.py` made them: Java's selector and Guava from the broker's jars,
std::hash of g++, the selector of Go's client.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError
from orderly.message import Message
from orderly.model import MessageQueue
from orderly.selectors import KEYED, cpp_hash_mod, go_hash_mod, java_string_hash, proxy_hash
from orderly.selectors.choice import needs_key, stored_number
from orderly.selectors.keyed import consistent_hash, fnv1a, murmur

MESSAGE = Message("T", b"x")
GOLDEN = json.loads(Path(__file__).with_name("placements.json").read_text())
HASHES = {
    "hash_mod": java_string_hash,
    "cpp_hash_mod": lambda key: murmur(key.encode()),
    "go_hash_mod": lambda key: fnv1a(key.encode()),
}
NEW = [proxy_hash, cpp_hash_mod, go_hash_mod]


def queues(count, *brokers):
    return tuple(
        MessageQueue("T", broker, number)
        for broker in brokers or ["broker-a"]
        for number in range(count)
    )


def place(selector, key, count):
    return selector(queues(count), MESSAGE, key).queue_id


@pytest.mark.parametrize("name", ["hash_mod", "proxy_hash", "cpp_hash_mod", "go_hash_mod"])
def test_every_key_lies_where_the_other_code_puts_it(name):
    assert len(GOLDEN["keys"]) > 100
    for row in GOLDEN["keys"]:
        ours = [place(KEYED[name].selector, row["key"], count) for count in GOLDEN["queues"]]
        assert ours == row[name], ascii(row["key"])


@pytest.mark.parametrize("name", HASHES)
def test_the_hashes_are_the_same_numbers(name):
    for row in GOLDEN["keys"]:
        assert HASHES[name](row["key"]) == row["hashes"][name], ascii(row["key"])


def test_the_vectors_have_the_hashes_at_which_guavas_int_overflows():
    hashes = {row["hashes"]["hash_mod"] for row in GOLDEN["keys"]}
    assert {975451704, 1950903408, -(2**31)} <= hashes
    assert consistent_hash(975451704, 1000) == 0, "without the overflow the search would go on"


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 200))
def test_one_bucket_more_moves_a_number_there_or_not_at_all(number, buckets):
    before, after = consistent_hash(number, buckets), consistent_hash(number, buckets + 1)
    assert 0 <= before < buckets
    assert after in (before, buckets)


@given(st.integers(0, 2**32), st.integers(1, 20))
def test_the_proxy_counts_brokers_by_name_whatever_the_order_configuration_says(key, count):
    sorted_by_name = queues(count, "broker-a", "broker-b")
    as_configured = queues(count, "broker-b", "broker-a")
    assert proxy_hash(as_configured, MESSAGE, key) == proxy_hash(sorted_by_name, MESSAGE, key)


@pytest.mark.parametrize("selector", NEW)
@given(st.integers(), st.integers(1, 64))
def test_an_int_is_hashed_as_its_decimal_text(selector, key, count):
    assert place(selector, key, count) == place(selector, str(key), count)


@pytest.mark.parametrize("selector", NEW)
@pytest.mark.parametrize("arg", [None, True, b"bytes", 1.5, ("a",)])
def test_what_is_no_key_is_refused(selector, arg):
    with pytest.raises(ConfigError, match=f"{selector.__name__} needs a str or an int"):
        place(selector, arg, 4)


@pytest.mark.parametrize("selector", [cpp_hash_mod, go_hash_mod])
def test_a_key_that_no_other_client_can_send_is_refused(selector):
    with pytest.raises(ConfigError, match="lone surrogate"):
        place(selector, "\ud83d", 4)


def test_the_table_holds_each_selector_by_its_name():
    assert list(KEYED) == ["hash_mod", "numeric_mod", "proxy_hash", "cpp_hash_mod", "go_hash_mod"]
    for name, rule in KEYED.items():
        assert (rule.name, rule.selector.__name__) == (name, name)
        assert needs_key(rule.selector)
        assert rule.given("7") == (7 if name == "numeric_mod" else "7")


@pytest.mark.parametrize("selector", [lambda *_: None, object(), []])
def test_others_do_not_need_a_key(selector):
    assert not needs_key(selector)


@given(st.one_of(st.integers(), st.integers(-(2**63), 2**63 - 1)))
def test_a_stored_number_is_read_back_if_it_has_64_bits(number):
    assert stored_number(str(number)) == (number if -(2**63) <= number < 2**63 else None)


@pytest.mark.parametrize("text", ["", "-", "07", "+1", "-0", "1.0", "x", " 1", "1_0", "٣"])
def test_a_text_no_producer_writes_for_a_number_is_none(text):
    assert stored_number(text) is None
