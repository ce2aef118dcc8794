"""Fields of JSON objects, checked: what is there must have the right type.

A field that is null counts as missing, since Java leaves null fields out.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.java_json import ObjectKeyed, dumps, loads

E = TypeVar("E", bound=StrEnum)

# An answer tells queues by their number: a few bytes of it stand for as many objects as it likes.
MAX_QUEUES = 65536  # of one topic, on all brokers together
MAX_LISTED_QUEUES = 16 * MAX_QUEUES  # of all topics of one answer
MAX_ADDRESSES = 4096  # of the brokers of one answer: a client may connect to each


def load_object(body: bytes) -> dict[str, Any]:
    """Read a body that must be one JSON object; an empty body is an empty object."""
    return as_object(loads(body), "the body") if body else {}


def as_object(value: Any, what: str) -> dict[str, Any]:
    """Return `value` if it is an object, else raise ProtocolError naming `what`."""
    if not isinstance(value, dict):
        raise ProtocolError(f"{what} is not a JSON object: {value!r:.80}")
    return value


def object_in(source: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object in field `name`; missing is empty."""
    value = source.get(name)
    return {} if value is None else as_object(value, repr(name))


def list_in(source: dict[str, Any], name: str) -> list[Any]:
    """Return the list in field `name`; missing is empty."""
    value = source.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ProtocolError(f"{name!r} is not a JSON list: {value!r:.80}")
    return value


def objects_in(source: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the list of objects in field `name`; missing is empty."""
    return [as_object(item, f"an entry of {name!r}") for item in list_in(source, name)]


def texts_in(source: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return the list of strings in field `name`; missing is empty."""
    return tuple(as_text(item, f"an entry of {name!r}") for item in list_in(source, name))


def as_text(value: Any, what: str) -> str:
    """Return `value` if it is a string, else raise ProtocolError naming `what`."""
    if not isinstance(value, str):
        raise ProtocolError(f"{what} is not a string: {value!r:.80}")
    return value


def text_in(source: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return the string in field `name`; missing is `default`, or an error without one."""
    value = source.get(name)
    return as_text(default if value is None else value, repr(name))


def member_in(source: dict[str, Any], name: str, kind: type[E]) -> E:
    """Return the member of `kind` that the string in field `name` stands for."""
    text = text_in(source, name)
    try:
        return kind(text)
    except ValueError as error:
        raise ProtocolError(f"{text!r:.80} is no {kind.__name__}") from error


def as_int(value: Any, what: str) -> int:
    """Return `value` if it is a 64-bit integer, else raise ProtocolError naming `what`."""
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ProtocolError(f"{what} is not a 64-bit integer: {value!r:.80}")
    return value


def int_in(source: dict[str, Any], name: str, default: int | None = None) -> int:
    """Return the integer in field `name`; missing is `default`, or an error without one."""
    value = source.get(name)
    return as_int(default if value is None else value, repr(name))


def natural_in(source: dict[str, Any], name: str, default: int | None = None) -> int:
    """Return the integer in field `name`, which must not be below 0; see `int_in`."""
    value = int_in(source, name, default)
    if value < 0:
        raise ProtocolError(f"{name!r} is {value}; at least 0 is possible")
    return value


def natural_or_none(source: dict[str, Any], name: str) -> int | None:
    """The same; None if it is missing."""
    return None if source.get(name) is None else natural_in(source, name)


def bool_in(source: dict[str, Any], name: str, default: bool = False) -> bool:
    """Return the boolean in field `name`; missing is `default`."""
    value = source.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ProtocolError(f"{name!r} is not a boolean: {value!r:.80}")
    return value


def number_in(source: dict[str, Any], name: str, default: float = 0.0) -> float:
    """Return the number in field `name`, whole or not; missing is `default`."""
    value = source.get(name)
    if value is None:
        return default
    if type(value) not in (int, float):
        raise ProtocolError(f"{name!r} is not a number: {value!r:.80}")
    try:
        return float(value)
    except OverflowError as error:
        raise ProtocolError(f"{name!r} is a number out of range: {value!r:.80}") from error


def time_in(source: dict[str, Any], name: str) -> float:
    """Return the milliseconds since the epoch in field `name` as seconds; missing is 0.0."""
    return int_in(source, name, 0) / 1000


def count_in(source: dict[str, Any], name: str) -> int:
    """Return the number of queues in field `name`: 0 to MAX_QUEUES."""
    count = int_in(source, name)
    if not 0 <= count <= MAX_QUEUES:
        raise ProtocolError(f"{name!r} is {count}; 0 to {MAX_QUEUES} queues are possible")
    return count


def check_total(total: int, limit: int, what: str) -> None:
    """Refuse an answer that tells more than `limit`; `what` names what is counted, and whose."""
    if total > limit:
        raise ProtocolError(f"{total} {what} are told; at most {limit} are possible")


def data_version_in(source: dict[str, Any]) -> str:
    """Return the version of a broker's table as the text that asks for its next page."""
    return dumps(object_in(source, "dataVersion")).decode()


def queue_from_json(value: Any) -> MessageQueue:
    """Read a message queue as Java's MessageQueue is written."""
    fields = as_object(value, "a message queue")
    return MessageQueue(
        text_in(fields, "topic"), text_in(fields, "brokerName"), int_in(fields, "queueId")
    )


def queue_from_key(key: str) -> MessageQueue:
    """Read a message queue used as a key, in the text form `java_json.loads` gives it."""
    return queue_from_json(loads(key.encode("utf-8", "surrogatepass")))


def queue_to_json(queue: MessageQueue) -> dict[str, Any]:
    """Return `queue` as the object Java reads as a MessageQueue."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def queue_table(table: Mapping[MessageQueue, Any]) -> ObjectKeyed:
    """Return `table` as what Java reads as a Map with MessageQueue keys, sorted by queue."""
    return ObjectKeyed(tuple((queue_to_json(queue), table[queue]) for queue in sorted(table)))


def queue_table_in(source: dict[str, Any], name: str) -> dict[MessageQueue, Any]:
    """Return the object in field `name` whose keys are message queues; missing is empty."""
    return {queue_from_key(key): value for key, value in object_in(source, name).items()}


def offset_table_in(source: dict[str, Any], name: str) -> dict[MessageQueue, int]:
    """Return the offset of each queue in field `name`; missing is empty."""
    table = queue_table_in(source, name)
    return {queue: as_int(offset, f"the offset of {queue}") for queue, offset in table.items()}
