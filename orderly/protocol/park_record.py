"""Messages of a park topic: those set aside of a source queue, and what is to become of them.

A parked message keeps its body, and of its properties those that are harmless to store again; all
else is in one property, `ORDERLY_PARKED`, as JSON. A seal covers body and properties, but not the
head of the stored message: so nothing is read from there that JSON says, too. Commands, their
results and tombstones are readable lines (see `records`). The tag is a hash of the key or the kind
of the record, so that a broker filters by it. Anybody can send to the topic, so everything that is
read is checked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any

from orderly.errors import ProtocolError
from orderly.model import MessageQueue, ReceivedMessage, UndecodableMessage
from orderly.protocol import properties as names
from orderly.protocol.body import (
    INT,
    LIST,
    NATURAL,
    TEXT,
    TEXT_TABLE,
    JsonKind,
    Natural,
    body_of,
    from_json,
    load_object,
    to_json,
)
from orderly.protocol.compression import decompress, is_stored_as, restored, sent_body
from orderly.protocol.ext import of_queue, to_ext, wire
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.java_json import dumps
from orderly.protocol.moments import milliseconds_of, moment_of
from orderly.protocol.parked_key import Key, WrittenKey, key_tag
from orderly.protocol.properties import encode_properties
from orderly.protocol.record_format import SEAL, Kind, LineFormat, Seal, Unknown
from orderly.protocol.send import SendMessage
from orderly.protocol.stored_message import MAX_BODY, SysFlag

# --- commands to the owner of parked keys, their results, and tombstones --------------------------


PARK_VERSION = 1
COMMAND, RESULT, RELEASED = "command", "result", "released"
MAX_OUTCOMES = 200
MOST_OF_TEXT = 300  # characters of a reason, a fingerprint or an error
_MOST_OF_NAME = 200  # characters of a command's id, and of who gave it
_MAX_CONTROL = 256 * 1024  # bytes


class Verb(StrEnum):
    """What is to become of a parked key; of one that is not parked, ADD: it is to be.

    TRY and LOOK change nothing: they report what RELEASE and ADD would come to.
    """

    RELEASE = "release"
    DROP = "drop"
    TRY = "try"
    ADD = "add"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class Command:
    """What an operator wants done with a key.

    Attributes:
        id: new for each command.
        by: who asks, for people.
        at_ms: when (milliseconds since the epoch).
    """

    id: _Name
    verb: Verb
    key: WrittenKey
    by: _Name
    at_ms: Natural = wire("at")


@dataclass(frozen=True, slots=True)
class Result:
    """How far the owner is with a command.

    Attributes:
        id: of the command.
        done: nothing more comes; else it is under way.
        settled: messages settled so far; of ADD and LOOK, that are parked now, or would be.
        failed_at: source offset of the message that was not acknowledged, or None.
        reason: why the command is not, or not wholly, carried out; None: it is.
        outcomes: of Verb.TRY: source offset, and "ok" or the failure's fingerprint; 200 at most.
    """

    id: str
    done: bool = False
    settled: Natural = wire("settled", demanded=True, default=0)
    failed_at: Natural | None = None
    reason: _Short | None = None
    outcomes: _Outcomes = ()


@dataclass(frozen=True, slots=True)
class Released:
    """A tombstone: of this key every parked message below a source offset is settled.

    Attributes:
        token: of the owner that wrote it.
    """

    key: WrittenKey
    below: Natural
    token: Natural


Control = Command | Result | Released


def encode_control(record: Control) -> bytes:
    """Write a record.

    Raises:
        ProtocolError: over 256 KiB.
    """
    return _FORMAT.encode(record)


def decode_control(body: bytes) -> Control | Unknown:
    """Read a record; one of another version becomes Unknown.

    Raises:
        ProtocolError: not such a record, or a damaged one.
    """
    record: Control | Unknown = _FORMAT.decode(body)
    return record


def control_tag(record: Control) -> str:
    """The tag of a record's message, which is its kind."""
    return _FORMAT.kind_of(record)


def short_text(text: str) -> str:
    """Shorten a text of a handler's, to what can be written and shown on one line."""
    shown = "".join(c if c.isprintable() else " " for c in text[:MOST_OF_TEXT])
    return shown.encode("utf-8", "replace").decode()


def _read_name(value: Any, what: str) -> str:
    """A text that can be written again: its answer names it."""
    name = TEXT.read(value, what)
    if len(name) > _MOST_OF_NAME or short_text(name) != name:
        raise ProtocolError(f"{what} of a command is too long, or is not UTF-8")
    return name


def _read_outcomes(value: Any, what: str) -> tuple[tuple[int, str], ...]:
    outcomes = LIST.read(value, what)
    if len(outcomes) > MAX_OUTCOMES:
        raise ProtocolError(f"{len(outcomes)} outcomes of a command; at most {MAX_OUTCOMES}")
    return tuple(map(_outcome, outcomes))


def _outcome(value: Any) -> tuple[int, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise ProtocolError(f"not an outcome of a message: {value!r:.80}")
    return INT.read(value[0], "an outcome's offset"), TEXT.read(value[1], "an outcome")


def _write_outcomes(outcomes: tuple[tuple[int, str], ...]) -> list[Any]:
    return [[at, short_text(text)] for at, text in outcomes[:MAX_OUTCOMES]]


_Name = Annotated[str, JsonKind(_read_name)]
_Short = Annotated[str, JsonKind(TEXT.read, short_text)]
_Outcomes = Annotated[tuple[tuple[int, str], ...], JsonKind(_read_outcomes, _write_outcomes)]

_FORMAT = LineFormat(
    "orderly-park",
    PARK_VERSION,
    _MAX_CONTROL,
    (
        Kind(COMMAND, Command, body_of(Command)),
        Kind(RESULT, Result, body_of(Result)),
        Kind(RELEASED, Released, body_of(Released)),
    ),
)


# --- the request that appends a message to a park queue -------------------------------------------


@dataclass(frozen=True, slots=True)
class ParkMessage:
    """What is to be sent to a park queue.

    Attributes:
        sys_flag: says whether the body is compressed.
        flag: the user's, which is kept.
    """

    properties: dict[str, str]
    body: bytes
    sys_flag: int = 0
    flag: int = 0


def park_request(
    group: str,
    park_queue: MessageQueue,
    content: ParkMessage,
    now: float,
    *,
    seal: Seal | None = None,
    newest: int | None = None,
) -> RemotingCommand:
    """Write the request that appends to a park queue; send it to that queue's master.

    Args:
        group: the consumer group.
        park_queue: where to.
        content: what.
        now: seconds since the epoch.
        seal: put on it; None: none is.
        newest: of a line, the highest position of the park queue by now.

    Raises:
        InvalidMessage: the properties with those of a parked message are too long to be sent.
    """
    properties = content.properties
    if seal is not None and seal.signs:
        properties = seal.put_on(park_queue, properties, _as_read(content), newest)
    header = SendMessage(
        producer_group=group,
        **of_queue(park_queue),
        sys_flag=content.sys_flag,
        born_timestamp=int(now * 1000),
        flag=content.flag,
        properties=encode_properties(properties),
    )
    return request(header.code, to_ext(header), content.body)


def _as_read(content: ParkMessage) -> bytes:
    """The body as it will be read; as it is sent, if it cannot be."""
    if not content.sys_flag & SysFlag.COMPRESSED:
        return content.body
    try:
        return decompress(content.sys_flag >> 8 & 7, content.body, MAX_BODY)
    except ProtocolError:
        return content.body


# --- messages -------------------------------------------------------------------------------------


PARKED = "ORDERLY_PARKED"

# Properties that a broker or a proxy acts upon, or sets itself, are not stored with the parked
# message. A proxy wants messages with a sharding key and those without in topics of different
# types: in the park topic none has one.
_STORED_AGAIN = frozenset({names.KEYS, names.UNIQ_KEY})
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

    key: WrittenKey
    reason: _Short
    attempts: Natural = wire("attempts", demanded=True, default=0)
    fingerprint: _Short | None = None
    first_error: _Short | None = None
    last_error: _Short | None = None
    parked_at: _Moment
    token: Natural


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

    Raises:
        ProtocolError: it could not be read back, and so would be lost.
    """
    content = _written(message, details)
    if names.properties_size(content.properties) > names.MAX_SENT_PROPERTIES:
        without = replace(details, reason="", fingerprint=None, first_error=None, last_error=None)
        content = _written(message, without)
    read_parked(message.changed(properties=content.properties, sys_flag=content.sys_flag))
    return content


def _written(message: ReceivedMessage, details: ParkDetails) -> ParkMessage:
    kept = {name: value for name, value in message.properties.items() if _may_keep(name, value)}
    held_back = {
        name: value
        for name, value in message.properties.items()
        if name not in kept and name != names.TAGS
    }
    why = {"v": PARK_VERSION} | to_json(details)
    record = why | _origin_to_json(message) | {"properties": held_back}
    own = {names.TAGS: key_tag(details.key), names.WAIT: "true", PARKED: dumps(record).decode()}
    body, sys_flag = sent_body(message)
    return ParkMessage(kept | own, body, sys_flag, message.flag)


def parked_again(stored: ReceivedMessage) -> ParkMessage:
    """Write a message of a park queue once more, before the broker deletes it by its age."""
    kept = {name: value for name, value in stored.properties.items() if _may_keep(name, value)}
    own = (names.TAGS, PARKED, SEAL)  # a seal stays right for readers without a secret
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
    version = NATURAL.at(fields, "v")
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


def _origin_to_json(message: ReceivedMessage) -> dict[str, Any]:
    return {
        "topic": message.queue.topic,
        "broker": message.queue.broker_name,
        "queueId": message.queue.queue_id,
        "offset": message.queue_offset,
        "messageId": message.message_id,
        "offsetId": message.offset_message_id,
        "bornTime": milliseconds_of(message.born_time),
        "storeTime": milliseconds_of(message.store_time),
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "physicalOffset": message.physical_offset,
        "reconsumeTimes": message.reconsume_times,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "tags": message.properties.get(names.TAGS),
    }


def _read_parked(stored: ReceivedMessage, fields: dict[str, Any]) -> Parked:
    details = from_json(ParkDetails, fields, "a parked message")
    return Parked(
        _original(stored, fields),
        details,
        stored.queue_offset,
        stored.store_time,
        stored.stored_size,
    )


def _original(stored: ReceivedMessage, fields: dict[str, Any]) -> ReceivedMessage:
    sys_flag = INT.at(fields, "sysFlag")
    unreadable = isinstance(stored, UndecodableMessage)
    if unreadable and not is_stored_as(stored.sys_flag, sys_flag):
        raise ProtocolError("a parked message is marked in another way than it was parked")
    original = ReceivedMessage(
        queue=MessageQueue(
            TEXT.at(fields, "topic"), TEXT.at(fields, "broker"), NATURAL.at(fields, "queueId")
        ),
        queue_offset=NATURAL.at(fields, "offset"),
        body=stored.raw_body,
        properties=_original_properties(stored, fields),
        message_id=TEXT.at(fields, "messageId"),
        offset_message_id=TEXT.at(fields, "offsetId"),
        born_time=_MOMENT.at(fields, "bornTime"),
        store_time=_MOMENT.at(fields, "storeTime"),
        born_host=TEXT.at(fields, "bornHost"),
        store_host=TEXT.at(fields, "storeHost"),
        reconsume_times=INT.at(fields, "reconsumeTimes"),
        flag=INT.at(fields, "flag", stored.flag),  # former releases did not write it
        sys_flag=sys_flag,
        physical_offset=INT.at(fields, "physicalOffset"),
        stored_size=stored.stored_size,
        namespace=stored.namespace,
    )
    if isinstance(stored, UndecodableMessage):
        original = UndecodableMessage(original, stored.why, stored.retriable)
    return restored(original, original.sys_flag)


def _original_properties(stored: ReceivedMessage, fields: dict[str, Any]) -> dict[str, str]:
    kept = {name: value for name, value in stored.properties.items() if _may_keep(name, value)}
    kept.pop(names.UNIQ_KEY, None)  # not sealed: a broker gives one to what has none
    own, message_id = TEXT_TABLE.at(fields, "properties"), TEXT.at(fields, "messageId")
    if message_id != TEXT.at(fields, "offsetId"):
        own[names.UNIQ_KEY] = message_id
    tags = TEXT.at(fields, "tags", None)
    if tags is not None:
        own[names.TAGS] = tags
    return kept | own


def _read_moment(value: Any, what: str) -> float:
    """Seconds since the epoch. Former releases wrote 2^63, which is no 64-bit number any more."""
    if type(value) is not int:
        raise ProtocolError(f"{what} is not a whole number: {value!r:.80}")
    return moment_of(value)


_MOMENT = JsonKind(_read_moment, milliseconds_of)
_Moment = Annotated[float, _MOMENT]
