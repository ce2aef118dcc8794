"""The request a batch travels in, and what an error in answer to it means."""

from __future__ import annotations

from collections.abc import Sequence

from orderly.client.sending import Stored
from orderly.errors import (
    BrokerBusy,
    BrokerError,
    BrokerUnavailable,
    LifecycleError,
    OrderlyError,
    RemotingError,
)
from orderly.model import MessageQueue, SendResult
from orderly.ordering.sending.batch import Batch, E, Verdict
from orderly.producer.pending import PendingSend
from orderly.protocol.codes import ResponseCode
from orderly.protocol.command import RemotingCommand, request
from orderly.protocol.headers import SendBatch, SendMessage, to_ext
from orderly.protocol.outgoing import encode_batch

_BAD_MESSAGE = frozenset({ResponseCode.MESSAGE_ILLEGAL, ResponseCode.INVALID_PARAMETER})


def send_command(
    group: str,
    queue: MessageQueue,
    entries: Sequence[PendingSend],
    now: float,
    *,
    oneway: bool = False,
) -> RemotingCommand:
    """Make the request: 310 for one message, 320 for several.

    Args:
        group: the producer group.
        queue: where to.
        entries: at least one; several have the same `sys_flag`, which the broker gives to each.
        now: seconds since the epoch, the messages' born time.
        oneway: without a reply.
    """
    first = entries[0]
    if len(entries) == 1:
        kind, properties, body = SendMessage, first.properties, first.body
    else:
        kind, properties = SendBatch, None
        body = encode_batch((entry.body, entry.properties, 0) for entry in entries)
    header = kind(
        producer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        sys_flag=first.sys_flag,
        born_timestamp=int(now * 1000),
        properties=properties,
        broker_name=queue.broker_name,
    )
    return request(kind.code, to_ext(header), body, oneway=oneway)


def results_of(
    queue: MessageQueue, entries: Sequence[PendingSend], stored: Stored
) -> list[tuple[PendingSend, SendResult]]:
    """Give each message of a stored batch its result: offsets follow each other."""
    ids = stored.offset_message_ids
    padded = ids if len(ids) == len(entries) else ids[:1] * len(entries)
    return [
        (
            entry,
            SendResult(
                queue, stored.queue_offset + place, entry.message_id, padded[place], stored.status
            ),
        )
        for place, entry in enumerate(entries)
    ]


def verdict_on(error: OrderlyError, batch: Batch[E], *, sent: bool) -> Verdict:
    """Say what a failed attempt means for the batch.

    A generic failure (code 1) is what a broker makes of a batch that one message spoils, but also
    of its own trouble: a batch is split, a single message is retried as if unanswered.

    Args:
        error: what the attempt ended with.
        batch: what was sent.
        sent: False: the request did not go out.
    """
    if isinstance(error, LifecycleError):
        return Verdict.REFUSED
    if not sent or isinstance(error, BrokerBusy | BrokerUnavailable):
        return Verdict.NOT_STORED
    if isinstance(error, RemotingError):
        return Verdict.UNKNOWN
    code = error.code if isinstance(error, BrokerError) else None
    if code == ResponseCode.SYSTEM_ERROR:
        return Verdict.BAD_MESSAGE if len(batch.entries) > 1 else Verdict.UNKNOWN
    return Verdict.BAD_MESSAGE if code in _BAD_MESSAGE else Verdict.REFUSED
