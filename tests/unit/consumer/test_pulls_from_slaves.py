"""Where pulls go, and what a slave's answer is worth: it may lag behind its master."""

from types import SimpleNamespace

import pytest

from orderly.client.pulling import PullResult, PullStatus
from orderly.config import ClientConfig
from orderly.consumer.puller import Puller
from orderly.consumer.session import now
from orderly.errors import ConnectFailed
from orderly.model import BrokerData, MessageQueue, TopicRoute
from orderly.ordering import lanes as lanes_module
from orderly.ordering.drop import Drop
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.results import Disposition
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import message
from tests.support.waiting import eventually

QUEUE = MessageQueue("orders", "broker-a", 0)
START = 5
MASTER, SLAVE = "master:1", "slave:1"


class Broker:
    """Keeps each pull's query; the test answers the newest."""

    def __init__(self):
        self.queries, self._answers = [], []

    def pull(self, query, on_result, **_):
        self.queries.append(query)
        self._answers.append(on_result)
        return True

    def answer(self, reply):
        self._answers[-1](reply)

    def asked(self, count):
        """(offset, broker id) of the pulls, once there were `count`."""
        eventually(lambda: len(self.queries) >= count)
        return [(query.offset, query.broker_id) for query in self.queries]


def reply(status, *offsets, next_offset, suggested=0, address=MASTER):
    found = [message(offset, queue=QUEUE) for offset in offsets]
    return PullResult(status, found, next_offset, 0, 99, suggested, address)


@pytest.fixture
def broker(session):
    session.client.config = ClientConfig(namesrv="127.0.0.1:9876")
    session.client.brokers = Broker()
    return session.client.brokers


@pytest.fixture
def route(session):
    """Set which of the two addresses the route has."""

    def set_route(**addresses):
        ids = {"master": (0, MASTER), "slave": (1, SLAVE)}
        known = dict(ids[name] for name, up in addresses.items() if up)
        broker = BrokerData("broker-a", "cluster", known)
        found = TopicRoute("orders", (), (broker,))
        session.client.routes = SimpleNamespace(cached=lambda _: found)

    set_route(master=True, slave=True)
    return set_route


@pytest.fixture
def puller(session, broker):
    puller = Puller(session, lambda _: None, lambda _: None)
    yield puller
    puller.close()


def held_queue(session, puller, broker, **settings):
    limits = {"max_messages": 3, "max_bytes": 10**6}
    owned = OwnedQueue(QUEUE, START, Lease(now(), 30), **limits, **settings)
    held = session.add(owned, Subscription.from_expression("orders", "*", 0))
    puller.start(held)
    assert broker.asked(1) == [(START, 0)]
    return held


@pytest.fixture
def held(session, puller, broker, route):
    return held_queue(session, puller, broker)


def test_the_replica_that_the_broker_suggests_is_asked_next(held, broker):
    broker.answer(reply(PullStatus.FOUND, 5, next_offset=6, suggested=1))
    broker.answer(reply(PullStatus.FOUND, 6, next_offset=7, suggested=0, address=SLAVE))
    assert broker.asked(3) == [(5, 0), (6, 1), (7, 0)]


@pytest.mark.parametrize("status", [each for each in PullStatus if each != PullStatus.FOUND])
def test_what_a_slave_does_not_have_the_master_is_asked_for_at_the_same_offset(
    status, held, broker
):
    broker.answer(reply(PullStatus.FOUND, 5, next_offset=6, suggested=1))
    broker.answer(reply(status, next_offset=2, suggested=1, address=SLAVE))
    assert broker.asked(3)[2] == (6, 0)
    assert (held.owned.dropped, held.owned.offset) == (None, 5)


def test_a_slave_skips_nothing_for_good(held, broker):
    broker.answer(reply(PullStatus.FOUND, 5, next_offset=6, suggested=1))
    broker.answer(reply(PullStatus.NO_MATCH, next_offset=40, suggested=1, address=SLAVE))
    assert held.owned.next_pull == 6


def test_while_the_master_is_down_an_empty_slave_is_asked_at_a_measured_pace(
    session, held, broker, route
):
    """It answers at once when it lags, and would be asked thousands of times a second."""
    route(slave=True)
    broker.answer(reply(PullStatus.NO_MATCH, next_offset=5, address=SLAVE))
    assert len(broker.queries) == 1
    schedule = session.client.schedule
    assert schedule.seconds == [session.config.pull_retry]
    schedule.ring()
    assert broker.asked(2)[1] == (5, 0), "whoever of them is there by then"


def test_after_a_failure_of_a_slave_the_master_is_asked_at_once_and_for_a_while(
    session, held, broker, monkeypatch
):
    broker.answer(reply(PullStatus.FOUND, 5, next_offset=6, suggested=1))
    broker.answer(ConnectFailed("no slave there", SLAVE))
    assert session.client.schedule.seconds == [0.0]
    session.client.schedule.ring()
    broker.asked(3)
    broker.answer(reply(PullStatus.FOUND, 6, next_offset=7, suggested=1))
    assert broker.asked(4)[2:] == [(6, 0), (7, 0)]
    later = now() + 11
    monkeypatch.setattr("orderly.consumer.puller.now", lambda: later)
    held.owned.lease.renew(later)
    held.owned.finish(held.owned.take(2, later), Disposition.COMMIT, later)
    broker.answer(reply(PullStatus.FOUND, 7, next_offset=8, suggested=1))
    assert broker.asked(5)[4] == (8, 1)


def test_a_master_that_fails_is_not_asked_again_at_once(session, held, broker):
    broker.answer(ConnectFailed("no master there", MASTER))
    assert session.client.schedule.seconds == [session.config.pull_retry]


@pytest.fixture
def refilling(session, puller, broker, route, monkeypatch):
    """A held queue that has just asked again for a body at offset 6."""
    monkeypatch.setattr(lanes_module, "LANE_BODIES", 1)
    held = held_queue(session, puller, broker, by_key=True, max_runs=9, max_span=3)
    of_one_key = reply(PullStatus.FOUND, 5, 6, next_offset=7, suggested=1)
    broker.answer(of_one_key)
    held.owned.finish(held.owned.take(1, now()), Disposition.COMMIT, now())
    puller.reopen(held)
    assert broker.asked(3)[2] == (6, 0)
    return held


def test_bodies_are_pulled_again_from_the_master_and_a_slave_has_lost_none(refilling, broker):
    broker.answer(reply(PullStatus.OFFSET_ILLEGAL, next_offset=2, address=SLAVE))
    assert (refilling.owned.dropped, refilling.owned.offset) == (None, 6)


def test_while_the_master_is_down_a_slave_that_lags_is_asked_for_bodies_at_a_measured_pace(
    session, refilling, broker, route
):
    route(slave=True)
    lagging = PullResult(PullStatus.OFFSET_ILLEGAL, [], 2, 0, 2, 0, SLAVE)
    broker.answer(lagging)
    assert len(broker.queries) == 3
    assert session.client.schedule.seconds == [session.config.pull_retry]
    assert (refilling.owned.dropped, refilling.owned.offset) == (None, 6)
    assert not refilling.doubtful, "a slave that lags says nothing of the topic"


def test_a_queue_that_is_lost_while_in_doubt_is_asked_about_no_more(session, broker, route):
    """Its broker is away for long: whoever takes the queue next finds out anew."""
    asked = []

    def away(held):
        asked.append(held)
        raise ConnectFailed("nobody there", MASTER)

    puller = Puller(session, lambda _: None, away)
    held = held_queue(session, puller, broker)
    broker.answer(ConnectFailed("nobody there", MASTER))
    schedule = session.client.schedule
    schedule.ring()
    eventually(lambda: asked and schedule.waiting)
    with held.lock:
        held.owned.drop(Drop.LOST)
    schedule.ring()
    puller._executor.shutdown()  # what was begun has ended
    assert (len(asked), schedule.waiting) == (1, [])
