"""A member in a process of its own, to be killed or stopped: prints a JSON line for each event.

Usage: python -m tests.support.member NAMESRV GROUP TOPIC [--lease S] [--seconds S] [--clock S]
    [--order queue|key] [--stuck KEY] [--commit S]

It ends when its standard input ends. `member_process.MemberProcess` runs it and reads the lines.
"""

import argparse
import json
import os
import sys
import time

from orderly import Client, ConsumeResult, OrderlyConsumer
from orderly.config.consumer import BROKER_LEASE
from orderly.consumer.hooks import ConsumerHooks
from tests.support.leases import client_config, consumer_config


def tell(**event):
    """Write one line at once and whole, whatever thread or signal comes."""
    os.write(1, json.dumps(event).encode() + b"\n")


def handler(seconds, stuck):
    """A handler that takes so long for each message, and says what it did before it succeeds.

    It says nothing of the key `stuck`, which never succeeds.
    """

    def handle(messages, context):
        if stuck is not None and messages[0].sharding_key == stuck:
            return ConsumeResult.SUSPEND
        started = time.monotonic()
        time.sleep(seconds)
        for m in messages:
            tell(
                key=m.sharding_key,
                id=m.message_id,
                queue=m.queue.queue_id,
                offset=m.queue_offset,
                started=started,
                ended=time.monotonic(),
            )
        return ConsumeResult.SUCCESS

    return handle


def teller(name):
    return lambda queues: tell(**{name: [queue.queue_id for queue in queues]})


def shift_wall_clock(seconds):
    """Have this process see another time of day."""
    true_time = time.time
    time.time = lambda: true_time() + seconds


def main():
    parser = argparse.ArgumentParser()
    for name in ("namesrv", "group", "topic"):
        parser.add_argument(name)
    parser.add_argument("--lease", type=float, default=BROKER_LEASE)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--clock", type=float, default=0.0)
    parser.add_argument("--order", default="queue")
    parser.add_argument("--stuck")
    parser.add_argument("--commit", type=float)
    given = parser.parse_args()
    shift_wall_clock(given.clock)
    hooks = ConsumerHooks(**{name: teller(name) for name in ("assigned", "revoked", "lost")})
    with Client(client_config(given.lease, given.namesrv)) as client:
        tell(client_id=client.client_id)
        settings = {} if given.commit is None else {"commit_interval": given.commit}
        config = consumer_config(given.lease, order=given.order, **settings)
        act = handler(given.seconds, given.stuck)
        with OrderlyConsumer(given.group, act, client=client, config=config, hooks=hooks).subscribe(
            given.topic
        ):
            sys.stdin.read()


if __name__ == "__main__":
    main()
