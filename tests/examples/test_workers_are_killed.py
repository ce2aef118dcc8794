"""Workers of two examples on PostgreSQL, one killed in the middle: each effect is had once.

A key's amounts are powers of two, so a sum tells which are missing and which were added twice.
"""

import json

import httpx
import pytest
import sqlalchemy as sa

from orderly import Message
from tests.examples.receiving import received
from tests.examples.test_order_service import address
from tests.support.programs import EXAMPLES, postgresql
from tests.support.waiting import eventually, patient_producer

pytestmark = pytest.mark.needs("postgresql")

KEYS = [f"key-{n}" for n in range(16)]
EACH = 10  # messages a key
WHOLE = 2**EACH - 1


@pytest.fixture(scope="module")
def server():
    with postgresql() as url:
        yield sa.make_url(url)


@pytest.fixture
def database(server, closing, request):
    """A database of this test's own: its URL, and a function that asks it."""
    name = "of_" + request.node.name
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as db:
        db.execute(sa.text(f"CREATE DATABASE {name}"))
    url = server.set(database=name)
    asking = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    db = closing(asking.connect())
    return url, lambda query: db.execute(sa.text(query)).all()


def send_amounts(namesrv, topic):
    """Send every key its amounts, keys in turn.

    Each is sent twice, as by a sender that does not know whether it did.
    """
    with patient_producer(namesrv) as producer:
        for n in range(EACH):
            for key in KEYS * 2:
                body = json.dumps({"id": f"{key}-{n}", "cents": 2**n}).encode()
                producer.submit(Message(topic, body, sharding_key=key))


def test_an_order_service(database, start, settings, new_topic, closing):
    (url, ask), namesrv = database, settings["ORDERLY_NAMESRV"]
    orders, payments = new_topic("orders"), new_topic("payments")
    known = {"DATABASE_URL": url.render_as_string(), "ORDERS_TOPIC": orders}

    def serve():
        command = ("-m", "uvicorn", "orders.app:app", "--port", "0")
        folder = EXAMPLES / "order_service"
        return start(*command, cwd=folder, PAYMENTS_TOPIC=payments, **known, **settings)

    first = serve()
    address(first)  # it has made the tables
    second = closing(httpx.Client(base_url=address(serve()), timeout=60))
    for key in KEYS:
        assert second.put(f"/orders/{key}", json={"amount": WHOLE}).is_success
    send_amounts(namesrv, payments)
    eventually(lambda: ask("SELECT sum(paid) FROM orders") > [(0,)])
    first.kill()
    serve()
    assert second.put("/orders/another", json={"amount": 1}).is_success
    eventually(lambda: ask("SELECT count(*) FROM orders WHERE status = 'paid'") == [(16,)], 60)
    assert ask("SELECT DISTINCT paid FROM orders WHERE id != 'another'") == [(WHOLE,)]
    events = received(namesrv, orders, len(KEYS) * (EACH + 1) + 1)
    for key in KEYS:
        assert [event["version"] for event in events[key]] == list(range(1, EACH + 2))
        assert [event["paid"] for event in events[key]] == [2**n - 1 for n in range(EACH + 1)]
    eventually(lambda: ask("SELECT count(*) FROM outbox") == [(0,)])


def test_a_django_worker(database, start, settings, new_topic):
    (url, ask), namesrv, entries = database, settings["ORDERLY_NAMESRV"], new_topic("entries")
    libpq = {"PGHOST": url.host, "PGPORT": str(url.port), "PGUSER": url.username}
    settings = settings | libpq | {"PGDATABASE": url.database}

    def manage(*words):
        return start("manage.py", *words, cwd=EXAMPLES / "django_worker", **settings)

    assert manage("migrate").process.wait(60) == 0
    for key in KEYS:
        ask(f"INSERT INTO accounts_account VALUES ('{key}', 0) RETURNING 1")
    work = ("consume", "--topic", entries, "--probe-port", "0")
    first, second = manage(*work), manage(*work)
    first.says("consuming")
    second.says("consuming")
    send_amounts(namesrv, entries)
    eventually(lambda: ask("SELECT sum(balance) FROM accounts_account") > [(0,)])
    first.kill()
    heir = manage(*work)
    sums = "SELECT DISTINCT balance FROM accounts_account"
    eventually(lambda: ask(sums) == [(WHOLE,)], 60, every=0.05)
    for worker in (second, heir):
        heir.says("consuming")
        assert worker.end() == 0, worker.errors
        worker.says("closed")
    assert ask(sums) == [(WHOLE,)]
