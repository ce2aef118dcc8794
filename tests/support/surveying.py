"""Surveys of a real broker: what is said of one group, and offsets that somebody committed."""

from orderly import Message
from orderly.model import MessageQueue
from orderly.monitoring.backlog.judging import judge
from orderly.monitoring.backlog.thresholds import Thresholds
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.selection import Selection
from orderly.monitoring.collecting.survey import survey
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import ConsumerData, Heartbeat, Subscription, encode_heartbeat
from tests.support.waiting import eventually

ALWAYS = Budgets(every=0.0)


class Surveyed:
    """A group, and a topic that it consumes; `status()` surveys it anew."""

    def __init__(self, client, group, topic):
        self.client, self.group, self.topic = client, group, topic

    def queue(self, number, broker="broker-a"):
        return MessageQueue(self.topic, broker, number)

    def commit(self, *offsets):
        """Commit an offset in each of the first queues; None: in this one none."""
        self.client.groups.group_config(self.group, "broker-a")  # makes the group
        for number, offset in enumerate(offsets):
            if offset is not None:
                self.client.brokers.update_offset(self.group, self.queue(number), offset)

    def send(self, producer, number, count, topic=None, tags=None):
        """Send to a queue of the topic, or of another one, and wait until all can be seen."""
        message = Message(topic or self.topic, b"x", tags=tags)
        for _ in range(count):
            stored = producer.send(message, selector=lambda queues, _, n: queues[n], arg=number)
        end = stored.queue_offset + 1
        eventually(lambda: self.client.brokers.max_offset(stored.queue) >= end)

    def join(self, client_id, broker="broker-a"):
        """Make somebody a member of the group, as far as one broker knows; it answers nothing."""
        data = (Subscription.from_expression(self.topic, "*", 1),)
        beat = Heartbeat(client_id, consumers=(ConsumerData(self.group, data),))
        command = request(RequestCode.HEART_BEAT, body=encode_heartbeat(beat))
        address = self.client.routes.address(self.queue(0, broker))
        assert self.client.connections.get(address).call(command, 5.0).code == 0

    def snapshot(self, **options):
        chosen = Selection(groups=(self.group,))
        return survey(self.client, chosen, budgets=ALWAYS, **options)

    def status(self, **options):
        return self.snapshot(**options).groups[self.group]

    def rows(self, topic=None):
        """Of the group's queues of one topic, in their order."""
        return tuple(self.status().topics[topic or self.topic].rows())


def verdict_of(status, **crit):
    """What a check without options says; `crit` are thresholds by measure."""
    return judge([status], Thresholds.parse({}, crit)).verdict.name


def states_of(rows):
    """In words."""
    return [row.state.name for row in rows]
