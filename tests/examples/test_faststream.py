"""examples/faststream: moves of stock are counted in order, and subscribers hear of it."""

import re
import signal

import pytest
from redis import Redis

from orderly import Message
from orderly.monitoring.parked import ParkedMessages
from orderly.testing import FakeBroker
from tests.support.programs import EXAMPLES, redis_server
from tests.support.waiting import eventually, patient_client, patient_producer

pytestmark = pytest.mark.needs("redis-server")

FOLDER = EXAMPLES / "faststream"


@pytest.fixture
def broker():
    with FakeBroker() as broker:
        broker.create_topic("stock-moves", queues=4)
        yield broker


@pytest.fixture
def redis():
    with redis_server() as port, Redis(port=port, decode_responses=True) as client:
        yield client


@pytest.fixture
def run(broker, redis, start):
    """Start the application; it runs once it returns."""
    port = redis.connection_pool.connection_kwargs["port"]

    def run_one(**settings):
        program = start(
            *("-m", "faststream", "run", "warehouse.app:app"),
            cwd=FOLDER,
            ORDERLY_NAMESRV=broker.namesrv,
            REDIS_URL=f"redis://localhost:{port}",
            **settings,
        )
        eventually(lambda: "started successfully" in program.errors, every=0.05)
        return program

    return run_one


@pytest.fixture
def application(run):
    return run()


@pytest.fixture
def move(broker, closing):
    """Send a move: pieces, or a body."""
    producer = closing(patient_producer(broker.namesrv))

    def send(product, pieces, body=None):
        body = body or b'{"quantity": %d}' % pieces
        return producer.send(Message("stock-moves", body, sharding_key=product))

    return send


@pytest.mark.usefixtures("application")
def test_moves_are_counted_and_told_to_subscribers(redis, move):
    for pieces in (5, -4, 1):
        move("mug", pieces)
    move("pot", 7)
    eventually(lambda: (redis.get("stock:mug"), redis.get("stock:pot")) == ("2", "7"))
    eventually(lambda: redis.smembers("running-short") == {"mug"})
    move("mug", 5)
    eventually(lambda: redis.smembers("running-short") == set())


def test_a_move_that_comes_again_counts_once(run, redis, move, broker, closing):
    killed = run(ORDERLY_COMMIT_INTERVAL="60")  # it dies before its offset is committed
    move("mug", 5)
    eventually(lambda: redis.get("stock:mug") == "5")
    killed.kill()
    broker.jump_clock(90)  # the lease of the killed member runs out
    port = redis.connection_pool.connection_kwargs["port"]
    told = closing(Redis(port=port)).pubsub(ignore_subscribe_messages=True)
    told.subscribe("stock-levels")
    run()
    move("mug", 1)
    assert [heard(told), heard(told)] == [b"5", b"6"], "the first comes again, and does not count"


def heard(channel):
    """The level that the next message of a channel tells."""
    told = eventually(channel.get_message, every=0.05)["data"]
    return re.search(rb'"quantity": ?(\d+)', told)[1]


@pytest.mark.usefixtures("application")
def test_a_move_that_cannot_be_read_parks_its_product_only(redis, move, broker, closing):
    """Others succeed meanwhile: else it would look like an outage, and all would wait."""
    parked = ParkedMessages(closing(patient_client(broker.namesrv)), "warehouse")
    for number in range(6):
        move(f"good-{number}", 9)
        eventually(lambda n=number: redis.get(f"stock:good-{n}") == "9")
    move("mug", 0, b'{"quantity": "5"}')
    move("mug", 5)
    eventually(lambda: [(key.key, key.messages) for key in parked.list().keys] == [("mug", 2)])
    assert redis.get("stock:mug") is None


def test_it_ends_cleanly(application, move, redis):
    move("mug", 5)
    eventually(lambda: redis.get("stock:mug") == "5")
    assert application.end() in {0, -signal.SIGTERM}, application.errors
    assert "shut down gracefully" in application.errors
    assert "Traceback" not in application.errors
