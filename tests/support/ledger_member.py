"""A member in a process of its own that keeps the ledger; it tells what queues it holds.

Usage: python -m tests.support.ledger_member NAMESRV GROUP TOPIC --lease S --ledger URL

It ends when its standard input ends. `LedgerMember` runs it.
"""

import argparse
import sys

from orderly import Client, OrderlyConsumer
from orderly.consumer.hooks import ConsumerHooks
from tests.support.leases import client_config, consumer_config
from tests.support.ledger import ledger_handler
from tests.support.member_handlers import tell
from tests.support.member_process import MemberProcess

COMMIT = 3.0  # seconds; rarely put on record, so that a killed member leaves much to be repeated


class LedgerMember(MemberProcess):
    """Runs this module in a process of its own."""

    program = __name__


def teller(name):
    return lambda queues: tell(**{name: [queue.queue_id for queue in queues]})


def main():
    parser = argparse.ArgumentParser()
    for name in ("namesrv", "group", "topic", "--ledger"):
        parser.add_argument(name)
    for name in ("--lease", "--seconds", "--clock"):
        parser.add_argument(name, type=float)
    given = parser.parse_args()
    hooks = ConsumerHooks(**{name: teller(name) for name in ("assigned", "revoked", "lost")})
    config = consumer_config(given.lease, order="key", commit_interval=COMMIT)
    with Client(client_config(given.lease, given.namesrv)) as client:
        tell(client_id=client.client_id)
        handler = ledger_handler(given.ledger)
        with OrderlyConsumer(
            given.group, handler, client=client, config=config, hooks=hooks
        ).subscribe(given.topic):
            sys.stdin.read()


if __name__ == "__main__":
    main()
