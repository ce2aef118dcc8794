"""A service that ends cleanly on SIGTERM (docker stop, Kubernetes, systemd) or Ctrl-C.

    ORDERLY_NAMESRV=localhost:9876 python examples/sigterm.py GROUP TOPIC

`consumer.wait()` does that. If you write your own signal handler, it must only set a flag: it runs
between any two steps of the main thread, which can hold the very lock that the handler needs.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence

from orderly import Ack, ConsumeContext, ConsumerConfig, OrderlyConsumer, ReceivedMessage

log = logging.getLogger("service")


def handle(messages: Sequence[ReceivedMessage], _context: ConsumeContext) -> Ack:
    """Do the work: one message at a time of a queue, up to 20 queues side by side."""
    for message in messages:
        time.sleep(0.02)
        log.info("handled %s %d", message.queue, message.queue_offset)
    return Ack()


def main(group: str, topic: str) -> None:
    """Consume until a signal comes."""
    # Give the orchestrator a longer grace period (Kubernetes: terminationGracePeriodSeconds, 30)
    # than the consumer: after it comes SIGKILL, and then the queues stay locked for a minute.
    config = ConsumerConfig(consume_from="first", close_timeout=20)
    consumer = OrderlyConsumer(group, handle, config=config)
    with consumer.subscribe(topic):
        log.info("%s", consumer.state)
        consumer.wait()
    # Closed: handlers have ended, offsets are saved, the queues are free for the next member.
    log.info("%s", consumer.state)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    main(*sys.argv[1:])
