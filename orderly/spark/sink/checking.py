"""Whether all rows can be sent as they are. Pure: numpy, pyarrow.

Columns are looked at as a whole, which says whether something may be wrong somewhere. If so, the
rows are given one after the other to the producer's own checks: they know what it is.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orderly.config import MIB
from orderly.errors import InvalidMessage
from orderly.model import Message
from orderly.producer.pending import check_message
from orderly.protocol import properties as names
from orderly.protocol.properties import MAX_SENT_PROPERTIES, encode_properties
from orderly.spark.sink.property_texts import NAME_END, VALUE_END, entries
from orderly.spark.sink.rows import Rows
from orderly.spark.stamps import ID, STAMPS

# The broker's limit holds for a stored message: to body and properties it adds 91 bytes, the
# topic's name and properties of its own (CommitLog, MessageExtEncoder).
MAX_MESSAGE = 4 * MIB - 1024
_ALWAYS = 3  # properties that every row has: UNIQ_KEY, WAIT, id


def check_rows(rows: Rows, texts: pa.Array, topic: str, *, key_needed: bool) -> None:
    """Refuse rows that the broker would refuse, drop or cut, or that no consumer could tell apart.

    Args:
        rows: to be sent.
        texts: their properties, as `property_texts` makes them.
        topic: where to.
        key_needed: whether a row without a key has no place.

    Raises:
        InvalidMessage: naming the first such row.
    """
    if not _sound(rows, texts, key_needed=key_needed):
        for row in range(len(rows)):
            _check_row(rows, row, texts, topic, key_needed=key_needed)


def _sound(rows: Rows, texts: pa.Array, *, key_needed: bool) -> bool:
    sizes = pc.add(pc.binary_length(rows.body), pc.binary_length(texts))
    return (
        _is_utf8(texts)
        and not (key_needed and rows.key_text is not None and rows.key_text.null_count)
        and _none_empty(rows.body)
        and rows.body.null_count == 0
        and (rows.id is None or rows.id.null_count == 0)
        and all(_none_empty(column) for column in (rows.id, rows.key_text, rows.tag, rows.keys))
        and _tags_fit(rows.tag)
        and _maps_fit(rows.properties)
        and _separators_fit(rows, texts)
        and pc.max(sizes).as_py() <= MAX_MESSAGE
        and pc.max(pc.binary_length(texts)).as_py() <= MAX_SENT_PROPERTIES
    )


def _none_empty(column: pa.Array | None) -> bool:
    return column is None or pc.min(pc.binary_length(column)).as_py() != 0


def _tags_fit(tags: pa.Array | None) -> bool:
    if tags is None:
        return True
    found = tags.unique().drop_null()
    stripped = pc.utf8_trim_whitespace(found)
    return bool(stripped.equals(found)) and not pc.any(pc.match_substring(found, "||")).as_py()


def _maps_fit(maps: pa.Array | None) -> bool:
    if maps is None:
        return True
    found, values, _ = entries(maps)
    return (
        values.null_count == 0
        and _none_empty(values)
        and _none_empty(found)
        and not (names.RESERVED | STAMPS).intersection(found.unique().to_pylist())
    )


def _separators_fit(rows: Rows, texts: pa.Array) -> bool:
    """Whether no value holds a separator: there are as many as there are properties."""
    wanted = len(rows) * (_ALWAYS + (rows.order is not None))
    for column in (rows.key_text, rows.tag, rows.keys):
        wanted += 0 if column is None else len(column) - column.null_count
    if rows.properties is not None:
        wanted += len(entries(rows.properties)[0])
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    return all(np.count_nonzero(data == end) == wanted for end in (NAME_END, VALUE_END))


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _check_row(rows: Rows, row: int, texts: pa.Array, topic: str, *, key_needed: bool) -> None:
    """Ask the producer's checks about one row, and say which row it was."""
    try:
        given = {name: column[row].as_py() for name, column in _columns(rows).items()}
        _check_present(given, key_needed=key_needed)
        found = dict(rows.properties[row].as_py() or ()) if rows.properties is not None else {}
        body, tag = rows.body[row].as_py(), given.get(names.TAGS)
        check_message(Message(topic, body, tags=tag, properties=found), MAX_MESSAGE)
        encode_properties(found | {k: v for k, v in given.items() if v is not None})
        _check_stamps(found)
        _check_size(len(body), len(texts[row].as_py()))
    except (InvalidMessage, UnicodeDecodeError) as error:
        raise InvalidMessage(f"{rows.where(row)}: {error}") from error


def _check_present(given: dict[str, str | None], *, key_needed: bool) -> None:
    if key_needed and given.get(names.SHARDING_KEY) is None:
        raise InvalidMessage("the key is null: without one it has no queue and no order")
    if given.get(ID, "") is None:
        raise InvalidMessage("the id is null: a copy of it could not be recognised")


def _check_stamps(found: dict[str, str]) -> None:
    for name in STAMPS.intersection(found):
        raise InvalidMessage(f"the property {name} is the sink's own; leave it out")


def _columns(rows: Rows) -> dict[str, pa.Array]:
    """The columns that become properties, by the property's name."""
    columns = {
        ID: rows.id,
        names.SHARDING_KEY: rows.key_text,
        names.TAGS: rows.tag,
        names.KEYS: rows.keys,
    }
    return {name: column for name, column in columns.items() if column is not None}


def _check_size(body: int, properties: int) -> None:
    if properties > MAX_SENT_PROPERTIES:
        raise InvalidMessage(
            f"the properties take {properties} bytes, at most {MAX_SENT_PROPERTIES} are allowed;"
            " put large values into the body"
        )
    if body + properties > MAX_MESSAGE:
        raise InvalidMessage(
            f"body and properties take {body + properties} bytes, at most {MAX_MESSAGE} can be sent"
        )
