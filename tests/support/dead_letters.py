"""What a group's dead-letter and retry topics really hold, as the broker tells."""

from orderly.client.pulling import PullQuery
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.protocol.heartbeat import Subscription
from tests.support.waiting import eventually


def dead_letters(client, group):
    """The messages in the group's dead letters, oldest first, at most 32."""
    return stored(client, f"%DLQ%{group}")


def retried(client, group):
    """The messages in the group's retry topic, oldest first; ordered consumption leaves none."""
    return stored(client, f"%RETRY%{group}")


def stored(client, topic):
    """All messages of a topic with one queue; none if the topic does not exist (yet)."""
    queue = MessageQueue(topic, "broker-a", 0)
    subscription = Subscription.from_expression(topic, "*", 1)
    query = PullQuery("dead-letter-test", queue, 0, 32, subscription, suspend=0)
    try:
        client.routes.get(topic)
        return client.brokers.pull_now(query).messages
    except OrderlyError:  # the broker makes the topic with its first dead letter
        return []


def dead_numbers(client, group, count):
    """The bodies of the dead letters as numbers, once there are `count`.

    What was just stored is visible a few milliseconds later only.
    """
    found = eventually(lambda: (d := dead_letters(client, group)) and len(d) >= count and d)
    return [int(message.body) for message in found]
