"""What another thread, or a lost answer, does in the moment between two steps of the consumer."""

from types import SimpleNamespace

import pytest

from orderly.clock import now
from orderly.config import ConsumerConfig
from orderly.consumer.control import Control
from orderly.consumer.dead_letter_sender import DeadLetterSender
from orderly.consumer.direct_consume import DirectCall
from orderly.consumer.handler_caller import Caller
from orderly.consumer.rebalancer import Rebalancer, Taker
from orderly.consumer.workers import Worker
from orderly.ordering.allocation import averagely
from orderly.ordering.context import ConsumeContext
from orderly.ordering.lane import Turn
from orderly.ordering.owned_queue import Drop, Lease, OwnedQueue
from orderly.ordering.results import ConsumeResult, Disposition
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import QUEUE, message


def ignore(*_):
    """Stands for what is of no interest here."""


@pytest.fixture
def hold(session):
    def hold(asked_at=None):
        lease = Lease(now() if asked_at is None else asked_at, 30.0)
        owned = OwnedQueue(QUEUE, 0, lease, max_messages=100, max_bytes=10**6)
        return session.add(owned, session.subscriptions["orders"])

    return hold


@pytest.mark.parametrize("why", ["the lease ran out", "the lock was lost", "the offset was set"])
def test_no_dead_letter_is_sent_for_a_result_that_does_not_count(why, cluster, session, hold):
    session.config = ConsumerConfig(max_reconsume_times=0)
    sent = []
    cluster.send_now = lambda queue, command: sent.append(command)
    held = hold(now() - 100 if why == "the lease ran out" else None)
    if why == "the lock was lost":
        held.owned.drop(Drop.LOST)
    elif why == "the offset was set":
        held.owned.restart_at(0, Drop.MOVED)
    done = DeadLetterSender(session).send_to_dlq(held, (message(0),), ConsumeContext(QUEUE))
    assert (sent, done) == ([], frozenset())
    assert QUEUE not in cluster.locks, "nor is the lock taken again"


def test_a_queue_that_comes_back_while_its_handler_runs_is_taken_as_soon_as_it_ends(
    rebalancer, session, cluster
):
    rebalancer.round()
    held = next(h for h in session.held() if h.queue.queue_id == 3)
    held.owned.pull_gate(now())
    held.owned.pulled([message(0, queue=held.queue)], 1)
    batch = held.owned.take(1, now())
    cluster.members = ["me@1", "other@2"]
    rebalancer.round()
    cluster.members = ["me@1"]  # the other has left again
    rebalancer.round()
    held.owned.finish(batch, Disposition.COMMIT, now())
    rebalancer.round()  # the one the end of the handler asks for
    active = [h.queue.queue_id for h in session.held() if h.owned.dropped is None]
    assert active == [0, 1, 2, 3]


def test_nothing_is_taken_once_the_consumer_is_closing(rebalancer, session, cluster):
    cluster.during["lock"] = lambda: setattr(session, "closing", True)
    rebalancer.round()
    assert (session.held(), cluster.locks) == ([], {})


def test_new_tags_while_queues_are_taken_begin_no_pull_by_the_old_ones(
    session, cluster, releaser, again, membership
):
    stale = []

    def start(held):
        if held.subscription.expression != "A" and held.owned.dropped is None:
            stale.append(held.queue)

    def subscribe_otherwise():
        cluster.during.clear()
        session.subscriptions = {"orders": Subscription.from_expression("orders", "A", 1)}
        releaser.drop_outdated()

    cluster.during["query"] = subscribe_otherwise
    taker = Taker(session, start, releaser.drop_outdated)
    Rebalancer(session, averagely, taker, releaser, again.append, membership=membership).round()
    assert stale == []


def test_a_resume_while_the_queue_is_being_taken_is_not_lost(session, cluster):
    queue = cluster.route("orders").read_queues()[0]
    control = Control(session, SimpleNamespace(start=ignore), ignore)
    control.pause([queue])
    cluster.during["query"] = lambda: control.resume([queue])
    Taker(session, ignore, ignore).take((queue,), session.subscriptions["orders"])
    assert not session.find(queue).owned.paused


def test_a_pause_while_the_queue_is_being_taken_holds(session, cluster):
    queue = cluster.route("orders").read_queues()[0]
    control = Control(session, None, None)
    cluster.during["query"] = lambda: control.pause(queue)
    Taker(session, ignore, ignore).take((queue,), session.subscriptions["orders"])
    assert session.find(queue).owned.paused


def test_what_is_to_be_consumed_by_hand_as_the_run_ends_runs_at_once(session, hold):
    tasks, ran, asked = [], [], []

    def handle(messages, context):
        ran.append(messages[0].queue_offset)
        return ConsumeResult.SUCCESS

    worker = Worker(session, Caller(session, handle), ignore)
    worker.pool = SimpleNamespace(submit=tasks.append, crowded=False)
    held = hold()
    held.owned.pulled([message(0)], 1)
    take = held.owned.take

    def take_as_somebody_asks(*args, **paid):
        batch = take(*args, **paid)
        if batch is None and not asked:
            asked.append(DirectCall(message(9)))
            held.owned.want_turn(None, Turn(asked[0]))
        return batch

    held.owned.take = take_as_somebody_asks
    worker.ready(held)
    tasks.pop(0)()
    worker.ready(held)
    while tasks:
        tasks.pop(0)()
    assert ran == [0, 9]
