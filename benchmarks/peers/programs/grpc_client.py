"""The official gRPC client; runs in a Python that has rocketmq-python-client."""

import sys

from rocketmq.v5.client import ClientConfiguration, Credentials
from rocketmq.v5.consumer import PushConsumer
from rocketmq.v5.consumer.push import ConsumeResult, MessageListener
from rocketmq.v5.model import FilterExpression, Message
from rocketmq.v5.producer import Producer

from benchmarks.peers.programs.meter import Meter, body, key, tell


class _Listener(MessageListener):
    def __init__(self, meter):
        self._meter = meter

    def consume(self, message):
        self._meter.tick()
        return ConsumeResult.SUCCESS


def consume(proxy, group, topic, count, warm):
    """Work a backlog off in a group that the broker knows as ordered."""
    meter = Meter(int(count), int(warm))
    consumer = PushConsumer(
        ClientConfiguration(proxy, Credentials()),
        group,
        _Listener(meter),
        {topic: FilterExpression()},
    )
    consumer.startup()
    tell(**meter.result())
    consumer.shutdown()


def send(proxy, topic, count, warm, size):
    """One message after the other, each acknowledged before the next."""
    meter, text = Meter(int(count), int(warm)), body(int(size)).encode()
    producer = Producer(ClientConfiguration(proxy, Credentials()), (topic,))
    producer.startup()
    for number in range(int(count)):
        message = Message()
        message.topic, message.body, message.message_group = topic, text, key(number)
        producer.send(message)
        meter.tick()
    tell(**meter.result())
    producer.shutdown()


if __name__ == "__main__":
    {work.__name__: work for work in (consume, send)}[sys.argv[1]](*sys.argv[2:])
