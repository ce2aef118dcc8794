"""What a group's members left on record of a queue, as the broker tells."""

from orderly.client.pulling import PullQuery, PullStatus
from orderly.model import MessageQueue
from orderly.ordering.state.topic import state_topic
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.state_record import Entry, decode_record


def records(client, group, queue):
    """All records of a queue's state, oldest first, with their offsets."""
    state_queue = MessageQueue(state_topic(group, queue.topic), queue.broker_name, queue.queue_id)
    subscription = Subscription.from_expression(state_queue.topic, "*", 1)
    found, offset = [], 0
    while True:
        query = PullQuery("state-test", state_queue, offset, 32, subscription, suspend=0)
        reply = client.brokers.pull_now(query)
        if reply.status is not PullStatus.FOUND:
            return found
        found += [(m.queue_offset, decode_record(m.body)) for m in reply.messages]
        offset = reply.next_offset


def finished_ahead(client, group, queue):
    """The offsets that are on record as finished above the committed one."""
    ahead = set()
    for _, entry in records(client, group, queue):
        if not isinstance(entry, Entry):
            continue
        if entry.chunk == 0 < entry.chunks:  # the first part of everything
            ahead = set()
        ahead |= {n for start, end in entry.runs for n in range(start, end)}
        ahead = {n for n in ahead if n >= entry.low}
    return ahead
