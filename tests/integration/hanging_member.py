"""A member whose handler hangs, with on_hang="exit": how the process ends is the parent's to see.

Usage: python -m tests.integration.hanging_member NAMESRV GROUP TOPIC HANDLER
"""

import asyncio
import logging
import sys
import time

from orderly import ConsumerConfig, OrderlyConsumer
from tests.support.waiting import patient_client

FOR_EVER = 120
TIMEOUT = 0.5


def sleeps(messages, context):
    time.sleep(FOR_EVER)


def holds_the_logs_lock(messages, context):
    logging.getLogger().handlers[0].acquire()
    time.sleep(FOR_EVER)


async def blocks_the_loop(messages, context):
    time.sleep(FOR_EVER)  # noqa: ASYNC251 - that is what it shall do


async def ignores_cancellation(messages, context):
    while True:
        try:
            await asyncio.sleep(FOR_EVER)
        except asyncio.CancelledError:
            print("asked to stop", file=sys.stderr)


def main():
    namesrv, group, topic, handler = sys.argv[1:]
    logging.basicConfig()
    config = ConsumerConfig(consume_from="first", handler_timeout=TIMEOUT, on_hang="exit")
    with patient_client(namesrv) as client:
        consumer = OrderlyConsumer(group, globals()[handler], client=client, config=config)
        with consumer.subscribe(topic):
            consumer.wait(FOR_EVER)


if __name__ == "__main__":
    main()
