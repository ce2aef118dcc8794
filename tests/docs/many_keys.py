"""Topics with many keys, for pages that look at how keys are spread."""

from orderly import Message
from tests.support.waiting import patient_producer


def send_keys(namesrv, topic, count, **settings):
    """Send one message for each of `count` keys; `settings` are those of the producer."""
    with patient_producer(namesrv, **settings) as producer:
        for number in range(count):
            producer.submit(Message(topic, b"created", sharding_key=f"order-{number}"))
