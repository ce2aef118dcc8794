"""Parked messages as lines of JSON in a file: kept beyond the broker's removal by age."""

from __future__ import annotations

import errno
import json
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from orderly.durable_file import replacing
from orderly.model import ReceivedMessage, UndecodableMessage
from orderly.protocol.park_record import Parked


def write_lines(path: Path, group: str, messages: Iterable[Parked]) -> int:
    """Write messages to a file that appears, or is replaced, when it is whole; returns how many.

    Raises:
        OSError: it cannot be written, or is a device, say; the file is as it was.
    """
    path = path.resolve()  # a link to it stays one
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file")
    count = 0
    with replacing(path) as file:
        for message in messages:
            file.write(f"{json.dumps(exported(group, message))}\n".encode("ascii"))
            count += 1
    return count


def exported(group: str, message: Parked) -> dict[str, Any]:
    """Everything that is known of a parked message; times are seconds since the epoch."""
    source, details = message.original, message.details
    return {
        "group": group,
        "topic": source.queue.topic,
        "broker": source.queue.broker_name,
        "queue": source.queue.queue_id,
        "offset": source.queue_offset,
        "key": message.key,
        "message_id": source.message_id,
        "born_time": source.born_time,
        "store_time": source.store_time,
        "attempts": details.attempts,
        "reason": details.reason,
        "fingerprint": details.fingerprint,
        "first_error": details.first_error,
        "last_error": details.last_error,
        "parked_at": details.parked_at,
        "properties": dict(source.properties),
        "body_base64": b64encode(source.raw_body).decode("ascii"),
    } | _unread(source)


def _unread(source: ReceivedMessage) -> dict[str, Any]:
    """Of a body that cannot be read, why, and the flags that say how its bytes were written."""
    if not isinstance(source, UndecodableMessage):
        return {}
    return {"undecodable": source.why, "sys_flag": source.sys_flag}
