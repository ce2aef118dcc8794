"""A worker as a pod runs it: probes, a clean end on SIGTERM, settings from the environment.

TOPIC and GROUP say what it consumes, PROBE_HOST and PROBE_PORT where it is asked; ORDERLY_… are the
fields of ClientConfig and ConsumerConfig (`worker.yaml`, `config.yaml`).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from orderly import (
    Ack,
    Client,
    ClientConfig,
    ConsumeContext,
    ConsumerConfig,
    OrderlyConsumer,
    ReceivedMessage,
)
from orderly.consumer.probe import Probe

log = logging.getLogger("worker")


def handle(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Ack:
    """Do your work here: messages of one key, one at a time."""
    for message in messages:
        log.info("handled %s %s %d", context.key, message.queue, message.queue_offset)
    return Ack()


def main() -> None:
    """Consume until SIGTERM, which Kubernetes sends before it ends a pod."""
    config = ConsumerConfig.from_env(order="key", consume_from="first")
    with Client(ClientConfig.from_env()) as client:
        consumer = OrderlyConsumer(os.environ["GROUP"], handle, client=client, config=config)
        where = os.environ["PROBE_HOST"]
        probe = Probe(int(os.environ["PROBE_PORT"]), consumer.health, where)
        with probe, consumer.subscribe(os.environ["TOPIC"]):
            log.info("consuming")
            consumer.wait()
    log.info("closed: handlers ended, offsets saved, queues free for the next pod")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    main()
