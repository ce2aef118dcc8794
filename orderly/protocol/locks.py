"""The queue lock: the bodies that lock and unlock queues, and what the broker answers.

These requests have no header fields: all is in the body.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from orderly.model import MessageQueue
from orderly.protocol.body import QUEUE, list_of, load_object, read_body, write_body
from orderly.protocol.ext import wire
from orderly.protocol.java_json import dumps


@dataclass(frozen=True, slots=True)
class LockRequest:
    """Who asks to lock, or to unlock, which queues (LockBatchRequestBody)."""

    also: ClassVar = {"onlyThisBroker": False}

    group: str = wire("consumerGroup")
    client_id: str = wire("clientId")
    queues: tuple[MessageQueue, ...] = wire("mqSet")


def lock_request(group: str, client_id: str, queues: Iterable[MessageQueue]) -> bytes:
    """Write the body that asks to lock or to unlock `queues`."""
    return write_body(LockRequest(group, client_id, tuple(queues)))


def decode_lock_request(body: bytes) -> LockRequest:
    """Read what `lock_request` writes.

    Raises:
        ProtocolError: not such a request; group and client must be there.
    """
    return read_body(LockRequest, body)


_LOCKED = "lockOKMQSet"
_QUEUES = list_of(QUEUE)


def encode_locked(queues: Iterable[MessageQueue]) -> bytes:
    """Write which queues the client holds now (LockBatchResponseBody)."""
    return dumps({_LOCKED: _QUEUES.write(queues)})


def decode_locked(body: bytes) -> frozenset[MessageQueue]:
    """Read which of the requested queues the client now holds (LockBatchResponseBody)."""
    return frozenset(_QUEUES.at(load_object(body), _LOCKED))
