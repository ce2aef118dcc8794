"""What a topic holds, read by plain pulls: for tests of whatever wrote it."""

from orderly import Client
from orderly.client.pulling import PullQuery
from orderly.model import MessageQueue
from orderly.protocol.heartbeat import Subscription
from tests.support.waiting import eventually


def stored(namesrv, topic, count, queues=4, broker="broker-a"):
    """All messages of a topic, by queue and offset, once there are `count` of them."""
    with Client(namesrv=namesrv) as client:
        places = [MessageQueue(topic, broker, number) for number in range(queues)]

        def all_there():
            ends = [client.brokers.max_offset(place) for place in places]
            return ends if sum(ends) >= count else None

        ends = eventually(all_there, every=0.1)
        return [
            message
            for place, end in zip(places, ends, strict=True)
            for message in _pulled(client, place, end)
        ]


def _pulled(client, place, end):
    found = []
    while len(found) < end:
        subscription = Subscription.from_expression(place.topic, "*", 0)
        query = PullQuery("orderly-tests", place, len(found), 1024, subscription, suspend=0)
        found += client.brokers.pull_now(query).messages
    return found


def by_key(messages, value):
    """`value(message)` of each key's messages, in the order in which they are stored."""
    found = {}
    for message in messages:
        found.setdefault(message.sharding_key, []).append(value(message))
    return found


def first_copies(values):
    """The values without those that were there before."""
    return list(dict.fromkeys(values))
