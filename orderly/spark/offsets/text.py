"""Offsets and queues as JSON: `{"topic": {"broker": {"0": 123}}}`.

The same shape everywhere: in options, in checkpoints of streams, beside the result of a job.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from orderly.errors import ConfigError
from orderly.model import MessageQueue

EARLIEST, LATEST = -2, -1
"""Stand for the oldest message and for the end, as in Spark's Kafka source."""
Table = dict[str, dict[str, Any]]

_OFFSETS = '{"topic": {"broker": {"0": 123}}}, with -2 for the oldest message and -1 for the end'
_QUEUES = '{"topic": {"broker": [0, 1]}}'
_SHOWN = 80  # characters of a text that could not be read


def dumps(offsets: Mapping[MessageQueue, int]) -> str:
    """Write offsets; equal offsets give equal texts."""
    return json.dumps(to_object(offsets), separators=(",", ":"))


def loads(text: str, what: str = "offsets") -> dict[MessageQueue, int]:
    """Read offsets.

    Args:
        text: JSON.
        what: the option's name, for the error.

    Raises:
        ConfigError: it is no JSON, or of another shape; the text says where.
    """
    return from_object(_parsed(text, what, _OFFSETS), what)


def to_object(offsets: Mapping[MessageQueue, int]) -> Table:
    """Offsets as nested tables with texts as keys, sorted by queue."""
    table: Table = {}
    for queue, offset in sorted(offsets.items()):
        table.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = (
            offset
        )
    return table


def from_object(value: object, what: str = "offsets") -> dict[MessageQueue, int]:
    """Read offsets from what `to_object` or a JSON parser made.

    Raises:
        ConfigError: another shape.
    """
    found: dict[MessageQueue, int] = {}
    for topic, broker, queues in _brokers(value, what, _OFFSETS):
        _require(isinstance(queues, dict), what, f"{topic}/{broker}", queues, _OFFSETS)
        for queue_id, offset in queues.items():
            where = f"{topic}/{broker}/{queue_id}"
            _require(queue_id.isascii() and queue_id.isdigit(), what, where, queue_id, _OFFSETS)
            _require(_is_int(offset) and offset >= EARLIEST, what, where, offset, _OFFSETS)
            found[MessageQueue(topic, broker, int(queue_id))] = offset
    return found


def dumps_queues(queues: Iterable[MessageQueue]) -> str:
    """Write queues: `{"topic": {"broker": [0, 1]}}`."""
    table: dict[str, dict[str, list[int]]] = {}
    for queue in sorted(set(queues)):
        table.setdefault(queue.topic, {}).setdefault(queue.broker_name, []).append(queue.queue_id)
    return json.dumps(table, separators=(",", ":"))


def loads_queues(text: str, what: str = "assign") -> frozenset[MessageQueue]:
    """Read queues.

    Raises:
        ConfigError: it is no JSON, of another shape, or names no queue.
    """
    found: set[MessageQueue] = set()
    for topic, broker, ids in _brokers(_parsed(text, what, _QUEUES), what, _QUEUES):
        _require(isinstance(ids, list), what, f"{topic}/{broker}", ids, _QUEUES)
        for queue_id in ids:
            _require(
                _is_int(queue_id) and queue_id >= 0, what, f"{topic}/{broker}", queue_id, _QUEUES
            )
            found.add(MessageQueue(topic, broker, queue_id))
    if not found:
        raise ConfigError(f"{what} names no queue; write {_QUEUES}")
    return frozenset(found)


def _brokers(value: object, what: str, shape: str) -> Iterable[tuple[str, str, Any]]:
    _require(isinstance(value, dict), what, "the whole", value, shape)
    assert isinstance(value, dict)
    for topic, brokers in value.items():
        _require(isinstance(brokers, dict), what, topic, brokers, shape)
        for broker, content in brokers.items():
            yield topic, broker, content


def _parsed(text: str, what: str, shape: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except ValueError as error:
        raise ConfigError(f"{what}={_cut(text)} is no JSON ({error}); write {shape}") from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table; JSON parsers keep the last of two equal names, and drop an offset in silence."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError(f"a name is there twice among {', '.join(name for name, _ in pairs)}")
    return table


def _require(condition: bool, what: str, where: str, value: object, shape: str) -> None:
    if not condition:
        raise ConfigError(f"{what}: {where} is {_cut(json.dumps(value))}; write {shape}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
