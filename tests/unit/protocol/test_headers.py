import dataclasses
import inspect
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import from_ext, to_ext
from orderly.protocol.heartbeat import HeartbeatReply, UnregisterClient
from orderly.protocol.offsets import GetMaxOffset, QueryConsumerOffset
from orderly.protocol.pull import PullFlag, PullMessage, PullReply
from orderly.protocol.send import SendBatch, SendMessage, SendReply
from orderly.protocol.topics import CreateTopic
from tests.fuzz.seeds import header_classes

HEADERS = header_classes()
VALUES = {str: st.text(), int: st.integers(-(2**63), 2**63 - 1), bool: st.booleans()}


def values_of(kind):
    plain = [VALUES[part] for part in get_args(kind) if part is not type(None)]
    return plain[0] | st.none() if plain else VALUES[kind]


def instances(cls):
    hints = get_type_hints(cls)
    return st.builds(
        cls, **{field.name: values_of(hints[field.name]) for field in dataclasses.fields(cls)}
    )


def without_defaults(header):
    """The header with each None that has another default replaced by it, as a reader sees it."""
    unset = [f for f in dataclasses.fields(header) if getattr(header, f.name) is None]
    return dataclasses.replace(header, **{f.name: f.default for f in unset})


@pytest.mark.parametrize("cls", HEADERS, ids=lambda cls: cls.__name__)
@given(data=st.data())
def test_every_header_survives_the_wire(cls, data):
    header = data.draw(instances(cls))
    ext = to_ext(header)
    assert all(type(name) is str and type(value) is str for name, value in ext.items())
    assert from_ext(cls, ext) == without_defaults(header)


@pytest.mark.parametrize("cls", HEADERS, ids=lambda cls: cls.__name__)
def test_every_required_field_is_demanded(cls):
    required = [f for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING]
    if required:
        with pytest.raises(ProtocolError, match="is missing"):
            from_ext(cls, {})
    else:
        assert from_ext(cls, {}) == cls()


def test_requests_know_their_code():
    codes = {cls: cls.code for cls in HEADERS if not cls.__name__.endswith("Reply")}
    assert codes[SendMessage] is RequestCode.SEND_MESSAGE_V2
    assert codes[SendBatch] is RequestCode.SEND_BATCH_MESSAGE
    assert len(set(codes.values())) == len(codes)


def test_a_send_uses_single_letters():
    header = SendMessage(
        producer_group="g", topic="t", queue_id=3, born_timestamp=5, properties="p", flag=1
    )
    assert to_ext(header) == {
        "a": "g",
        "b": "t",
        "c": "TBW102",
        "d": "4",
        "e": "3",
        "f": "0",
        "g": "5",
        "h": "1",
        "i": "p",
    }


def test_a_batch_is_marked_as_one():
    header = SendBatch(producer_group="g", topic="t", queue_id=3, born_timestamp=5)
    assert to_ext(header)["m"] == "true"


def test_wire_names_are_javas():
    pull = PullMessage(
        consumer_group="g",
        topic="t",
        queue_id=0,
        queue_offset=9,
        sys_flag=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION,
        subscription="*",
        expression_type="TAG",
    )
    assert to_ext(pull) == {
        "consumerGroup": "g",
        "topic": "t",
        "queueId": "0",
        "queueOffset": "9",
        "maxMsgNums": "32",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    assert to_ext(UnregisterClient(client_id="c", consumer_group="g")) == {
        "clientID": "c",
        "consumerGroup": "g",
    }
    assert to_ext(CreateTopic(topic="t", read_queue_nums=8, write_queue_nums=8, order=True)) == {
        "topic": "t",
        "defaultTopic": "TBW102",
        "readQueueNums": "8",
        "writeQueueNums": "8",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "true",
    }
    query = QueryConsumerOffset(
        consumer_group="g", topic="t", queue_id=1, set_zero_if_not_found=False
    )
    assert to_ext(query)["setZeroIfNotFound"] == "false"


def test_a_real_brokers_replies_are_read():
    reply = from_ext(
        SendReply,
        {
            "msgId": "7F00000100002A9F0000000000000000",
            "queueId": "2",
            "queueOffset": "17",
            "transactionId": "AC11",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
        },
    )
    assert (reply.queue_id, reply.queue_offset, reply.transaction_id) == (2, 17, "AC11")
    pull = {"suggestWhichBrokerId": "0", "nextBeginOffset": "5", "minOffset": "0", "maxOffset": "5"}
    assert from_ext(PullReply, pull).next_begin_offset == 5
    assert from_ext(HeartbeatReply, {"IS_SUPPORT_HEART_BEAT_V2": "true"}).is_support_heart_beat_v2


@pytest.mark.parametrize(
    "value", ["", " 1", "1.0", "0x1", "+1", "1_0", "\u0661", str(2**63), "9" * 5000]
)
def test_what_is_no_64_bit_integer_is_refused(value):
    with pytest.raises(ProtocolError, match="queueId"):
        from_ext(GetMaxOffset, {"topic": "t", "queueId": value})


@pytest.mark.parametrize("value", ["", "1", "yes"])
def test_what_is_no_boolean_is_refused(value):
    with pytest.raises(ProtocolError, match="committed"):
        from_ext(GetMaxOffset, {"topic": "t", "queueId": "0", "committed": value})


def test_every_header_says_what_it_is():
    assert len(HEADERS) > 35
    assert all(inspect.getdoc(cls) for cls in HEADERS)
