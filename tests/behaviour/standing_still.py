"""A program whose handlers are limited in time; prints what happens, and what its consumer logs.

Usage: python -m tests.behaviour.standing_still WAY SECONDS NAMESRV TOPIC GROUP
"""

import asyncio
import os
import sys
import time

import structlog

from orderly import Ack, ConsumerConfig
from tests.support.waiting import patient_consumer

WAY, LIMIT, NAMESRV, TOPIC, GROUP = sys.argv[1:]
STEPS, STEP = 30, 0.05  # of a call


def say(*words):
    """On a line of its own, at once: from any thread, any process."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def handle(messages, context):
    say("begins", os.getpid(), messages[0].queue_offset, context.attempt)
    for _ in range(STEPS):
        time.sleep(STEP)
    say("ended", messages[0].queue_offset)
    return Ack()


async def handle_in_loop(messages, context):
    say("begins", os.getpid(), messages[0].queue_offset, context.attempt)
    for _ in range(STEPS):
        await asyncio.sleep(STEP)
    say("ended", messages[0].queue_offset)
    return Ack()


def told(_logger, _method, event):
    say("event", event["event"])
    raise structlog.DropEvent


def main():
    structlog.configure(processors=[told])
    ways = {"exit": {"on_hang": "exit"}, "loop": {}, "processes": {"executor": "process"}}
    config = ConsumerConfig(
        consume_from="first", order="key", concurrency=2, handler_timeout=float(LIMIT), **ways[WAY]
    )
    handler = handle_in_loop if WAY == "loop" else handle
    consumer = patient_consumer(GROUP, handler, namesrv=NAMESRV, config=config)
    with consumer.subscribe(TOPIC):
        consumer.wait()


if __name__ == "__main__":
    main()
