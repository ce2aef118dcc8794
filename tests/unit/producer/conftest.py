"""A client whose broker is a list: the producer's threads are real, the network is not."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from orderly.client import Client
from orderly.client.background import Schedule
from orderly.client.broker import Stored
from orderly.client.routes import Routes
from orderly.errors import OrderlyError, TopicNotFound
from orderly.model import BrokerData, MessageQueue, Permission, QueueData, TopicRoute
from orderly.producer import OrderlyProducer
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import from_ext
from orderly.protocol.properties import decode_properties
from orderly.protocol.send import BatchMember, SendBatch, SendMessage, decode_batch
from orderly.protocol.topics import TopicConfig

PATIENCE = 30.0  # seconds a test waits for what must happen


def make_route(topic: str, order_conf: str = "", **queues: int) -> TopicRoute:
    """A route of brokers a, b, … with so many queues each: make_route("T", a=4)."""
    data = tuple(
        QueueData(name, count, count, Permission.READ | Permission.WRITE)
        for name, count in queues.items()
    )
    brokers = tuple(BrokerData(name, "C", {0: f"{name}:10911"}) for name in queues)
    return TopicRoute(topic, data, brokers, order_conf)


class Request:
    """One send as the broker sees it."""

    def __init__(self, queue, command, timeout, on_result) -> None:
        self.queue: MessageQueue = queue
        self.code = command.code
        self.timeout = timeout
        kind = SendBatch if command.code == RequestCode.SEND_BATCH_MESSAGE else SendMessage
        self.header = from_ext(kind, command.ext)
        if kind is SendBatch:
            self.members = decode_batch(command.body)
        else:
            self.members = [BatchMember(command.body, self.header.properties)]
        self._on_result: Callable[[Stored | OrderlyError], None] = on_result

    @property
    def bodies(self) -> list[bytes]:
        return [member.body for member in self.members]

    def answer(self, outcome: Stored | OrderlyError) -> None:
        """Answer on a thread of the client's, as a connection does."""
        thread = threading.Thread(
            target=self._on_result, args=(outcome,), name="orderly-read-test", daemon=True
        )
        thread.start()


class Broker:
    """Stores what it is sent; `hold` keeps requests unanswered, `script` decides on each.

    `script(request)` returns an error (not stored), None (stored), or "lost" (stored, no answer).
    `refuse_connection` makes sends fail before they go out.
    """

    def __init__(self) -> None:
        self.logs: dict[MessageQueue, list[bytes]] = defaultdict(list)
        self.properties: dict[bytes, dict[str, str]] = {}
        self.requests: list[Request] = []
        self.connected = True
        self.refuse_connection: OrderlyError | None = None
        self.script: Callable[[Request], OrderlyError | None] = lambda _: None
        self.holding = False
        self.held: list[Request] = []
        self.in_flight: dict[MessageQueue, int] = defaultdict(int)
        self.most_in_flight = 0
        self._changed = threading.Condition()

    # what orderly.client.BrokerCalls.send does

    def send(self, queue, command, timeout, on_result, *, may_connect=True, attended=False):
        if not self.connected:
            if not may_connect:
                return None
            if self.refuse_connection is not None:
                raise self.refuse_connection
            self.connected = True
        request = Request(queue, command, timeout, on_result)
        with self._changed:
            self.requests.append(request)
            self.in_flight[queue] += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight[queue])
            self.held.append(request)
            self._changed.notify_all()
        if not self.holding:
            self.release()
        return lambda: None

    # what a test does

    def release(self) -> None:
        """Answer what is held."""
        with self._changed:
            held, self.held = self.held, []
        for request in held:
            error = self.script(request)
            outcome = error if error is not None else self._store(request)
            with self._changed:
                self.in_flight[request.queue] -= 1
            request.answer(outcome)

    def let_go(self) -> None:
        """Answer what is held and whatever comes."""
        self.holding = False
        self.release()

    def store(self, request: Request) -> None:
        """Put a request into the log whatever its answer is."""
        self._store(request)

    def _store(self, request: Request) -> Stored:
        log = self.logs[request.queue]
        offset = len(log)
        for member in request.members:
            log.append(member.body)
            self.properties[member.body] = decode_properties(member.properties.encode())
        ids = tuple(f"ID{offset + place}" for place in range(len(request.members)))
        return Stored("SEND_OK", request.queue.queue_id, offset, ids)

    def wait_for_requests(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, PATIENCE), (
                f"{len(self.requests)} of {count} requests came"
            )

    @property
    def stored(self) -> list[bytes]:
        """All logs, one after another."""
        return [body for queue in sorted(self.logs) for body in self.logs[queue]]


class FakeClient(Client):
    """The parts of orderly.client.Client that a producer uses."""

    def __init__(self) -> None:
        self.client_id = "10.0.0.1@1#test"
        self.table: dict[str, TopicRoute] = {"T": make_route("T", a=4)}
        self.asked: list[str] = []
        self.fetch_gate = threading.Event()
        self.fetch_gate.set()
        self.routes = Routes(self._fetch, 3600.0)
        self.brokers = Broker()
        self.schedule = Schedule("test")
        self.oneways: list[object] = []
        connection = SimpleNamespace(send_oneway=self.oneways.append)
        self.connections = SimpleNamespace(
            get=lambda address: connection, check_process=lambda: None, foreign=False
        )
        self.config = SimpleNamespace(namespace="", redacts=False)
        self.types: dict[str, str | OrderlyError] = {}
        self.asked_types: list[tuple[str, str, float]] = []
        self.admin = SimpleNamespace(topic_config=self._topic_config)
        self.members: list[str] = []
        self.heartbeat = SimpleNamespace(
            register_producer=self.members.append, unregister_producer=self.members.remove
        )
        self.started = self.closed = False

    def _topic_config(
        self, topic: str, broker: BrokerData, *, timeout: float
    ) -> TopicConfig | None:
        self.asked_types.append((topic, broker.broker_name, timeout))
        told = self.types.get(topic)
        if isinstance(told, OrderlyError):
            raise told
        attributes = {} if told is None else {"message.type": told}
        return TopicConfig(name=topic, read_queues=4, write_queues=4, attributes=attributes)

    def _fetch(self, topic: str) -> TopicRoute:
        assert self.fetch_gate.wait(PATIENCE)
        self.asked.append(topic)
        if topic not in self.table:
            raise TopicNotFound("no route", code=17, remark="", address="ns:9876")
        return self.table[topic]

    def start(self) -> FakeClient:
        self.started = True
        return self

    def close(self) -> None:
        self.closed = True
        self.schedule.close()


@pytest.fixture
def client() -> Iterator[FakeClient]:
    made = FakeClient()
    yield made
    made.close()


@pytest.fixture
def broker(client: FakeClient) -> Broker:
    return client.brokers


@pytest.fixture
def start(client: FakeClient) -> Iterator[Callable[..., OrderlyProducer]]:
    """Start producers on the fake client; they are closed at the end."""
    made: list[OrderlyProducer] = []

    def start_one(**arguments) -> OrderlyProducer:
        made.append(OrderlyProducer(client=client, **arguments).start())
        return made[-1]

    yield start_one
    client.brokers.let_go()
    for producer in made:
        producer.close(timeout=PATIENCE)


@pytest.fixture
def routes_of():
    return make_route


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Wait until a condition holds, or fail."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.005)

    return wait
