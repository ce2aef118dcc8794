"""Owners of one queue without a running member: the broker's part, and what they leave there."""

import time
from dataclasses import dataclass, field, replace

from orderly import Message
from orderly.client.broker import PullQuery
from orderly.client.dialogues import performer
from orderly.clock import now
from orderly.errors import TopicNotFound
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import (
    AppendRecord,
    FirstLook,
    LockQueues,
    MaxOffset,
    MinOffset,
    ParkedRead,
    Peek,
    Peeked,
    QueryOffset,
    ReadParked,
    ReadRecords,
    RecordsRead,
    SaveOffset,
    UnlockQueues,
    converse,
)
from orderly.ordering.fence import Landmark
from orderly.ordering.ownership import CommitProgress, commit, hand_on, take_over
from orderly.ordering.parking import ParkedKeys, ParkingState
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.park_record import (
    Command,
    ParkDetails,
    control_message,
    park_message,
    park_request,
    read_park,
)
from orderly.protocol.properties import decode_properties, encode_properties
from orderly.protocol.stored_message import decode_messages, encode_stored_message
from tests.support.brokers import delete_topic
from tests.support.messages import message
from tests.support.waiting import await_visible, eventually

# --- state queue ----------------------------------------------------------------------------------
# One queue with its state and park queue as a broker keeps them: for owners' dialogues.


QUEUE = MessageQueue("orders", "broker-a", 0)
STATE_QUEUE = MessageQueue("orders-state", "broker-a", 0)
PARK_QUEUE = MessageQueue("orders-park", "broker-a", 0)
BORN = 1_700_000_000_000  # milliseconds since the epoch: when the first of all topics was made
APART = 10  # milliseconds between the store times of two messages


@dataclass
class StateBroker:
    """The broker's part.

    With `lags` only what is `shown` of the log can be read; whoever waits at its end is shown the
    rest. `offset` is the group's committed offset, `park` what is in the park queue, `calls` what
    was asked. The queue has the messages from `minimum` to `end`, stored from `began` on, but for
    those in `unreadable`; its state topic was made at `born`, or is `missing`. `new_group` is what
    a member saw before it joined.
    """

    log: list[bytes] = field(default_factory=list)
    floor: int = 0
    lags: bool = False
    shown: int = 0
    offset: int | None = 0
    owner: str | None = None
    block: int = 32
    park: list = field(default_factory=list)
    minimum: int = 0
    end: int = 1000
    began: int = BORN
    unreadable: frozenset = frozenset()
    born: int = BORN
    missing: bool = False
    new_group: object = None
    calls: list = field(default_factory=list)

    def answer(self, call, client):  # noqa: C901 - a table
        """Carry a call of `client` out."""
        self.calls.append(call)
        match call:
            case AppendRecord() | ReadRecords() if self.missing:
                raise TopicNotFound("no such topic")
            case AppendRecord(_, body):
                self.log.append(body)
                return len(self.log) - 1
            case ReadRecords(_, at, wait):
                return self._read(at, wait=wait)
            case ReadParked(_, at):
                messages = tuple(self.park[at : at + self.block])
                return ParkedRead(messages, at + len(messages), 0)
            case LockQueues(_, queues):
                self.owner = self.owner or client
                return frozenset(queues if self.owner == client else ())
            case UnlockQueues():
                self.owner = None if self.owner == client else self.owner
            case QueryOffset():
                return self.offset
            case FirstLook():
                return self.new_group
            case SaveOffset(_, offset):
                self.offset = offset
            case MinOffset():
                return self.minimum
            case MaxOffset():
                return self.end
            case Peek(_, at):
                return self._peek(at)
        return None

    def _peek(self, at):
        found = self.minimum <= at < self.end and at not in self.unreadable
        return Peeked(self.stored_at(at) if found else None, self.end)

    def stored_at(self, offset):
        """When a message of the queue was stored."""
        return self.began + APART * offset

    def landmark(self, offset):
        """A message of the queue as one that was finished."""
        return Landmark(offset, self.stored_at(offset))

    def made_anew(self, end, minimum=0, *, later=3_600_000):
        """Delete the queue's topic and make it anew; that deletes its committed offset, too."""
        self.began = self.stored_at(self.end) + later
        self.minimum, self.end, self.offset = minimum, end, None
        self.unreadable = frozenset()

    def state_made_anew(self, later=3_600_000):
        """Delete the state topic and make it anew, empty."""
        self.born += len(self.log) + later
        self.log.clear()
        self.floor = self.shown = 0
        self.missing = False

    def performer(self, client):
        """What answers the calls of one client."""
        return lambda call: self.answer(call, client)

    def taken_over(self, client):
        """What a client that gets the lock inherits."""
        self.owner = client
        dialogue = take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, client, "first")
        return converse(dialogue, self.performer(client))

    def asked(self, kind):
        """How often something was asked."""
        return sum(isinstance(call, kind) for call in self.calls)

    def _read(self, at, *, wait):
        if not self.lags or (wait and at == self.shown):
            self.shown = len(self.log)
        if not self.floor <= at <= self.shown:
            return RecordsRead((), self.floor if at < self.floor else self.shown, self.floor)
        end = min(at + self.block, self.shown)
        newest = self.born + end - 1
        return RecordsRead(tuple(enumerate(self.log[at:end], at)), end, self.floor, newest)


# --- park queue -----------------------------------------------------------------------------------
# Messages of a park queue as a broker gives them back: stored, with its own properties added.


_OF_THE_BROKER = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def stored(content, position=0, store_time=5.0):
    """What is pulled from the park queue after `content` was sent to it."""
    sent = decode_properties(encode_properties(content.properties).encode())
    kept = replace(
        message(position, queue=PARK_QUEUE),
        body=content.body,
        properties=sent | _OF_THE_BROKER,
        sys_flag=content.sys_flag,
        flag=content.flag,
        store_time=store_time,
    )
    (pulled,) = decode_messages(encode_stored_message(kept), PARK_QUEUE.broker_name)
    return pulled


def parked_message(key, offset, position, attempts=0):
    """A parked message of `key`, pulled from `position`."""
    details = ParkDetails(key=key, reason="why", attempts=attempts, parked_at=9.0, token=1)
    return stored(park_message(message(offset), details), position)


# --- hand owner -----------------------------------------------------------------------------------
# Parked keys written by hand: what an owner of one queue would leave, without a running member.


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
        return CommitProgress(
            self.low, kept=ParkingState(self.table.snapshot(), self.table.commands)
        )
