"""A pulled message is read as far as it is looked at, and otherwise like any other."""

import copy
import pickle
from dataclasses import replace

import pytest

from orderly.errors import UndecodableBody
from orderly.model import MessageQueue, ReceivedMessage, UndecodableMessage
from orderly.protocol.stored_message import decode_messages, encode_stored_message

WHOLE = ReceivedMessage(
    queue=MessageQueue("orders", "broker-a", 3),
    queue_offset=17,
    body=b"body",
    properties={"UNIQ_KEY": "id-1", "__SHARDINGKEY": "order-1", "TAGS": "new"},
    message_id="id-1",
    offset_message_id="0A00000200002A9F0000000000001000",
    born_time=1_700_000_000.123,
    store_time=1_700_000_001.456,
    born_host="10.0.0.1:50000",
    store_host="10.0.0.2:10911",
    reconsume_times=2,
    flag=5,
    sys_flag=0,
    physical_offset=4096,
    stored_size=0,
)
STORED = encode_stored_message(WHOLE)
WHOLE = replace(WHOLE, stored_size=len(STORED), held_size=len(STORED) + 2048)


@pytest.fixture
def late():
    (message,) = decode_messages(STORED, "broker-a")
    return message


@pytest.mark.parametrize("name", ReceivedMessage.__dataclass_fields__)
def test_each_field_may_be_the_first_that_is_looked_at(late, name):
    assert getattr(late, name) == getattr(WHOLE, name)
    assert late == WHOLE


@pytest.mark.parametrize("name", ["topic", "sharding_key", "tags", "keys"])
def test_so_may_what_follows_from_them(late, name):
    assert getattr(late, name) == getattr(WHOLE, name)


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        replace,
        *(
            lambda message, version=version: pickle.loads(pickle.dumps(message, version))
            for version in range(2, pickle.HIGHEST_PROTOCOL + 1)
        ),
    ],
)
def test_copies_are_whole(late, copied):
    twin = copied(late)
    assert twin == WHOLE
    assert repr(twin) == repr(WHOLE)


def test_it_cannot_be_changed_and_has_no_other_attributes(late):
    with pytest.raises(AttributeError):
        late.body = b"other"
    with pytest.raises(AttributeError, match="no attribute 'bodies'"):
        _ = late.bodies
    assert not hasattr(WHOLE, "bodies")
    assert late == WHOLE


def test_a_retried_one_keeps_what_was_not_read(late):
    again = replace(late, reconsume_times=3)
    assert again == replace(WHOLE, reconsume_times=3)


# --- whose body cannot be read ------------------------------------------------------------------


@pytest.fixture
def unreadable(late):
    return UndecodableMessage(late, "it is garbage")


@pytest.mark.parametrize("name", sorted(ReceivedMessage.__dataclass_fields__.keys() - {"body"}))
def test_all_but_the_body_of_one_that_cannot_be_read_is_there(unreadable, name):
    assert getattr(unreadable, name) == getattr(WHOLE, name)
    assert unreadable.topic == WHOLE.topic


def test_its_body_says_where_it_is_and_why(unreadable):
    for _ in range(2):
        with pytest.raises(UndecodableBody, match=r"offset 17 of orders/broker-a/3.*garbage"):
            _ = unreadable.body
    assert unreadable.raw_body == b"body"
    assert "garbage" in repr(unreadable)


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda message: pickle.loads(pickle.dumps(message)),
        lambda message: message.changed(flag=message.flag),
    ],
)
def test_its_copies_cannot_be_read_either(unreadable, copied):
    again = copied(unreadable)
    assert again == unreadable
    assert again != unreadable.stored
    assert again != UndecodableMessage(unreadable.stored, "another reason")
    with pytest.raises(UndecodableBody):
        _ = again.body


def test_other_values_of_some_fields(late, unreadable):
    for message in (late, unreadable):
        changed = message.changed(reconsume_times=9, namespace="n")
        assert (changed.reconsume_times, changed.namespace, changed.flag) == (9, "n", 5)
        assert type(changed) is type(message)


def test_an_error_of_a_worker_process_is_as_retriable_as_it_was():
    for retriable in (False, True):
        error = UndecodableBody("no", retriable=retriable)
        assert pickle.loads(pickle.dumps(error)).retriable is retriable
