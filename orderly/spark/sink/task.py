"""One task of a write: sends a partition's rows and tells what it sent. No pyspark."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from orderly.client import Client
from orderly.errors import OrderlyError, RemotingError, RouteError, TopicNotFound
from orderly.log import get_logger
from orderly.model import MessageQueue
from orderly.producer.message_ids import MessageIds
from orderly.producer.topics import Topics
from orderly.selectors import KEYED
from orderly.spark.sink.clustering import KeySample, key_sample
from orderly.spark.sink.encoder import Encoder
from orderly.spark.sink.plan import Plan
from orderly.spark.sink.sending import Sending, Sent

_log = get_logger("orderly.spark")
_ROUTE_PATIENCE = 30.0  # seconds that a broker may be away when a task begins
_LOOK_AGAIN = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task did, after every message was acknowledged. Picklable.

    Attributes:
        partition: its number.
        sent: how many messages.
        keys: which keys, see `clustering`.
    """

    partition: int
    sent: Sent
    keys: KeySample


def send_partition(plan: Plan, partition: int, batches: Iterable[pa.RecordBatch]) -> Outcome:
    """Send all rows of a partition.

    Args:
        plan: of the write.
        partition: its number.
        batches: its rows, in order.

    Returns:
        When the last message is acknowledged.

    Raises:
        InvalidMessage: a row that cannot be sent; rows before it may be in the topic.
        SendFailed: a message was given up; rows before it are in the topic, and none behind it in
            its queue.
        LayoutChanged: the topic's queues are not those that the plan counts on; nothing was sent.
    """
    with plan.access.client() as client:
        queues = _queues(client, plan)
        if plan.selector in KEYED:
            queues = KEYED[plan.selector].counted(queues)
        encoder = Encoder(plan, partition, len(queues), MessageIds(client.client_id))
        with Sending(client, queues, max_batch_bytes=plan.max_batch_bytes) as sending:
            for batch in batches:
                for piece in encoder.encode(batch):
                    sending.put(piece)
            sent = sending.finish()
    return Outcome(partition, sent, key_sample(encoder.keys))


def _queues(client: Client, plan: Plan) -> Sequence[MessageQueue]:
    """The topic's queues by the plan's layout; waits for brokers that restart."""
    topics = Topics(client.routes, plan.layout, _log)
    deadline = time.monotonic() + _ROUTE_PATIENCE
    while True:
        try:
            return topics.queues(plan.topic, ordered=True)
        except (RouteError, TopicNotFound, RemotingError) as error:
            if time.monotonic() > deadline:
                raise
            _log.info("sink.route_awaited", topic=plan.topic, error=_first_line(error))
        time.sleep(_LOOK_AGAIN)


def _first_line(error: OrderlyError) -> str:
    return str(error).partition("\n")[0]
