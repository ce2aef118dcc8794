"""A service that ends cleanly when it is told to: SIGTERM (docker stop, Kubernetes, systemd) or ^C.

    ORDERLY_NAMESRV=localhost:9876 python examples/sigterm.py GROUP TOPIC

The signal's handler only leaves a note; the main thread reads it and closes the consumer. Python
runs a signal's handler in the main thread, between any two steps of what that thread is doing: it
may be holding the very lock that close() waits for, and then nothing goes on, ever. To
append to a list needs no lock; to set a threading.Event does. And the main thread looks again and
again: a signal that comes right before a wait without end would not end that wait.
"""

from __future__ import annotations

import logging
import signal
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
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: signals.append(received))

    # Give the orchestrator a longer grace period (Kubernetes: terminationGracePeriodSeconds, 30)
    # than the consumer: after it comes SIGKILL, and then the queues stay locked for a minute.
    config = ConsumerConfig(consume_from="first", close_timeout=20)
    consumer = OrderlyConsumer(group, handle, config=config)
    with consumer.subscribe(topic):
        log.info("%s", consumer.state)
        while not signals:
            time.sleep(0.2)
        log.info("closing on %s", signal.Signals(signals[0]).name)
    # Closed: handlers have ended, offsets are saved, the queues are free for the next member.
    log.info("%s", consumer.state)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    main(*sys.argv[1:])
