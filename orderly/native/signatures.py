"""The C calls that are used, as librocketmq's headers declare them: tables, and no call is made.

A message, a producer and a consumer are pointers to what only the library can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_int,
    c_longlong,
    c_void_p,
)
from typing import Any

OK = 0  # of every call that returns a status
CONSUMED, CONSUME_LATER = 0, 1  # what a message callback returns (CConsumeStatus)
CLUSTERING = 1  # CMessageModel

QueueSelector = CFUNCTYPE(c_int, c_int, c_void_p, c_void_p)
"""(number of queues, message, argument of the send) -> index of the queue; not checked there."""

MessageCallback = CFUNCTYPE(c_int, c_void_p, c_void_p)
"""(consumer, message) -> CONSUMED or CONSUME_LATER."""


class StoredMessage(Structure):
    """CSendResult."""

    _fields_ = (("status", c_int), ("message_id", c_char * 256), ("offset", c_longlong))


Signature = tuple[Any, ...]
"""What a call returns, then what it takes."""

_STATUS, _TEXT, _POINTER = c_int, c_char_p, c_void_p
_SETTER: Signature = (_STATUS, _POINTER, _TEXT)
_NUMBER: Signature = (_STATUS, _POINTER, c_int)
_DO: Signature = (_STATUS, _POINTER)
_KEYS: Signature = (_STATUS, _POINTER, _TEXT, _TEXT, _TEXT)

PRODUCING: Mapping[str, Signature] = {
    "CreateMessage": (_POINTER, _TEXT),
    "DestroyMessage": _DO,
    "SetMessageTopic": _SETTER,
    "SetByteMessageBody": (_STATUS, _POINTER, _TEXT, c_int),
    "SetMessageProperty": (_STATUS, _POINTER, _TEXT, _TEXT),
    "CreateProducer": (_POINTER, _TEXT),
    "StartProducer": _DO,
    "ShutdownProducer": _DO,
    "DestroyProducer": _DO,
    "SetProducerNameServerAddress": _SETTER,
    "SetProducerInstanceName": _SETTER,
    "SetProducerSessionCredentials": _KEYS,
    "SetProducerSendMsgTimeout": _NUMBER,
    "SetProducerMaxMessageSize": _NUMBER,
    "SendMessageOrderly": (
        _STATUS, _POINTER, _POINTER, QueueSelector, _POINTER, c_int, POINTER(StoredMessage),
    ),
}  # fmt: skip
"""What a producer needs."""

CONSUMING: Mapping[str, Signature] = {
    "GetMessageTopic": (_TEXT, _POINTER),
    "GetMessageBody": (_POINTER, _POINTER),
    "GetMessageProperty": (_TEXT, _POINTER, _TEXT),
    "GetMessageId": (_TEXT, _POINTER),
    "GetMessageQueueId": (c_int, _POINTER),
    "GetMessageReconsumeTimes": (c_int, _POINTER),
    "GetMessageStoreSize": (c_int, _POINTER),
    "GetMessageBornTimestamp": (c_longlong, _POINTER),
    "GetMessageStoreTimestamp": (c_longlong, _POINTER),
    "GetMessageQueueOffset": (c_longlong, _POINTER),
    "GetMessageCommitLogOffset": (c_longlong, _POINTER),
    "CreatePushConsumer": (_POINTER, _TEXT),
    "StartPushConsumer": _DO,
    "ShutdownPushConsumer": _DO,
    "DestroyPushConsumer": _DO,
    "SetPushConsumerNameServerAddress": _SETTER,
    "SetPushConsumerInstanceName": _SETTER,
    "SetPushConsumerSessionCredentials": _KEYS,
    "SetPushConsumerThreadCount": _NUMBER,
    "SetPushConsumerMessageModel": _NUMBER,
    "Subscribe": (_STATUS, _POINTER, _TEXT, _TEXT),
    "RegisterMessageCallbackOrderly": (_STATUS, _POINTER, MessageCallback),
}
"""What a consumer and its listener need."""

BODY_LENGTH = "GetMessageBodyLength"
NEWER: Mapping[str, Signature] = {
    BODY_LENGTH: (c_int, _POINTER),  # in no release up to 2.2.0
    "GetLatestErrorMessage": (_TEXT,),  # 1.2.5
}
"""What some releases lack."""
