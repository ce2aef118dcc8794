"""The queue lock: the bodies that lock and unlock queues, and what the broker answers.

These requests have no header fields: all is in the body.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orderly.model import MessageQueue
from orderly.protocol.java_json import (
    dumps,
    load_object,
    objects_in,
    queue_from_json,
    queue_to_json,
    text_in,
)


def lock_request(group: str, client_id: str, queues: Iterable[MessageQueue]) -> bytes:
    """Write the body that asks to lock or to unlock `queues` (LockBatchRequestBody)."""
    return dumps(
        {
            "consumerGroup": group,
            "clientId": client_id,
            "onlyThisBroker": False,
            "mqSet": [queue_to_json(queue) for queue in queues],
        }
    )


def decode_locked(body: bytes) -> frozenset[MessageQueue]:
    """Read which of the requested queues the client now holds (LockBatchResponseBody)."""
    return frozenset(map(queue_from_json, objects_in(load_object(body), "lockOKMQSet")))


@dataclass(frozen=True, slots=True)
class LockRequest:
    """Who asks to lock, or to unlock, which queues."""

    group: str
    client_id: str
    queues: tuple[MessageQueue, ...]


def decode_lock_request(body: bytes) -> LockRequest:
    """Read what `lock_request` writes (LockBatchRequestBody).

    Raises:
        ProtocolError: not such a request; group and client must be there.
    """
    fields = load_object(body)
    return LockRequest(
        text_in(fields, "consumerGroup"),
        text_in(fields, "clientId"),
        tuple(map(queue_from_json, objects_in(fields, "mqSet"))),
    )


def encode_locked(queues: Iterable[MessageQueue]) -> bytes:
    """Write which queues the client holds now (LockBatchResponseBody)."""
    return dumps({"lockOKMQSet": [queue_to_json(queue) for queue in queues]})
