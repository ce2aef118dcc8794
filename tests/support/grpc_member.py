"""A member of a group over gRPC; runs in a Python that has rocketmq-python-client.

Arguments: the proxy's address, group, topic. It speaks as JavaMember.java does; it is not told of
queues and offsets, so both are 0. It ends with its standard input.
"""

import sys
import time

from rocketmq.v5.client import ClientConfiguration, Credentials
from rocketmq.v5.consumer import PushConsumer
from rocketmq.v5.consumer.push import ConsumeResult, MessageListener
from rocketmq.v5.model import FilterExpression

WORK = 0.001  # seconds, as the other members


def millis():
    return int(time.time() * 1000)


def tell(*fields):
    """Write a line at once: several threads do."""
    sys.stdout.write("\t".join(map(str, fields)) + "\n")
    sys.stdout.flush()


class Listener(MessageListener):
    def consume(self, message):
        begun = millis()
        time.sleep(WORK)
        tell("delivered", message.message_group, message.body.decode(), 0, 0, begun, millis())
        return ConsumeResult.SUCCESS


def main(proxy, group, topic, _trouble):
    subscribed = {topic: FilterExpression()}
    consumer = PushConsumer(
        ClientConfiguration(proxy, Credentials()), group, Listener(), subscribed
    )
    consumer.startup()
    tell("started", consumer.client_id)
    sys.stdin.read()
    consumer.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
