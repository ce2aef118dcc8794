"""What a group's dead-letter and retry topics really hold, as the broker tells."""

from orderly.client.pulling import PullQuery
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.protocol.heartbeat import Subscription


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


def numbers(messages):
    """Their bodies, as `send_numbers` writes them."""
    return [int(message.body) for message in messages]
