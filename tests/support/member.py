"""A member in a process of its own, so that it can be killed: prints a line per delivery.

Usage: python tests/support/member.py NAMESRV GROUP TOPIC
"""

import sys
import threading

from orderly import ConsumerConfig, ConsumeResult, OrderlyConsumer

printing = threading.Lock()


def handle(messages, context):
    with printing:
        for message in messages:
            print(message.sharding_key, message.body.decode(), flush=True)
    return ConsumeResult.SUCCESS


if __name__ == "__main__":
    namesrv, group, topic = sys.argv[1:]
    config = ConsumerConfig(consume_from="first")
    with OrderlyConsumer(group, handle, namesrv=namesrv, config=config).subscribe(topic) as member:
        member.wait(300)
