"""Checks before anything is queued: what the broker would refuse, drop or cut."""

from __future__ import annotations

import ipaddress
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError, InvalidMessage
from orderly.message import Message
from orderly.producer.pending import (
    MessageIds,
    PendingLimit,
    batch_size,
    check_message,
    compressed,
    properties_text,
)
from orderly.protocol.compression import decompress
from orderly.protocol.properties import ATTEMPT, RESERVED, decode_properties, marked
from orderly.protocol.send import encode_batch, parse_unique_key
from orderly.protocol.topics import APPEARS_LATER


def test_ids_are_unique_over_threads_and_producers():
    makers = [MessageIds("10.0.0.1@1#a") for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda number: makers[number % 4].next(), range(20_000)))
    assert len(set(ids)) == 20_000


@pytest.mark.parametrize(
    ("client_id", "address"),
    [
        ("10.0.0.1@7#ff", "10.0.0.1"),
        ("2001:db8::1@7#ff", "2001:db8::1"),
        ("fe80::1%eth0@7#ff", "fe80::1"),
        ("myhost@7", "0.0.0.0"),
    ],
)
def test_an_id_tells_address_and_process(client_id, address):
    parts = parse_unique_key(MessageIds(client_id).next())
    assert ipaddress.ip_address(parts.ip) == ipaddress.ip_address(address)
    assert parts.pid == os.getpid() & 0xFFFF


def test_ids_of_two_containers_differ_that_share_address_pid_moment_and_counter(monkeypatch):
    monkeypatch.setattr("orderly.producer.pending.time.time", lambda: 1_700_000_000.0)
    monkeypatch.setattr("orderly.producer.pending.itertools.count", lambda _: iter([7]))
    first, second = (parse_unique_key(MessageIds("10.0.0.1@1#a").next()) for _ in range(2))
    assert (first.ip, first.pid, first.counter) == (second.ip, second.pid, second.counter)
    assert first != second


def check(**fields) -> None:
    message = Message("T", **{"body": b"x", **fields})
    check_message(message, 100)
    properties_text(message, "0" * 32)


def test_an_ordinary_message_passes():
    check(sharding_key="k", tags="paid", keys=("a", "b"), properties={"名": "値 \U0001f680"})


@pytest.mark.parametrize("body", [b"", "", None, bytearray(b"x"), memoryview(b"x"), 7, "\ud800"])
def test_a_body_must_be_bytes_and_not_empty(body):
    with pytest.raises(InvalidMessage, match="the body"):
        check(body=body)


def test_a_body_of_the_limit_passes_and_one_byte_more_does_not():
    check(body=b"x" * 100)
    with pytest.raises(InvalidMessage, match="101 bytes"):
        check(body=b"x" * 101)


@pytest.mark.parametrize("key", ["", "a\x01", "\x02", "\ud800", True, False, 1.5, b"k", ("k",)])
def test_a_key_that_the_broker_would_drop_or_split_is_refused(key):
    with pytest.raises(InvalidMessage):
        check(sharding_key=key)


@pytest.mark.parametrize(
    "key", ["k", " ", "订单", "\U0001f680", "polygenelubricants", 0, -7, 2**70]
)
def test_any_other_str_or_int_is_a_key(key):
    check(sharding_key=key)


@pytest.mark.parametrize("tags", ["", "a||b", " a", "a ", "a\x01", 7])
def test_tags_that_no_consumer_could_select_are_refused(tags):
    with pytest.raises(InvalidMessage):
        check(tags=tags)


@pytest.mark.parametrize("keys", ["word", ("a b",), ("",), ("a", 7), ("a\x02",), ("a\n",)])
def test_index_keys_must_be_words(keys):
    with pytest.raises(InvalidMessage):
        check(keys=keys)


@pytest.mark.parametrize("name", sorted(RESERVED - APPEARS_LATER))
def test_the_names_of_rocketmq_are_refused(name):
    with pytest.raises(InvalidMessage, match="RocketMQ uses the property names"):
        check(properties={name: "x"})


@pytest.mark.parametrize(
    "properties", [{"": "x"}, {"a": ""}, {"a\x01": "b"}, {"a": "b\x02"}, {"a": "\udfff"}, {"a": 7}]
)
def test_properties_that_the_broker_would_drop_or_split_are_refused(properties):
    with pytest.raises(InvalidMessage):
        check(properties=properties)


def test_properties_leave_the_broker_room_for_its_own():
    ours = len(properties_text(Message("T", b"x", properties={"a": "漢"}), "0" * 32).encode()) - 3
    check(properties={"a": "x" * (32473 - ours)})
    check(properties={"a": "漢" * ((32473 - ours) // 3)})
    for too_long in ("x" * (32474 - ours), "漢" * ((32473 - ours) // 3 + 1), "x" * 40_000):
        with pytest.raises(InvalidMessage, match="bytes"):
            check(properties={"a": too_long})


def test_a_refused_message_is_a_config_error_for_those_who_catch_that():
    with pytest.raises(ConfigError):
        check(body=b"")


PROPERTIES = st.dictionaries(
    st.text("abcédef漢", min_size=1),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1),
)


BORN = 1_764_331_200_123  # milliseconds since the epoch


@given(PROPERTIES, st.text("key漢字", min_size=1), st.binary(min_size=1))
def test_properties_come_back_and_the_size_is_what_a_batch_takes_at_most(properties, key, body):
    text = properties_text(Message("T", body, sharding_key=key, properties=properties), "ID")
    assert decode_properties(text.encode()) == {
        **properties,
        "__SHARDINGKEY": key,
        "UNIQ_KEY": "ID",
        "WAIT": "true",
    }
    again = marked(text, 1_000_000, BORN)
    assert decode_properties(again.encode())[ATTEMPT] == f"1000000@{BORN}"
    assert batch_size(body, text) == len(encode_batch([(body, again, 0)]))


@given(st.binary(max_size=200), st.integers(0, 100))
def test_compression_loses_nothing_and_never_makes_a_body_longer(body, above):
    sent, flags = compressed(body, above)
    assert len(sent) <= len(body)
    assert flags in (0, 0x301)
    assert (decompress(flags >> 8, sent, 1000) if flags else sent) == body
    assert flags == 0 or len(body) > above > 0


PATIENCE = 30.0


def test_there_is_room_up_to_the_limit():
    room = PendingLimit(2)
    for number in range(2):
        assert room.wait_for_room(0)
        room.enter(number)
    assert not room.wait_for_room(0.01)
    room.leave(0)
    assert room.wait_for_room(0)


def test_who_must_not_wait_comes_in_anyway_and_takes_the_room_of_others():
    room = PendingLimit(1)
    room.enter("a")
    room.enter("b")
    room.leave("a")
    assert not room.wait_for_room(0)
    room.leave("b")
    assert room.wait_for_room(0)


def test_who_comes_or_goes_twice_counts_once():
    room = PendingLimit(1)
    room.enter("a")
    room.enter("a")
    room.leave("a")
    assert room.wait_empty(0)
    room.leave("a")
    room.enter("b")
    assert not room.wait_empty(0)


def test_everybody_who_waits_gets_in_as_others_leave():
    room = PendingLimit(1)
    room.enter("first")
    done = []

    def visit() -> None:
        assert room.wait_for_room(PATIENCE)
        room.enter(threading.get_ident())
        done.append(1)
        room.leave(threading.get_ident())

    visitors = [threading.Thread(target=visit) for _ in range(20)]
    for visitor in visitors:
        visitor.start()
    assert not done
    room.leave("first")
    for visitor in visitors:
        visitor.join(PATIENCE)
    assert len(done) == 20
    assert room.wait_empty(0)


def test_waiting_for_the_last_one_ends_in_time():
    room = PendingLimit(1)
    assert room.wait_empty(0)
    room.enter("a")
    assert not room.wait_empty(0.01)
    threading.Timer(0.02, room.leave, ["a"]).start()
    assert room.wait_empty(PATIENCE)
