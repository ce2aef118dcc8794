"""examples/order_service: what HTTP says and messages do, on SQLite, in one process."""

import contextlib
import itertools
import json
import queue
import re
import signal
import sqlite3
from http import HTTPStatus

import httpx
import pytest

from orderly import Message
from orderly.model import MessageQueue
from orderly.monitoring.parked import ParkedMessages
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.selectors.keyed import hash_mod
from orderly.testing import Fail, FakeBroker, Fault
from tests.examples.receiving import received
from tests.support.programs import EXAMPLES
from tests.support.waiting import eventually, patient_client, patient_producer

FOLDER = EXAMPLES / "order_service"
QUEUES = 4


@pytest.fixture
def broker():
    with FakeBroker() as broker:
        for topic in ("orders", "payments"):
            broker.create_topic(topic, queues=QUEUES)
        yield broker


@pytest.fixture
def service(broker, start, tmp_path):
    return start(
        *("-m", "uvicorn", "orders.app:app", "--port", "0"),
        cwd=FOLDER,
        ORDERLY_NAMESRV=broker.namesrv,
        DATABASE_URL=f"sqlite+aiosqlite:///{tmp_path}/orders.db",
    )


@pytest.fixture
def http(service, closing):
    return closing(httpx.Client(base_url=address(service), timeout=60))


def address(service):
    """Where it serves, once it does."""
    pattern = re.compile(r"running on (http://\S+)")
    return eventually(lambda: pattern.search(service.errors), every=0.05)[1]


@pytest.fixture
def written(tmp_path):
    """Write events into the outbox."""

    def write(events):
        insert = "INSERT INTO outbox (order_id, body) VALUES (?, ?)"
        with contextlib.closing(sqlite3.connect(tmp_path / "orders.db", timeout=60)) as db, db:
            db.executemany(insert, events)

    return write


@pytest.fixture
def pay(broker, closing):
    """Send a payment, an amount or a body."""
    producer = closing(patient_producer(broker.namesrv))

    def send(order, cents, body=None):
        body = body or json.dumps({"id": f"{order}-{cents}", "cents": cents}).encode()
        return producer.send(Message("payments", body, sharding_key=order))

    return send


def test_an_order_is_placed_paid_and_told_of(http, pay, broker):
    url = "/orders/order-1"
    assert http.put(url, json={"amount": 300}).status_code == HTTPStatus.CREATED
    assert http.put(url, json={"amount": 300}).status_code == HTTPStatus.OK
    assert http.put(url, json={"amount": 200}).status_code == HTTPStatus.CONFLICT
    for cents in (100, 200):
        pay("order-1", cents)
    eventually(lambda: http.get(url).json()["status"] == "paid")
    assert http.post(f"{url}/cancel").status_code == HTTPStatus.CONFLICT
    events = received(broker.namesrv, "orders", 3)["order-1"]
    assert [(event["version"], event["paid"], event["status"]) for event in events] == [
        (1, 0, "placed"),
        (2, 100, "placed"),
        (3, 300, "paid"),
    ]


def test_an_order_is_cancelled_once_and_money_for_it_is_booked(http, pay, broker):
    http.put("/orders/order-2", json={"amount": 300})
    for _ in range(2):
        assert http.post("/orders/order-2/cancel").json()["status"] == "cancelled"
    pay("order-2", 300)
    eventually(lambda: http.get("/orders/order-2").json()["paid"] == 300)
    events = received(broker.namesrv, "orders", 3)["order-2"]
    assert [event["status"] for event in events] == ["placed", "cancelled", "cancelled"]


def test_a_payment_that_its_sender_sends_again_counts_once(http, pay, broker, closing):
    http.put("/orders/order-3", json={"amount": 300})
    restarted = closing(patient_producer(broker.namesrv))
    pay("order-3", 100)
    body = json.dumps({"id": "order-3-100", "cents": 100}).encode()
    restarted.send(Message("payments", body, sharding_key="order-3"))
    pay("order-3", 200)
    eventually(lambda: http.get("/orders/order-3").json()["paid"] >= 300)
    events = received(broker.namesrv, "orders", 3)["order-3"]
    assert [event["paid"] for event in events] == [0, 100, 300]


def test_what_is_not_there_or_not_right_is_refused(http):
    assert http.get("/orders/order-9").status_code == HTTPStatus.NOT_FOUND
    assert http.post("/orders/order-9/cancel").status_code == HTTPStatus.NOT_FOUND
    for amount in (0, 10**15 + 1, 2.5, "3", True):
        assert http.put("/orders/order-9", json={"amount": amount}).status_code == 422
    assert http.put("/orders/a b", json={"amount": 1}).status_code == 422


def test_a_bad_payment_parks_its_order_only(http, pay, broker, closing):
    """Between two bad ones others must succeed: else it looks like an outage, and all wait."""
    parked = ParkedMessages(closing(patient_client(broker.namesrv)), "order-service")
    bad = {"order-7": b"{", "never-placed": None}
    good = [f"good-{n}" for n in range(6)]
    http.put("/orders/order-7", json={"amount": 300})
    for order, body in bad.items():
        for each in good:
            http.put(f"/orders/{order}-{each}", json={"amount": 300})
            pay(f"{order}-{each}", 300)
            url = f"/orders/{order}-{each}"
            eventually(lambda url=url: http.get(url).json()["status"] == "paid")
        pay(order, 5, body)
        pay(order, 1)
        eventually(lambda order=order: (order, 2) in told(parked))


def told(parked):
    """Keys, and how many of their messages wait."""
    return [(key.key, key.messages) for key in parked.list().keys]


def test_an_event_that_cannot_be_sent_holds_back_the_later_ones_of_its_order(http, broker):
    tries = queue.SimpleQueue()

    def first(command):
        is_first = b'"version": 1' in command.body
        if is_first:
            tries.put(None)
        return is_first

    refused = Fail(ResponseCode.NO_PERMISSION)
    broker.script(Fault(RequestCode.SEND_MESSAGE_V2, refused, times=None, when=first))
    http.put("/orders/order-5", json={"amount": 300})
    http.post("/orders/order-5/cancel")
    for _ in range(3):
        tries.get(timeout=30)
    assert http.get("/health").json()["outbox"]["waiting"] == 2
    broker.script()
    events = received(broker.namesrv, "orders", 2)["order-5"]
    assert [event["status"] for event in events] == ["placed", "cancelled"]
    eventually(lambda: http.get("/health").json()["outbox"]["waiting"] == 0)


def orders_of(queue_id, count):
    """Ids of orders whose events go to that queue."""
    queues = [MessageQueue("orders", "broker-a", n) for n in range(QUEUES)]
    names = (f"order-{n}" for n in itertools.count())
    found = (name for name in names if hash_mod(queues, None, name).queue_id == queue_id)
    return list(itertools.islice(found, count))


def test_more_events_than_a_turn_takes_cannot_be_sent_and_others_go(http, broker, written):
    def to_one_queue(command):
        return (command.ext["b"], command.ext["e"]) == ("orders", "0")

    stuck, (free,) = orders_of(0, 250), orders_of(1, 1)
    refused = Fail(ResponseCode.NO_PERMISSION)
    sends = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    broker.script(*(Fault(code, refused, times=None, when=to_one_queue) for code in sends))
    written([(order, '{"version": 1}') for order in stuck])
    http.put(f"/orders/{free}", json={"amount": 300})
    assert received(broker.namesrv, "orders", 1).keys() == {free}
    eventually(lambda: http.get("/health").json()["outbox"]["waiting"] == len(stuck))
    broker.script()
    assert received(broker.namesrv, "orders", len(stuck) + 1).keys() == {*stuck, free}


def test_a_relay_that_ends_by_a_defect_is_told_of(http, service, written):
    assert http.get("/health").json()["relay"] == {"alive": True}
    written([("order-8", b"no text")])
    eventually(lambda: http.get("/live").status_code == HTTPStatus.SERVICE_UNAVAILABLE)
    assert http.get("/health").json()["relay"] == {"alive": False}
    assert "the relay ends" in service.errors


def test_it_says_how_it_is_and_ends_cleanly(http, service, broker):
    eventually(lambda: http.get("/health").json()["consumer"]["ready"])
    assert http.get("/live").json() == {"live": True}
    assert http.get("/ready").json() == {"ready": True}
    assert http.get("/health").json()["outbox"] == {"waiting": 0, "since": None}
    assert service.end() == -signal.SIGTERM, service.errors  # uvicorn ends by the signal it got
    assert "Application shutdown complete" in service.errors


def test_orders_are_taken_while_the_broker_is_away(http, broker):
    broker.stop()
    assert http.put("/orders/order-4", json={"amount": 300}).status_code == HTTPStatus.CREATED
    assert http.get("/ready").status_code == HTTPStatus.OK
    assert http.get("/live").status_code == HTTPStatus.OK
    assert http.get("/health").json()["outbox"]["waiting"] == 1
