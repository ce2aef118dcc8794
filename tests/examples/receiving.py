"""What a topic holds, as a receiver sees it."""

import json
import queue
from collections import defaultdict

from orderly import Ack, ConsumerConfig, OrderlyConsumer
from tests.support.consuming import unique
from tests.support.waiting import patient_client


def received(namesrv, topic, count):
    """The first `count` JSON bodies of a topic that are not repeats, by key.

    A repeat is what a receiver passes over: an event whose version is not above the last one's.
    """
    found, versions, seen = queue.Queue(), defaultdict(int), defaultdict(list)

    def handle(messages, context):
        for message in messages:
            found.put((message.sharding_key, json.loads(message.body)))
        return Ack()

    config = ConsumerConfig(consume_from="first", order="key")
    with patient_client(namesrv) as client:
        consumer = OrderlyConsumer(unique("receiver"), handle, client=client, config=config)
        with consumer.subscribe(topic):
            while count:
                key, event = found.get(timeout=60)
                if event["version"] > versions[key]:
                    seen[key].append(event)
                    versions[key] = event["version"]
                    count -= 1
    return dict(seen)
