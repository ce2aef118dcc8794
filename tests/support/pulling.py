"""All that a topic holds, as an onlooker pulls it."""

from orderly.client.pulling import PullQuery
from orderly.protocol.heartbeat import Subscription


def pulled(client, topic, group="onlooker"):
    """The messages of a topic, queue by queue; brokers make the group with the first pull."""
    found = []
    for queue in client.routes.refresh(topic).read_queues():
        at, end = client.brokers.min_offset(queue), client.brokers.max_offset(queue)
        while at < end:
            query = PullQuery(group, queue, at, 32, Subscription(topic), suspend=0)
            reply = client.brokers.pull_now(query)
            found += reply.messages
            at = reply.next_offset
    return found
