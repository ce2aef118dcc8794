"""A cluster in memory for the consumer's loops: what they ask of a Client, and nothing more."""

from types import SimpleNamespace

import pytest

from orderly.client.broker import PullResult, PullStatus
from orderly.client.dialogues import performer
from orderly.config import ClientConfig, ConsumerConfig
from orderly.consumer import broker_threads
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.locks import QueueTenure
from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.rebalancer import Rebalancer, Releaser, Taker
from orderly.consumer.session import Session, now
from orderly.errors import OrderlyError
from orderly.model import BrokerData, Permission, QueueData, TopicRoute
from orderly.ordering.allocation import averagely
from orderly.ordering.owned_queue import Lease, OwnedQueue
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import QUEUE, message

# A schedule whose timers ring when the test says so.


class Timers:
    """Takes the place of `client.background.Schedule`; `waiting` holds (seconds, work)."""

    def __init__(self):
        self.waiting = []

    def after(self, seconds, work):
        self.waiting.append((seconds, work))

    @property
    def seconds(self):
        return [seconds for seconds, _ in self.waiting]

    def ring(self):
        """Let the newest one ring."""
        _, work = self.waiting.pop()
        work()


ME, OTHER = "me@1", "other@2"


class Cluster:
    """One broker's locks, offsets and members. `fail[name] = error` makes a call raise."""

    def __init__(self):
        self.members = [ME]
        self.queues = 4
        self.locks = {}
        self.offsets = {}
        self.fail = {}
        self.during = {}
        self.calls = []

    def _note(self, name, *args):
        self.calls.append((name, *args))
        self.during.get(name, lambda: None)()
        error = self.fail.get(name) or self.fail.get((name, *args[:1]))
        if error is not None:
            raise error

    def lock_queues(self, group, broker_name, queues):
        self._note("lock", broker_name)
        for queue in queues:
            self.locks.setdefault(queue, ME)
        return frozenset(queue for queue in queues if self.locks[queue] == ME)

    def unlock_queues(self, group, broker_name, queues):
        self._note("unlock", *queues)
        for queue in queues:
            if self.locks.get(queue) == ME:
                del self.locks[queue]

    def query_offset(self, group, queue):
        self._note("query", queue)
        return self.offsets.get(queue)

    def update_offset(self, group, queue, offset):
        self._note("save", queue)
        self.offsets[queue] = offset

    def min_offset(self, queue):
        self._note("min", queue)
        return 0

    def max_offset(self, queue):
        self._note("max", queue)
        return 10

    def pull_now(self, query, *, master=False):
        self._note("peek", query.queue)
        found = [message(query.offset, queue=query.queue)] if query.offset < 10 else []
        status = PullStatus.FOUND if found else PullStatus.NO_NEW
        return PullResult(status, found, query.offset + len(found), 0, 10, 0)

    def consumer_ids(self, group, topic):
        self._note("members", topic)
        return tuple(self.members)

    def route(self, topic):
        self._note("route", topic)
        queues = QueueData("broker-a", self.queues, self.queues, Permission.READ | Permission.WRITE)
        broker = BrokerData("broker-a", "c", {0: "127.0.0.1:1"})
        return TopicRoute(topic, (queues,), (broker,))

    def heartbeat_now(self):
        self._note("heartbeat")


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Rounds wait for all brokers: none of them hangs here, and the machine may be slow."""
    monkeypatch.setattr(broker_threads, "PATIENCE", 60.0)


@pytest.fixture
def session(cluster):
    client = SimpleNamespace(
        client_id=ME,
        config=ClientConfig(namesrv="127.0.0.1:1"),
        brokers=cluster,
        routes=SimpleNamespace(get=cluster.route, cached=lambda topic: None),
        heartbeat=SimpleNamespace(heartbeat_now=cluster.heartbeat_now),
        schedule=Timers(),
    )
    config = ConsumerConfig(consume_from="first")
    session = Session("group", client, config, performer("group", cluster), ConsumerHooks())
    session.subscriptions = {"orders": Subscription("orders")}
    return session


@pytest.fixture
def hold(session):
    """Hold a queue, as (queue, ...) with what `OwnedQueue` and `Session.add` take."""

    def hold(queue=QUEUE, *, start=0, asked_at=None, memory=None, **settings):
        lease = Lease(now() if asked_at is None else asked_at, 30.0)
        limits = {"max_messages": 100, "max_bytes": 10**6}
        owned = OwnedQueue(queue, start, lease, **(limits | settings))
        held = session.add(owned, session.subscriptions["orders"], memory)
        held.tenure = QueueTenure(session, held)
        held.introduced = held.announced = True
        return held

    return hold


@pytest.fixture
def held(hold):
    return hold()


@pytest.fixture
def attention(session):
    """One item for each time the rebalancer was asked for."""
    calls = []
    session.attention = lambda: calls.append(1)
    return calls


@pytest.fixture
def pulling():
    return []


@pytest.fixture
def again():
    return []


@pytest.fixture
def releaser(session):
    return Releaser(session, OffsetSaver(session))


@pytest.fixture
def rebalancer(session, releaser, pulling, again):
    def start(held):
        pulling.append(held.queue.queue_id)

    taker = Taker(session, start, releaser.drop_outdated)
    return Rebalancer(session, averagely, taker, releaser, again.append)


@pytest.fixture
def failure():
    return OrderlyError("made by the test")
