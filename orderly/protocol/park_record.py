"""Messages of a park topic: those set aside of a source queue, and what is to become of them.

A parked message keeps its body, and of its properties those that are harmless to store again; all
else is in one property, `ORDERLY_PARKED`, as JSON. Commands, their results and tombstones are
readable lines (see `record_line`). The tag is a hash of the key or the kind of the record, so that
a broker filters by it. Anybody may send to the topic: whatever is read is checked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from orderly.errors import ProtocolError
from orderly.model import MessageQueue, ReceivedMessage, UndecodableMessage
from orderly.protocol import properties as names
from orderly.protocol.compression import restored, sent_body
from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import int_in, load_object, natural_in, object_in, text_in
from orderly.protocol.park_control import (
    COMMAND,
    PARK_VERSION,
    RELEASED,
    RESULT,
    Command,
    Control,
    Released,
    Result,
    Verb,
    control_tag,
    decode_control,
    encode_control,
    short_text,
)
from orderly.protocol.park_request import ParkMessage, park_request
from orderly.protocol.parked_key import Key, as_key, key_tag
from orderly.protocol.record_line import Unknown
from orderly.protocol.seal import SEAL

__all__ = [
    "COMMAND",
    "PARKED",
    "RELEASED",
    "RESULT",
    "Command",
    "Control",
    "ParkDetails",
    "ParkMessage",
    "Parked",
    "Released",
    "Result",
    "Unknown",
    "Verb",
    "control_message",
    "park_message",
    "park_request",
    "parked_again",
    "read_park",
    "read_parked",
]

PARKED = "ORDERLY_PARKED"
_LAST_MOMENT = 253_402_300_799_999  # milliseconds; the end of the year 9999

# What a broker acts upon, or sets anew, is not stored as a property of the parked message.
_STORED_AGAIN = frozenset({names.KEYS, names.UNIQ_KEY, names.SHARDING_KEY})
_HELD_BACK = (names.RESERVED - _STORED_AGAIN) | {PARKED, SEAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkDetails:
    """Why a message was parked, and when.

    Attributes:
        key: of its lane.
        reason: for people. It and the texts below are cut to 300 characters.
        attempts: how often it was tried; 0: it waits only because of an earlier one of its key.
        fingerprint, first_error, last_error: of its attempts, or None.
        parked_at: seconds since the epoch.
        token: of the owner that parked it.
    """

    key: Key
    reason: str
    attempts: int = 0
    fingerprint: str | None = None
    first_error: str | None = None
    last_error: str | None = None
    parked_at: float
    token: int


@dataclass(frozen=True, slots=True)
class Parked:
    """A parked message.

    Attributes:
        original: as it was received from its source queue.
        details: why it was parked.
        position: in the park queue.
        stored_at: when it was stored there (seconds since the epoch).
        size: bytes it takes there.
    """

    original: ReceivedMessage
    details: ParkDetails
    position: int
    stored_at: float
    size: int

    @property
    def key(self) -> Key:
        """Of its lane."""
        return self.details.key

    @property
    def offset(self) -> int:
        """In its source queue."""
        return self.original.queue_offset


def park_message(message: ReceivedMessage, details: ParkDetails) -> ParkMessage:
    """Write a message as it is parked.

    Args:
        message: as it was received from its source queue.
        details: why it is parked. Where its own properties leave no room, the texts are left out.
    """
    whole = _written(message, details)
    if names.properties_size(whole.properties) <= names.MAX_SENT_PROPERTIES:
        return whole
    return _written(
        message, replace(details, reason="", fingerprint=None, first_error=None, last_error=None)
    )


def _written(message: ReceivedMessage, details: ParkDetails) -> ParkMessage:
    kept = {name: value for name, value in message.properties.items() if _may_keep(name, value)}
    held_back = {
        name: value
        for name, value in message.properties.items()
        if name not in kept and name != names.TAGS
    }
    told = _details_to_json(details) | _origin_to_json(message) | {"properties": held_back}
    own = {names.TAGS: key_tag(details.key), names.WAIT: "true", PARKED: dumps(told).decode()}
    body, sys_flag = sent_body(message)
    return ParkMessage(kept | own, body, sys_flag, message.flag)


def parked_again(stored: ReceivedMessage) -> ParkMessage:
    """Write a message of a park queue once more, before the broker deletes it by its age."""
    kept = {name: value for name, value in stored.properties.items() if _may_keep(name, value)}
    own = (names.TAGS, PARKED, SEAL)  # a seal stays right, for who has no secret
    same = {name: stored.properties[name] for name in own if name in stored.properties}
    body, sys_flag = sent_body(stored)
    return ParkMessage(kept | same | {names.WAIT: "true"}, body, sys_flag, stored.flag)


def control_message(record: Control) -> ParkMessage:
    """Write a command, its result or a tombstone as it is sent to a park queue.

    Raises:
        ProtocolError: it is too large.
    """
    own = {names.TAGS: control_tag(record), names.WAIT: "true"}
    return ParkMessage(own, encode_control(record))


def read_park(stored: ReceivedMessage) -> Parked | Control | Unknown:
    """Read any message of a park queue; Unknown is a newer release's.

    Raises:
        ProtocolError: it is foreign or damaged: pass it over.
    """
    text = stored.properties.get(PARKED)
    if text is None:
        return decode_control(stored.body)
    fields = load_object(text.encode())
    version = natural_in(fields, "v")
    return Unknown(version) if version != PARK_VERSION else _read_parked(stored, fields)


def read_parked(stored: ReceivedMessage) -> Parked:
    """Read a parked message.

    Raises:
        ProtocolError: it is something else, damaged, or a newer release's.
    """
    parked = read_park(stored)
    if not isinstance(parked, Parked):
        raise ProtocolError(f"position {stored.queue_offset} of {stored.queue} is not a parked one")
    return parked


def _may_keep(name: str, value: str) -> bool:
    return name not in _HELD_BACK and "\x01" not in value


def _details_to_json(details: ParkDetails) -> dict[str, Any]:
    return {
        "v": PARK_VERSION,
        "key": details.key,
        "reason": _short(details.reason),
        "attempts": details.attempts,
        "fingerprint": _short(details.fingerprint),
        "firstError": _short(details.first_error),
        "lastError": _short(details.last_error),
        "parkedAt": round(details.parked_at * 1000),
        "token": details.token,
    }


def _short(text: str | None) -> str | None:
    return None if text is None else short_text(text)


def _origin_to_json(message: ReceivedMessage) -> dict[str, Any]:
    return {
        "topic": message.queue.topic,
        "broker": message.queue.broker_name,
        "queueId": message.queue.queue_id,
        "offset": message.queue_offset,
        "messageId": message.message_id,
        "offsetId": message.offset_message_id,
        "bornTime": round(message.born_time * 1000),
        "storeTime": round(message.store_time * 1000),
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "physicalOffset": message.physical_offset,
        "reconsumeTimes": message.reconsume_times,
        "sysFlag": message.sys_flag,
        "tags": message.properties.get(names.TAGS),
    }


def _read_parked(stored: ReceivedMessage, fields: dict[str, Any]) -> Parked:
    details = ParkDetails(
        key=as_key(fields.get("key")),
        reason=text_in(fields, "reason"),
        attempts=natural_in(fields, "attempts"),
        fingerprint=_text_or_none(fields, "fingerprint"),
        first_error=_text_or_none(fields, "firstError"),
        last_error=_text_or_none(fields, "lastError"),
        parked_at=_moment(fields, "parkedAt"),
        token=natural_in(fields, "token"),
    )
    return Parked(
        _original(stored, fields),
        details,
        stored.queue_offset,
        stored.store_time,
        stored.stored_size,
    )


def _original(stored: ReceivedMessage, fields: dict[str, Any]) -> ReceivedMessage:
    original = ReceivedMessage(
        queue=MessageQueue(
            text_in(fields, "topic"), text_in(fields, "broker"), natural_in(fields, "queueId")
        ),
        queue_offset=natural_in(fields, "offset"),
        body=stored.raw_body,
        properties=_original_properties(stored, fields),
        message_id=text_in(fields, "messageId"),
        offset_message_id=text_in(fields, "offsetId"),
        born_time=_moment(fields, "bornTime"),
        store_time=_moment(fields, "storeTime"),
        born_host=text_in(fields, "bornHost"),
        store_host=text_in(fields, "storeHost"),
        reconsume_times=int_in(fields, "reconsumeTimes"),
        flag=stored.flag,
        sys_flag=int_in(fields, "sysFlag"),
        physical_offset=int_in(fields, "physicalOffset"),
        stored_size=stored.stored_size,
        namespace=stored.namespace,
    )
    if isinstance(stored, UndecodableMessage):
        original = UndecodableMessage(original, stored.why, stored.retriable)
    return restored(original, original.sys_flag)


def _original_properties(stored: ReceivedMessage, fields: dict[str, Any]) -> dict[str, str]:
    kept = {name: value for name, value in stored.properties.items() if _may_keep(name, value)}
    held_back = object_in(fields, "properties")
    told = {name: text_in(held_back, name) for name in held_back}
    tags = _text_or_none(fields, "tags")
    return kept | told | ({} if tags is None else {names.TAGS: tags})


def _text_or_none(fields: dict[str, Any], name: str) -> str | None:
    return None if fields.get(name) is None else text_in(fields, name)


def _moment(fields: dict[str, Any], name: str) -> float:
    """Seconds since the epoch. A producer may send any number: it is kept to what is a time."""
    return min(max(int_in(fields, name), 0), _LAST_MOMENT) / 1000
