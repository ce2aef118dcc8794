"""Two fake brokers, what is put into them, and every request that reaches them."""

from collections import Counter

import pytest

from orderly.protocol.codes import RequestCode
from orderly.protocol.groups import GroupConfig
from orderly.protocol.topics import TopicConfig
from orderly.testing.fake.broker import FakeBroker
from orderly.testing.fake.faults import DropResponse, Fault
from orderly.testing.fake.store import NewMessage
from tests.support.waiting import patient_client

BROKERS = ("broker-a", "broker-b")


@pytest.fixture
def fakes():
    with FakeBroker(brokers=BROKERS) as fakes:
        yield fakes


@pytest.fixture
def client(fakes):
    client = patient_client(fakes.namesrv)  # not started: monitoring needs no heartbeat
    yield client
    client.close()


class World:
    """Puts things into the brokers directly: also what no well-behaved client would store."""

    def __init__(self, fakes):
        self._fakes = fakes
        self.counts = Counter()

    def topic(self, name, read=2, write=None, perm=6, brokers=BROKERS):
        write = read if write is None else write
        config = TopicConfig(name=name, read_queues=read, write_queues=write, perm=perm, order=True)
        with self._fakes._running().changing() as machine:
            for broker in brokers:
                machine.brokers[broker].create_topic(config)

    def drop_topic(self, name, broker):
        with self._fakes._running().changing() as machine:
            machine.brokers[broker].topics.remove(name)

    def group(self, name, brokers=BROKERS, **settings):
        with self._fakes._running().changing() as machine:
            for broker in brokers:
                machine.brokers[broker].groups.put(GroupConfig(name=name, **settings))

    def setting(self, name, value, broker="broker-a"):
        with self._fakes._running().changing() as machine:
            machine.brokers[broker].settings[name] = value

    def store(self, topic, queue_id, count, broker="broker-a", at=1_700_000_000.0):
        message = NewMessage(
            topic=topic,
            queue_id=queue_id,
            body=b"x",
            properties={},
            born_time=1.0,
            born_host="127.0.0.1:1",
        )
        with self._fakes._running().changing() as machine:
            for _ in range(count):
                machine.brokers[broker].store.put(message, at)

    def expire(self, topic, queue_id, before, broker="broker-a"):
        with self._fakes._running().changing() as machine:
            machine.brokers[broker].store.log(topic, queue_id).drop_before(before)

    def commit(self, group, topic, offsets, broker="broker-a"):
        with self._fakes._running().changing() as machine:
            for queue_id, offset in offsets.items():
                machine.brokers[broker].offsets.commit(group, topic, queue_id, offset)

    def forget_group(self, name):
        with self._fakes._running().changing() as machine:
            for state in machine.brokers.values():
                state.groups._configs.pop(name, None)
                for pair in [pair for pair in state.offsets._stored if pair[0] == name]:
                    del state.offsets._stored[pair]

    def count(self):
        """Count requests by code from now on, as the brokers see them."""

        def note(command):
            self.counts[command.code] += 1
            return False

        self.counts.clear()
        faults = (Fault(code, DropResponse(), times=None, when=note) for code in RequestCode)
        self._fakes.script(*faults)
        return self.counts


@pytest.fixture
def world(fakes):
    return World(fakes)
