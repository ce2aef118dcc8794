"""rocketmq-client-python on librocketmq; runs in a Python that has both."""

import sys

from rocketmq.client import ConsumeStatus, Message, Producer, PushConsumer, dll

from benchmarks.peers.programs.meter import Meter, body, key, tell


def consume(namesrv, group, topic, count, warm):
    """Work a backlog off in order, with a callback that does nothing."""
    meter = Meter(int(count), int(warm))

    def handle(message):
        meter.tick()
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = PushConsumer(group, orderly=True)
    consumer.set_name_server_address(namesrv)
    consumer.subscribe(topic, handle)
    consumer.start()
    tell(**meter.result())
    consumer.shutdown()


def send(namesrv, topic, count, warm, size):
    """One message after the other, each acknowledged before the next."""
    meter, text = Meter(int(count), int(warm)), body(int(size))
    producer = Producer("peers-native", orderly=True)
    producer.set_name_server_address(namesrv)
    producer.start()
    for number in range(int(count)):
        message = Message(topic)
        message.set_body(text)
        producer.send_orderly_with_sharding_key(message, key(number))
        dll.DestroyMessage(message)  # the package itself never frees one
        meter.tick()
    tell(**meter.result())
    producer.shutdown()


if __name__ == "__main__":
    {work.__name__: work for work in (consume, send)}[sys.argv[1]](*sys.argv[2:])
