"""A broker that gives large pulls, and topics filled in the order of their keys."""

import time

from benchmarks.backlog_fixture import Asking, of_header, wait_visible
from orderly.protocol.properties import encode_properties
from orderly.protocol.send import SendBatch, encode_batch
from orderly.testing import EmbeddedBroker

BATCH = 500  # messages sent at once
BODY = b"x" * 64
SEQ_PROPERTY = "oseq"
FAULTY = (
    10_007  # of so many messages of a queue one has too high a number: the next is an inversion
)

# What docs/how-to/spark.md tells: without them a pull brings 32 messages, from the broker's disk 8.
LARGE_PULLS = {
    "maxTransferCountOnMessageInMemory": "4096",
    "maxTransferCountOnMessageInDisk": "4096",
    "maxTransferBytesOnMessageInMemory": str(4 * 1024 * 1024),
    "maxTransferBytesOnMessageInDisk": str(4 * 1024 * 1024),
}


def large_broker(**more):
    """A local broker as a user who reads history sets it; `more` settings win."""
    return EmbeddedBroker(
        broker_properties={**LARGE_PULLS, **more},
        java_options=["-XX:TieredStopAtLevel=4", "-Xmx1g"],
    )


def fill(client, topic, messages, *, queues=8, keys=20_000, hot=0.0):
    """Make a topic of messages whose `oseq` counts up within each key, but for a few.

    Args:
        client: of the broker.
        topic: its name.
        messages: how many; every queue gets as many.
        queues: of the topic.
        keys: of the messages that are not of the hot key; a key has one queue.
        hot: the share of the messages of one key, which goes through every queue in turn.
    """
    client.admin.create_topic(topic, queues)
    _, data = min(client.admin.cluster().brokers.items())
    asking = Asking(client, data.master, lambda text: None)
    rounds = messages // (BATCH * queues)
    assert rounds * BATCH * queues == messages, "messages must fill all batches"
    for number in range(rounds):
        # One batch of a queue in flight: the broker does not keep the order of more.
        asking.all(
            "messages",
            queues,
            [
                _send(topic, queue_id, _batch(queue_id, queues, number * BATCH, keys, hot))
                for queue_id in range(queues)
            ],
        )
    wait_visible(client, topic, messages // queues)


def _send(topic, queue_id, body):
    born = round(time.time() * 1000)
    header = SendBatch(producer_group="bench", topic=topic, queue_id=queue_id, born_timestamp=born)
    return of_header(header, body)


def _batch(queue_id, queues, first, keys, hot):
    own = max(keys // queues, 1)
    return encode_batch(
        (BODY, encode_properties(_properties(queue_id, own, n, hot)), 0)
        for n in range(first, first + BATCH)
    )


def _properties(queue_id, own, n, hot):
    """Of the n-th message of a queue."""
    is_hot = queue_id == 0 and hot and n % 100 < hot * 100
    key = "hot" if is_hot else f"key-{queue_id}-{n % own}"
    return {
        "UNIQ_KEY": f"{queue_id:016X}{n:016X}",
        "__SHARDINGKEY": key,
        SEQ_PROPERTY: str((n if is_hot else n // own) + (2 if n % FAULTY == 0 else 0)),
        "TAGS": "created",
        "WAIT": "true",
    }
