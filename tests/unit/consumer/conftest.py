"""A cluster in memory for the consumer's loops: what they ask of a Client, and nothing more."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly.client.broker import PullResult, PullStatus
from orderly.client.dialogues import performer
from orderly.clock import AwakeClock, now
from orderly.config import ClientConfig, ConsumerConfig
from orderly.consumer import broker_threads
from orderly.consumer.handler_caller import Caller
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.parking import Parker
from orderly.consumer.rebalancer import Rebalancer, Releaser, Taker
from orderly.consumer.renewal import HeldOwnership
from orderly.consumer.session import Session
from orderly.consumer.workers import Worker
from orderly.errors import OrderlyError, ProtocolError
from orderly.model import BrokerData, Permission, QueueData, TopicRoute
from orderly.ordering.allocation import averagely
from orderly.ordering.context import Failure
from orderly.ordering.owned_queue import Lease, OwnedQueue
from orderly.ordering.results import Disposition
from orderly.ordering.topic_names import park_topic
from orderly.protocol.ext import from_ext
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.park_record import Parked, read_park
from orderly.protocol.properties import decode_properties
from orderly.protocol.send import SendMessage
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
        self.permission = Permission.READ | Permission.WRITE
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

    def has_offsets(self, group, queues):
        self._note("known", queues[0].broker_name)
        return any(queue in self.offsets for queue in queues)

    def topic_stats(self, queue):
        self._note("stats", queue.broker_name)
        return {}  # as of a proxy

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
        queues = QueueData("broker-a", self.queues, self.queues, self.permission)
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
def awake():
    clock = AwakeClock()
    yield clock
    clock.close()


@pytest.fixture
def session(cluster, awake):
    client = SimpleNamespace(
        client_id=ME,
        config=ClientConfig(namesrv="127.0.0.1:1"),
        brokers=cluster,
        routes=SimpleNamespace(get=cluster.route, cached=lambda topic: None),
        heartbeat=SimpleNamespace(heartbeat_now=cluster.heartbeat_now),
        schedule=Timers(),
        awake=awake,
        behind_proxy=False,
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
        held.ownership = HeldOwnership(session, held)
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


class Membership:
    """Notes when it begins and ends."""

    def __init__(self):
        self.joined = True

    def join(self):
        self.joined = True

    def leave(self):
        self.joined = False


@pytest.fixture
def membership():
    return Membership()


@pytest.fixture
def rebalancer(session, releaser, pulling, again, membership):
    def start(held):
        pulling.append(held.queue.queue_id)

    taker = Taker(session, start, releaser.drop_outdated)
    return Rebalancer(session, averagely, taker, releaser, again.append, membership=membership)


@pytest.fixture
def failure():
    return OrderlyError("made by the test")


# --- a park queue in memory, beside a held queue whose records are a list -------------------------


PARK_QUEUE = replace(QUEUE, topic=park_topic("group", QUEUE.topic))


class Shelf:
    """What a broker keeps of one park queue. `fail` makes its next calls raise, one each."""

    def __init__(self):
        self.messages, self.minimum, self.fail, self.reads = [], 0, [], 0
        self.store_time = 2.0
        self.after_send = lambda: None

    def send_now(self, queue, command):
        assert queue == PARK_QUEUE
        self._may_fail()
        header = from_ext(SendMessage, command.ext)
        stored = replace(
            message(len(self.messages), queue=queue),
            body=command.body,
            properties=decode_properties(header.properties.encode()),
            store_time=self.store_time,
        )
        self.messages.append(stored)
        self.after_send()
        return SimpleNamespace(queue_offset=stored.queue_offset)

    def send_again(self, stored):
        """Store another copy of a message."""
        self.messages.append(replace(stored, queue_offset=len(self.messages)))

    def pull_now(self, query):
        self._may_fail()
        self.reads += 1
        if query.offset < self.minimum:
            return self._answer([], self.minimum)
        block = self.messages[query.offset : query.offset + query.max_messages]
        return self._answer(block, query.offset + len(block))

    def delete_below(self, position):
        self.minimum = position

    @property
    def records(self):
        found = []
        for stored in self.messages:
            with contextlib.suppress(ProtocolError):  # damaged, or nobody's
                found.append(read_park(stored))
        return found

    @property
    def parked(self):
        """(key, source offset) of what is parked, in the order in which it was appended."""
        return [(r.key, r.offset) for r in self.records if isinstance(r, Parked)]

    def control(self, kind):
        return [record for record in self.records if isinstance(record, kind)]

    def _answer(self, messages, next_offset):
        return SimpleNamespace(messages=messages, next_offset=next_offset, min_offset=self.minimum)

    def _may_fail(self):
        if self.fail:
            error = self.fail.pop(0)
            if error is not None:
                raise error


class Memory:
    """Knows which keys are on record; `Setting` writes it."""

    def __init__(self):
        self.token, self.kept = 7, {}

    def recorded(self, key):
        return key in self.kept


class Setting:
    """One queue with keys; `take`, `park` and `run` are what an engine does with it."""

    def __init__(self, session, hold, cluster, shelf, monkeypatch):
        session.config = ConsumerConfig(order="key", suspend=1.0, max_suspend=8.0)
        monkeypatch.setattr("orderly.consumer.parking.random.random", lambda: 1.0)
        cluster.send_now, cluster.pull_now = shelf.send_now, shelf.pull_now
        cluster.max_offset = lambda queue: len(shelf.messages)
        self.session, self.shelf, self.timers = session, shelf, session.client.schedule
        self.held = hold(by_key=True, memory=Memory(), max_runs=5)
        self.owned, self.parking = self.held.owned, self.held.owned.parking
        self.aside = Parker(session)
        self.records, self.fail_record, self.handled = [], [], []
        self.answer = lambda message, context: None
        self.worker = Worker(session, Caller(session, self._handle), lambda held: None)
        self.worker.pool = SimpleNamespace(submit=lambda task: task(), crowded=False)
        self.worker.errands.begin = lambda work: work()
        monkeypatch.setattr(OffsetSaver, "record", lambda _, held: self._record(held))

    def _record(self, held):
        if self.fail_record:
            raise self.fail_record.pop(0)
        kept = held.owned.parking.kept
        self.records.append(kept)
        held.memory.kept = {parked.key: parked for parked in kept.parked}

    def _handle(self, messages, context):
        self.handled += [(m.queue_offset, context.replayed) for m in messages]
        return self.answer(messages[0], context)

    def pulled(self, *keys):
        """Have one message of each key pulled."""
        first = self.owned.next_pull
        messages = [message(first + place, "k") for place, _ in enumerate(keys)]
        self.owned.pulled(messages, first + len(keys), None, list(keys))

    def take(self):
        return self.owned.take(10, now())

    def park(self, *keys, reason="bad"):
        """Have one message of each key pulled and parked."""
        for key in keys:
            self.pulled(key)
            batch = self.take()
            failures = {batch.messages[0].queue_offset: Failure(reason, attempts=1)}
            assert self.aside.park(self.held, batch, failures) is None
            self.owned.finish(batch, Disposition.COMMIT, now())


@pytest.fixture
def shelf():
    return Shelf()


@pytest.fixture
def setting(session, hold, cluster, shelf, monkeypatch):
    return Setting(session, hold, cluster, shelf, monkeypatch)
