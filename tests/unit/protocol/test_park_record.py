"""What is parked is read back as it was received; whatever else is in the topic is an error."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import IntEnum, StrEnum
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import InvalidMessage, ProtocolError
from orderly.model import MessageQueue, UndecodableMessage
from orderly.protocol.ext import from_ext
from orderly.protocol.java_json import dumps, loads
from orderly.protocol.moments import FIRST_MOMENT, LAST_MOMENT, moment_of
from orderly.protocol.park_record import (
    PARKED,
    Command,
    ParkDetails,
    ParkMessage,
    Released,
    Result,
    Verb,
    control_message,
    park_message,
    park_request,
    parked_again,
    read_park,
    read_parked,
)
from orderly.protocol.parked_key import KEY, MOST_OF_KEY, key_of, key_tag
from orderly.protocol.record_format import Unknown
from orderly.protocol.send import SendMessage
from orderly.protocol.stored_message import SysFlag, decode_messages
from tests.support.messages import message, stored_bytes
from tests.support.owners import PARK_QUEUE, stored

NAMES = st.sampled_from(
    ["KEYS", "TAGS", "UNIQ_KEY", "__SHARDINGKEY", "DELAY", "TIMER_DELIVER_MS", "TRAN_MSG", "WAIT",
     "CLUSTER", "MIN_OFFSET", "RETRY_TOPIC", "REAL_TOPIC", "MSG_REGION", PARKED, "mine", "Größe"]
)  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SHOWN = TEXT.filter(str.isprintable)  # of a handler's texts nothing else is kept
VALUES = st.one_of(  # 0x01 can be in a value, 0x02 ends it
    TEXT.filter(bool).filter(lambda text: "\x02" not in text), st.sampled_from(["\x01", "a\x01b"])
)
MILLIS = st.integers(FIRST_MOMENT, LAST_MOMENT).map(moment_of)
OFFSETS = st.integers(0, 2**63 - 1)
KEYS = st.one_of(TEXT, st.integers(-(2**62), 2**62))


@st.composite
def originals(draw):
    properties = draw(st.dictionaries(NAMES, VALUES, max_size=8))
    body = draw(st.one_of(st.binary(max_size=50), st.just(b"large" * 2000)))
    plain = message(draw(OFFSETS), queue=MessageQueue(draw(TEXT), draw(TEXT), 3))
    return replace(
        plain,
        body=body,
        properties=properties,
        message_id=properties.get("UNIQ_KEY", plain.offset_message_id),
        born_time=draw(MILLIS),
        store_time=draw(MILLIS),
        flag=draw(st.integers(-(2**31), 2**31 - 1)),
        sys_flag=draw(st.integers(0, 2**31 - 1)) & ~SysFlag.INNER_BATCH,
        reconsume_times=draw(st.integers(0, 9)),
        physical_offset=draw(st.integers(-5, 2**62)),
    )


DETAILS = st.builds(
    ParkDetails,
    key=KEYS,
    reason=SHOWN,
    attempts=st.integers(0, 99),
    fingerprint=st.none() | SHOWN,
    first_error=st.none() | SHOWN,
    last_error=st.none() | SHOWN,
    parked_at=MILLIS,
    token=OFFSETS,
)
WHY = ParkDetails(key="order-1", reason="why", attempts=3, parked_at=9.5, token=7)


@given(originals(), DETAILS)
def test_a_parked_message_is_read_as_it_was_received(original, details):
    parked = read_parked(stored(park_message(original, details), position=4, store_time=6.0))
    assert replace(parked.original, stored_size=original.stored_size) == original
    assert parked.details == details
    assert (parked.key, parked.offset) == (details.key, original.queue_offset)
    assert (parked.position, parked.stored_at) == (4, 6.0)


@given(originals(), DETAILS)
def test_appended_again_it_says_the_same(original, details):
    first = stored(park_message(original, details), position=4)
    again = stored(parked_again(first), position=9)
    one, other = read_parked(first), read_parked(again)
    assert replace(other.original, stored_size=0) == replace(one.original, stored_size=0)
    assert (other.details, other.position) == (one.details, 9)
    assert again.tags == first.tags


@pytest.mark.parametrize("flags", [0x301, 0x101, 0xC0, 0xC0 | 0x301])
def test_a_body_that_cannot_be_read_is_kept_as_it_is_stored(flags):
    bad = replace(message(12, "order-1"), body=b"garbage", sys_flag=flags)
    first = stored(park_message(UndecodableMessage(bad, "why"), WHY), position=4)
    for found in (first, stored(parked_again(first), position=9)):
        original = read_parked(found).original
        assert isinstance(original, UndecodableMessage)
        assert (original.raw_body, original.sys_flag) == (b"garbage", flags)
        assert (original.sharding_key, original.queue_offset) == ("order-1", 12)


def test_none_is_for_a_topic_of_another_type_to_a_proxy():
    """To it a message with a sharding key is of another type than one without, as commands are."""
    first = park_message(message(12, "order-1"), WHY)
    again = parked_again(stored(first, position=4))
    assert read_parked(stored(again, position=5)).original.sharding_key == "order-1"
    for content in (first, again):
        assert "__SHARDINGKEY" not in content.properties


def test_a_foreign_message_whose_body_cannot_be_read_is_an_error():
    with pytest.raises(ProtocolError):
        read_park(UndecodableMessage(message(0), "why"))


def test_people_see_in_a_property_where_it_comes_from_and_why():
    content = park_message(message(12), WHY)
    told = json.loads(content.properties[PARKED])
    assert (told["v"], told["key"], told["reason"], told["attempts"]) == (1, "order-1", "why", 3)
    assert (told["topic"], told["broker"], told["queueId"]) == ("orders", "broker-a", 0)
    assert (told["offset"], told["messageId"], told["parkedAt"]) == (12, "id-12", 9500)
    assert content.properties["TAGS"] == key_tag("order-1")


def test_what_a_broker_would_act_upon_is_not_stored_as_a_property():
    acted_upon = {"DELAY": "3", "TIMER_DELAY_SEC": "9", "TRAN_MSG": "true", "RETRY_TOPIC": "other"}
    acted_upon["ORDERLY_ATTEMPT"] = "2@7"
    original = replace(message(1), properties=acted_upon | {"mine": "kept", "KEYS": "k"})
    content = park_message(original, WHY)
    assert set(content.properties) == {"mine", "KEYS", "TAGS", "WAIT", PARKED}


@pytest.mark.parametrize("text", ["x" * 10_000, "\ud800" * 400], ids=["long", "surrogates"])
def test_texts_are_cut_and_can_always_be_written(text):
    details = replace(WHY, reason=text, fingerprint=text, first_error=text, last_error=text)
    read = read_parked(stored(park_message(message(1), details))).details
    texts = {read.reason, read.fingerprint, read.first_error, read.last_error}
    assert {len(found) for found in texts} == {300}


def test_a_large_body_is_compressed():
    content = park_message(replace(message(1), body=b"large" * 2000), WHY)
    assert len(content.body) < 1000
    assert content.sys_flag == 0x301


def test_the_request_goes_to_one_queue_and_no_other():
    command = park_request("shipping", PARK_QUEUE, park_message(message(1), WHY), now=3.5)
    header = from_ext(SendMessage, command.ext)
    assert (header.topic, header.queue_id) == (PARK_QUEUE.topic, PARK_QUEUE.queue_id)
    assert (header.broker_name, header.born_timestamp) == (PARK_QUEUE.broker_name, 3500)


def test_texts_are_left_out_where_the_messages_own_properties_leave_no_room():
    own_id = message(1).offset_message_id
    crowded = replace(message(1), properties={"mine": "x" * 31_500}, message_id=own_id)
    details = replace(WHY, reason="r" * 300, fingerprint="f" * 300, last_error="e" * 300)
    content = park_message(crowded, details)
    park_request("shipping", PARK_QUEUE, content, now=0.0)
    parked = read_parked(stored(content))
    assert parked.original.properties == crowded.properties
    assert (parked.details.attempts, parked.details.fingerprint) == (3, None)


INT32 = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-(2**31), -1, 2**31 - 2, 2**31 - 1])
INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 2**63 - 2, 2**63 - 1])


@given(
    born=INT64, at=INT64, flag=INT32, sys_flag=INT32, reconsumed=INT32, offset=OFFSETS,
    physical=INT64, body=st.binary(max_size=9), properties=st.dictionaries(NAMES, VALUES),
)  # fmt: skip
def test_whatever_a_sender_claims_can_be_parked_and_read_back(properties, **fields):
    """From the bytes that a broker stores, and with the attempts that a handler's call counts."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    original = decode_messages(stored_bytes(properties=text, **fields), "broker-a")[0]
    details = replace(WHY, attempts=original.reconsume_times + 1)
    first = stored(park_message(original, details), position=4)
    for copy in (first, stored(parked_again(first), position=9)):
        parked = read_parked(copy)
        assert type(parked.original) is type(original)
        found, sent = (_as_stored(each) for each in (parked.original, original))
        assert found.changed(stored_size=sent.stored_size) == sent
        assert parked.details == details


def _as_stored(message):
    return message.stored if isinstance(message, UndecodableMessage) else message


def test_a_born_time_that_a_former_release_wrote_is_read():
    """It wrote 2^63, the next float to a sender's 2^63-1, and refused it afterwards."""
    first = stored(park_message(message(1), WHY))
    told = loads(first.properties[PARKED].encode()) | {"bornTime": 2**63}
    again = first.changed(properties={**first.properties, PARKED: dumps(told).decode()})
    assert read_parked(again).original.born_time == moment_of(LAST_MOMENT)


def test_what_could_not_be_read_back_is_not_parked():
    with pytest.raises(ProtocolError, match="attempts"):
        park_message(message(1), replace(WHY, attempts=-1))
    with pytest.raises(ProtocolError, match="token"):
        park_message(message(1), replace(WHY, token=2**63))


# --- a copy of which the record says one thing, and the rest of the stored message another --------


UNREADABLE = 0x701  # flags: compressed in a way that nobody knows


@pytest.mark.parametrize("body", [b"body", b"large" * 2000], ids=["small", "large"])
def test_the_head_of_the_stored_copy_does_not_count(body):
    original = replace(message(1), body=body, flag=7, properties={"mine": "kept"})
    copy = stored(park_message(original, WHY))
    forged = copy.changed(
        flag=99, sys_flag=0x40, properties={**copy.properties, "UNIQ_KEY": "another"}
    )
    assert read_parked(forged).original == read_parked(copy).original


@pytest.mark.parametrize("marks", [UNREADABLE, 0x301, SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP])
@pytest.mark.parametrize("flags", [0, 0x300, 0x101])
def test_a_copy_marked_so_that_it_cannot_be_read_is_damaged(flags, marks):
    original = replace(message(1), sys_flag=flags)
    if flags & 1:
        original = UndecodableMessage(original, "why")
    copy = stored(park_message(original, WHY), position=4)
    assert read_parked(copy).original.raw_body == b"body"
    forged = UndecodableMessage(_as_stored(copy).changed(sys_flag=int(marks)), "it is forged")
    with pytest.raises(ProtocolError, match="marked"):
        read_parked(forged)


def test_of_a_former_releases_copy_the_flag_is_that_of_the_stored_message():
    first = stored(park_message(replace(message(1), flag=7), WHY))
    told = loads(first.properties[PARKED].encode())
    del told["flag"]
    former = first.changed(properties={**first.properties, PARKED: dumps(told).decode()})
    assert read_parked(former).original.flag == 7


def test_properties_that_leave_no_room_are_refused_before_sending():
    crowded = replace(message(1), properties={"mine": "x" * 32_700})
    with pytest.raises(InvalidMessage, match="properties take"):
        park_request("shipping", PARK_QUEUE, park_message(crowded, WHY), now=0.0)


# --- control records -----------------------------------------------------------------------------

CONTROLS = st.one_of(
    st.builds(Command, SHOWN, st.sampled_from(Verb), KEYS, SHOWN, OFFSETS),
    st.builds(
        Result, SHOWN, st.booleans(), OFFSETS, st.none() | OFFSETS, st.none() | SHOWN,
        st.lists(st.tuples(OFFSETS, SHOWN), max_size=4).map(tuple),
    ),
    st.builds(Released, KEYS, OFFSETS, OFFSETS),
)  # fmt: skip


@given(CONTROLS)
def test_a_control_record_is_read_as_it_is_written(record):
    assert read_park(stored(control_message(record))) == record


def test_a_control_record_is_found_by_its_tag_and_read_by_people():
    content = control_message(Released("order-1", 12, 7))
    assert content.properties["TAGS"] == "released"
    assert content.body == (
        b'orderly-park 1 released 71f7034e {"key":"order-1","below":12,"token":7}'
    )


def test_outcomes_are_bounded():
    many = Result("id", True, outcomes=tuple((n, "ok") for n in range(900)))
    assert len(read_park(stored(control_message(many))).outcomes) == 200


def test_any_text_of_a_handler_can_be_told():
    odd = "\ud800\x01" * 5000
    told = Result("id", True, reason=odd, outcomes=tuple((n, odd) for n in range(200)))
    read = read_park(stored(control_message(told)))
    assert (len(read.reason), {len(text) for _, text in read.outcomes}) == (300, {300})


@pytest.mark.parametrize("name", ["x" * 201, r"\ud800"], ids=["long", "surrogate"])
def test_a_command_whose_answer_could_not_be_written_is_none(name):
    content = b'{"id":"%s","verb":"drop","key":"k","by":"me","at":1}' % name.encode()
    body = b"orderly-park 1 command %08x " % crc32(b"command" + content) + content
    with pytest.raises(ProtocolError, match="'id'"):
        read_park(stored(ParkMessage({}, body)))


# --- what is foreign, damaged or newer -----------------------------------------------------------


def wounded(**fields):
    """A parked message whose property says something else; None: nothing."""
    content = park_message(message(1), WHY)
    told = json.loads(content.properties[PARKED]) | fields
    kept = {name: value for name, value in told.items() if value is not None}
    return replace(content, properties=content.properties | {PARKED: json.dumps(kept)})


@pytest.mark.parametrize(
    "fields",
    [
        {"key": True}, {"key": ["a"]}, {"key": None}, {"key": "x" * 2000}, {"offset": -1},
        {"offset": "1"}, {"offset": None}, {"queueId": -1}, {"topic": 7}, {"properties": ["a"]},
        {"properties": {"a": 1}}, {"tags": 3}, {"attempts": -1}, {"token": 2**64}, {"v": None},
        {"parkedAt": 1.5}, {"reason": None},
    ],
    ids=repr,
)  # fmt: skip
def test_a_damaged_message_is_an_error(fields):
    read_park(stored(wounded()))
    with pytest.raises(ProtocolError):
        read_park(stored(wounded(**fields)))


@pytest.mark.parametrize("text", ["{", "[]", "null", "7"])
def test_a_property_that_is_no_object_is_an_error(text):
    with pytest.raises(ProtocolError):
        read_park(stored(ParkMessage({PARKED: text}, b"body")))


@pytest.mark.parametrize("body", [b"hello", b"", b"orderly-state 1 confirm 00000000 {}"])
def test_a_foreign_message_is_an_error(body):
    with pytest.raises(ProtocolError):
        read_park(stored(ParkMessage({"mine": "x"}, body)))


@pytest.mark.parametrize(
    "content", [wounded(v=2, key=None), ParkMessage({"mine": "x"}, b"orderly-park 2 whatever")]
)
def test_a_newer_releases_message_is_told_apart(content):
    assert read_park(stored(content)) == Unknown(2)
    with pytest.raises(ProtocolError):
        read_parked(stored(content))


def test_a_users_body_is_never_taken_for_a_command():
    order = control_message(Command("id", Verb.DROP, "order-1", "me", 1))
    original = replace(message(1), body=order.body)
    assert read_parked(stored(park_message(original, WHY))).original.body == order.body


KEY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
PARKABLE = st.one_of(KEY_TEXT, st.integers(-(2**63) + 1, 2**63 - 1))


class Name(StrEnum):
    ONE = "one"


class Number(IntEnum):
    ONE = 1


@given(PARKABLE)
def test_a_key_is_read_as_it_is_written(key):
    read = KEY.read(loads(dumps(key_of(key))), "a key")
    assert (read, type(read)) == (key, type(key))


@pytest.mark.parametrize(
    ("lane_key", "key"), [(True, 1), (Name.ONE, "one"), (Number.ONE, 1), ("", ""), (0, 0)]
)
def test_a_key_becomes_plain(lane_key, key):
    assert (key_of(lane_key), type(key_of(lane_key))) == (key, type(key))


@pytest.mark.parametrize(
    "key", [None, 1.0, ("a", 1), b"a", 2**63, -(2**64), "\ud800", "x" * MOST_OF_KEY, "\0" * 200]
)
def test_other_keys_cannot_be_parked(key):
    assert key_of(key) is None


@pytest.mark.parametrize("value", [None, True, 1.5, [], {}, 2**63, "x" * MOST_OF_KEY])
def test_what_cannot_be_parked_is_not_read(value):
    with pytest.raises(ProtocolError):
        KEY.read(value, "a key")


def test_tags_are_stable_and_tell_texts_from_numbers():
    assert key_tag("order-1") == "5e9d72ecab84368d"
    assert len({key_tag(key) for key in ("1", 1, "s1", "i1")}) == 4
