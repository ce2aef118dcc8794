"""What tests of parked keys share: looking into the park topic, and giving commands by hand."""

import itertools
import time
from dataclasses import replace

from orderly.client.pulling import PullQuery
from orderly.errors import ProtocolError
from orderly.ordering.state.topic import park_topic
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.park_control import Command, Result
from orderly.protocol.park_record import Parked, control_message, park_request, read_park
from tests.support.waiting import eventually

_numbers = itertools.count(1)


class ParkTopic:
    """The park topic of a group and a topic, as an onlooker sees it."""

    def __init__(self, client, group, topic):
        self.client, self.group, self.topic = client, group, topic

    def queue_of(self, queue):
        """The park queue of a source queue."""
        return replace(queue, topic=park_topic(self.group, self.topic))

    def records(self, queue):
        """All that is in the park queue of a source queue; foreign messages are left out."""
        return [record for _, record in self._read(self.queue_of(queue))]

    def parked(self, queue, key):
        """Source offsets of a key's messages, in the order in which they were appended."""
        return [r.offset for r in self.records(queue) if isinstance(r, Parked) and r.key == key]

    def command(self, queue, verb, key):
        """Append a command; returns its id."""
        identity = f"{time.time_ns():x}-{next(_numbers)}"
        command = Command(identity, verb, key, "test", int(time.time() * 1000))
        target = self.queue_of(queue)
        request = park_request(self.group, target, control_message(command), time.time())
        self.client.brokers.send_now(target, request)
        return identity

    def results(self, queue, identity):
        """What the owner said of a command so far."""
        return [r for r in self.records(queue) if isinstance(r, Result) and r.id == identity]

    def carried_out(self, queue, verb, key, within=30):
        """Give a command and wait for its end; returns the last result."""
        identity = self.command(queue, verb, key)
        return self.ended(queue, identity, within)

    def ended(self, queue, identity, within=30):
        """Wait for the end of a command; returns the last result."""

        def end():
            return next((r for r in self.results(queue, identity) if r.done), None)

        return eventually(end, within=within, every=0.05)

    def _read(self, queue):
        at = self.client.brokers.min_offset(queue)
        end = self.client.brokers.max_offset(queue)
        while at < end:
            pulled = self.client.brokers.pull_now(
                PullQuery(self.group, queue, at, 32, Subscription(queue.topic), suspend=1.0)
            )
            for message in pulled.messages:
                try:
                    yield message.queue_offset, read_park(message)
                except ProtocolError:
                    continue
            at = max(pulled.next_offset, at)
