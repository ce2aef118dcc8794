"""Parked keys written by hand: what an owner of one queue would leave, without a running member."""

import time
from dataclasses import dataclass, field, replace

from orderly import Message
from orderly.client.pulling import PullQuery
from orderly.consumer.owning.perform import performer
from orderly.consumer.session import now
from orderly.model import MessageQueue
from orderly.ordering.calls import AppendRecord, LockQueues, converse
from orderly.ordering.parking.keys import Kept, ParkedKeys
from orderly.ordering.state.committing import Progress, commit, hand_on
from orderly.ordering.state.inheritance import take_over
from orderly.ordering.state.topic import park_topic, state_topic
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.park_record import (
    Command,
    ParkDetails,
    control_message,
    park_message,
    park_request,
    read_park,
)
from tests.support.operator import delete_topic
from tests.support.visible import await_visible
from tests.support.waiting import eventually


@dataclass
class HandOwner:
    """The owner of queue 0 of a topic, played by a test."""

    client: object
    producer: object
    group: str
    topic: str
    table: ParkedKeys = field(default_factory=ParkedKeys)

    def __post_init__(self):
        broker = self.client.routes.get(self.topic).brokers[0].broker_name
        self.queue = MessageQueue(self.topic, broker, 0)
        self.state_queue = replace(self.queue, topic=state_topic(self.group, self.topic))
        self.park_queue = replace(self.queue, topic=park_topic(self.group, self.topic))
        for queue in (self.state_queue, self.park_queue):
            self.client.admin.create_topic(queue.topic, 1, order=False)
            eventually(lambda name=queue.topic: name in self.client.admin.topics())
        self.perform = performer(self.group, self.client.brokers)

    def take(self):
        """Lock the queue and take it over."""
        assert self.queue in self.perform(LockQueues(self.queue.broker_name, (self.queue,)))
        dialogue = take_over(
            self.queue,
            self.state_queue,
            self.park_queue,
            self.client.client_id,
            "first",
            now=now(),
        )
        self.inherited = converse(dialogue, self.perform)
        self.fence = self.inherited.fence
        self.table = ParkedKeys(self.inherited.kept)
        self.low = self.inherited.start
        return self

    def park(self, key, *bodies, **failure):
        """Send messages of a key and park them; the first is the one that failed."""
        for number, body in enumerate(bodies):
            message = self.send(key, body)
            told = failure if number == 0 else {"reason": "an earlier one is parked"}
            details = ParkDetails(
                key=key, parked_at=time.time(), token=self.inherited.memory.token, **told
            )
            at = self.append(park_message(message, details))
            self.table.note(key, message.queue_offset, at, message.stored_size)
        await_visible(self.client)

    def send(self, key, body):
        """Send a message; returns it as it is received."""
        stored = self.producer.send(Message(self.topic, body, str(key), tags="red"))
        self.low = stored.queue_offset + 1
        query = PullQuery(
            self.group, self.queue, stored.queue_offset, 1, Subscription(self.topic), suspend=0
        )
        return eventually(lambda: self.client.brokers.pull_now(query).messages)[0]

    def append(self, message):
        """Store a message in the park queue."""
        request = park_request(self.group, self.park_queue, message, time.time())
        return self.client.brokers.send_now(self.park_queue, request).queue_offset

    def record(self):
        """Put on record what is parked, for everybody to see."""
        memory = self.inherited.memory
        dialogue = commit(self.queue, self._progress(), self.fence, memory, now=now())
        converse(dialogue, self.perform)
        await_visible(self.client)

    def damage(self):
        """Have the newest record be one that cannot be read."""
        self.perform(AppendRecord(self.state_queue, b"orderly-state 1 entry 00000000 {}"))
        await_visible(self.client)

    def lose_records(self):
        """Have the state topic deleted and made anew."""
        delete_topic(self.client, self.state_queue.topic)
        self.client.admin.create_topic(self.state_queue.topic, 1, order=False)

    def hand_on(self):
        """Put it on record and give the queue back."""
        memory = self.inherited.memory
        dialogue = hand_on(self.queue, self._progress(), self.fence, memory, now=now())
        assert converse(dialogue, self.perform) is None
        await_visible(self.client)

    def answer(self, at, *results):
        """Answer the first command stored from a position on; `results` make its results."""
        command = eventually(lambda: next(self._commands(at), None))
        for make in results:
            self.append(control_message(make(command)))
        return command

    def end(self):
        """Where the park queue ends, with all that anybody has stored there."""
        await_visible(self.client)
        return self.client.brokers.max_offset(self.park_queue)

    def records(self, at=0):
        """All that anybody has stored in the park queue from a position on."""
        await_visible(self.client)
        return self._shown(at)

    def _shown(self, at):
        query = PullQuery(self.group, self.park_queue, at, 32, Subscription("*"), suspend=0)
        return [read_park(message) for message in self.client.brokers.pull_now(query).messages]

    def _commands(self, at):
        return (record for record in self._shown(at) if isinstance(record, Command))

    def _progress(self):
        return Progress(self.low, kept=Kept(self.table.snapshot(), self.table.commands))
