"""What topics hold, as the broker tells: any, dead letters, state records, parked messages."""

import itertools
import time
from dataclasses import replace

from orderly.client.broker import PullQuery, PullStatus
from orderly.client.state_topics import StateTopics
from orderly.errors import OrderlyError, ProtocolError
from orderly.log import get_logger
from orderly.model import MessageQueue
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.park_record import (
    Command,
    Parked,
    Result,
    control_message,
    park_request,
    read_park,
)
from orderly.protocol.state_record import Entry, decode_record
from orderly.testing.fake.store import NewMessage
from tests.support.waiting import eventually, patient_client

# --- pulling --------------------------------------------------------------------------------------
# All that a topic holds, as an onlooker pulls it.


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


# --- made beforehand ------------------------------------------------------------------------------


def make_state_topics(operator, group, topic):
    """Make the topics in which a group keeps its state of a topic (topic create --for-group)."""
    StateTopics(operator, group, create=True, log=get_logger("tests")).ensure(topic)


def made_beforehand(operator, monkeypatch):
    """Let `operator`, a client, make the topics that consumers behind a proxy would make."""
    look = StateTopics.ensure

    def ensure(topics, topic):
        if topics._create and topics._client.behind_proxy:
            make_state_topics(operator, topics._group, topic)
        look(topics, topic)

    monkeypatch.setattr(StateTopics, "ensure", ensure)


# --- stored ---------------------------------------------------------------------------------------
# What a topic holds, read by plain pulls: for tests of whatever wrote it.


def stored(namesrv, topic, count, queues=4, broker="broker-a"):
    """All messages of a topic, by queue and offset, once there are `count` of them."""
    with patient_client(namesrv) as client:
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


# --- dead letters ---------------------------------------------------------------------------------
# What a group's dead-letter and retry topics really hold, as the broker tells.


def dead_letters(client, group):
    """The messages in the group's dead letters, oldest first, at most 32."""
    return of_one_queue(client, f"%DLQ%{group}")


def retried(client, group):
    """The messages in the group's retry topic, oldest first; ordered consumption leaves none."""
    return of_one_queue(client, f"%RETRY%{group}")


def of_one_queue(client, topic):
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


# --- states ---------------------------------------------------------------------------------------
# What a group's members left on record of a queue, as the broker tells.


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


# --- parking --------------------------------------------------------------------------------------
# What tests of parked keys share: looking into the park topic, and giving commands by hand.


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
        """Source offsets of a key's messages, in the order in which they were first appended.

        A message that was appended twice, since a step in between failed, is one.
        """
        of_key = (r for r in self.records(queue) if isinstance(r, Parked) and r.key == key)
        return first_copies(r.offset for r in of_key)

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


# --- fake logs ------------------------------------------------------------------------------------
# What happens to logs at a broker, done to a FakeBroker: messages come, expire, are cut off.


def fill(fake, topic, counts, at=1_763_712_000.0, broker=""):
    """Append messages to queues: `counts` by queue id; one is stored each second from `at` on."""
    with fake._running().changing() as cluster:
        store = cluster.brokers[broker or fake.broker_name].store
        for queue_id, count in counts.items():
            for number in range(count):
                message = NewMessage(
                    topic=topic,
                    queue_id=queue_id,
                    body=b"%d" % number,
                    properties={"TAGS": "AB"[number % 2], "__SHARDINGKEY": f"k{number % 5}"},
                    born_time=at,
                    born_host="127.0.0.1:1",
                )
                store.put(message, at + number)


def expire(fake, topic, queue_id, before):
    with fake._running().changing() as cluster:
        cluster.brokers[fake.broker_name].store.log(topic, queue_id).drop_before(before)


def make_anew(fake, topic, queues):
    delete(fake, topic)
    fake.create_topic(topic, queues)


def delete(fake, topic):
    with fake._running().changing() as cluster:
        for state in cluster.brokers.values():
            state.store.forget(topic)
            state.topics.remove(topic)
        cluster.name_server.forget(topic)


def delete_at(fake, broker, topic):
    """One broker of several no longer has the topic; the name server learns it from all."""
    with fake._running().changing() as cluster:
        cluster.brokers[broker].delete_topic(topic)
        cluster.name_server.forget(topic)
        for state in cluster.brokers.values():
            state.announce(state.topics.all())
