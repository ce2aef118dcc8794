"""A member whose event loop or threads do not run is of no use to its queues: others get them."""

import asyncio
import threading

import pytest

from orderly import Ack
from orderly.errors import LifecycleError
from orderly.ordering.explain import Why
from tests.support.consuming import (
    AsyncRecorder,
    Group,
    Recorder,
    judged_by_key,
    named,
    send_numbers,
)
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(8)]
QUEUES = 4  # of `topic`
TRUST = 6.0  # seconds, lock_trust; a busy machine stands still for less
SETTINGS = {"lock_interval": 1.0, "lock_trust": TRUST, "suspend": 0.2}


async def ack(messages, context):
    return Ack()


class Program:
    """An asyncio program whose loop runs only while the test wants it to."""

    def __init__(self, consumer):
        self.consumer = consumer
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(consumer.__aenter__())
        self._thread = None

    def run(self):
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def stop(self):
        """As where `run_until_complete` has returned: nothing is cancelled, nothing closed."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def end(self):
        if not self.loop.is_closed():
            if not self.loop.is_running():
                self.run()
            asyncio.run_coroutine_threadsafe(self.consumer.aclose(), self.loop).result(60)
            self.stop()
            self.loop.close()


@pytest.fixture
def start_program(start_member, monkeypatch):
    """Start a member on a loop of its own; returns the program."""
    programs = []

    def start(recorder, **settings):
        def enter(consumer):
            programs.append(Program(consumer))
            programs[-1].run()
            return consumer

        with monkeypatch.context() as patched:
            patched.setattr("orderly.OrderlyConsumer.__enter__", enter)
            patched.setattr("orderly.OrderlyConsumer.__exit__", lambda *_: None)
            start_member(recorder=recorder, **SETTINGS | settings)
        return programs[-1]

    yield start
    for program in programs:
        program.end()


def test_a_loop_that_the_program_stopped_and_runs_again(
    start_program, start_member, producer, topic, events
):
    seen = AsyncRecorder(ack)
    program = start_program(seen, order="key")
    member = program.consumer
    other, _ = start_member(recorder=seen, order="key", **SETTINGS)
    group = Group([member, other], seen)
    eventually(lambda: group.settled(QUEUES))
    program.stop()
    sent = send_numbers(producer, topic, KEYS, 3)
    eventually(lambda: not member.health().ready)
    eventually(lambda: len(other.assignment) == QUEUES)
    eventually(lambda: len(seen.deliveries) == len(sent))
    eventually(lambda: not member.health().live)
    assert "the event loop does not run; the queues are given up" in member.health().reasons[0]
    assert {e.why for e in member.explain()} == {Why.WITHDRAWN, Why.NOT_OWNED}
    eventually(lambda: other.health().ready)
    eventually(lambda: len(named(events, "engine.stands")) == 2)
    assert {event["why"] for event in named(events, "engine.stands")} == {
        "the event loop does not run"
    }
    assert named(events, "engine.goes_on") == []
    program.run()
    eventually(lambda: group.settled(QUEUES))
    assert len(named(events, "engine.goes_on")) == 1
    sent += send_numbers(producer, topic, KEYS, 3, first=3)
    eventually(lambda: len(seen.deliveries) == len(sent))
    eventually(lambda: member.health().ready)
    assert member.health().live
    verdict = judged_by_key(KEYS, sent, seen)
    assert verdict.ok, verdict
    assert seen.by_key() == {key: [*range(6)] for key in KEYS}, "and nothing came again"


@pytest.mark.parametrize("order", ["queue", "key"])
def test_a_handler_that_blocks_the_loop_keeps_its_own_queue_only(
    order, start_member, producer, topic, client, group, events
):
    let_go, blocked = threading.Event(), threading.Event()

    async def act(messages, context):
        if messages[0].sharding_key == "stuck":
            blocked.set()
            let_go.wait(120)  # where it should have awaited something
        return Ack()

    seen = AsyncRecorder(act)
    members = [start_member(recorder=seen, order=order, **SETTINGS)[0] for _ in range(2)]
    of_group = Group(members, seen)
    try:
        eventually(lambda: of_group.settled(QUEUES))
        queue = send_numbers(producer, topic, ["stuck"], 1)[0].queue
        assert blocked.wait(60)
        owner = next(member for member in members if queue in member.assignment)
        other = next(member for member in members if member is not owner)
        sent = send_numbers(producer, topic, KEYS, 2)
        elsewhere = [result for result in sent if result.queue != queue]
        eventually(lambda: len(seen.deliveries) == len(elsewhere))
        eventually(lambda: not owner.health().live)
        (stands, *_) = named(events, "engine.stands")
        assert stands["why"] == "the event loop is blocked by what runs on it"
        assert "let_go.wait(120)" in stands["stack"]
        assert other.health().live
        assert queue not in other.assignment
        assert not client.brokers.lock_queues(group, queue.broker_name, [queue])
    finally:
        let_go.set()
    eventually(lambda: of_group.settled(QUEUES))
    eventually(lambda: len(seen.deliveries) == len(sent) + 1)
    eventually(lambda: all(member.health().ready for member in members))
    assert seen.numbers("stuck") == [0], "its result counts: the lock was kept"
    assert seen.by_key() == {"stuck": [0]} | {key: [0, 1] for key in KEYS}


def test_a_loop_that_was_closed_is_the_end_of_the_consumer(
    start_program, producer, topic, client, group, events
):
    begun = asyncio.Event()

    async def never_ends(messages, context):
        if int(messages[0].body) == 1:
            begun.set()
            await asyncio.Event().wait()
        return Ack()

    seen = AsyncRecorder(never_ends)
    program = start_program(seen, order="queue")
    member = program.consumer
    queue = send_numbers(producer, topic, ["k"], 2)[0].queue
    eventually(begun.is_set)
    told = []

    def wait():
        try:
            member.wait()
        except LifecycleError as error:
            told.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    program.stop()
    program.loop.close()
    waiting.join(60)
    assert "has failed: the event loop on which the handlers run was closed" in told[0]
    health = member.health()
    assert (health.live, health.ready, health.state) == (False, False, "failed")
    assert "the event loop on which the handlers run was closed" in health.reasons[0]
    assert client.brokers.query_offset(group, queue) == 1, "what was done is saved"
    assert client.brokers.lock_queues(group, queue.broker_name, [queue]) == {queue}
    assert client.admin.consumer_connections(group) is None
    assert len(named(events, "engine.gone")) == 1
    with pytest.raises(LifecycleError, match="has failed"):
        member.wait(0)
    with pytest.raises(LifecycleError, match="is failed"):
        member.start()
    member.close()
    member.close()


def test_without_a_thread_for_its_handlers(start_member, producer, topic, monkeypatch, events):
    seen = Recorder()
    member, _ = start_member(recorder=seen, order="key", **SETTINGS)
    other, _ = start_member(recorder=seen, order="key", **SETTINGS)
    group = Group([member, other], seen)
    eventually(lambda: group.settled(QUEUES))
    start = threading.Thread.start

    def start_unless_its(thread):
        if thread.name.startswith("orderly-work-poor-"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        member._runtime.engine.pool._name = "poor"
        patched.setattr(threading.Thread, "start", start_unless_its)
        sent = send_numbers(producer, topic, KEYS, 3)
        eventually(lambda: len(other.assignment) == QUEUES)
        eventually(lambda: len(seen.deliveries) == len(sent))
        eventually(lambda: not member.health().live)
        assert "the system starts none" in member.health().reasons[0]
        eventually(lambda: len(named(events, "engine.stands")) == 2)
    eventually(lambda: group.settled(QUEUES))
    sent += send_numbers(producer, topic, KEYS, 3, first=3)
    eventually(lambda: len(seen.deliveries) == len(sent))
    eventually(lambda: member.health().ready)
    assert len(named(events, "engine.goes_on")) == 1
    verdict = judged_by_key(KEYS, sent, seen)
    assert verdict.ok, verdict
    assert seen.by_key() == {key: [*range(6)] for key in KEYS}


def test_handlers_that_fill_all_threads_for_long_are_no_reason(
    start_member, producer, topic, events
):
    """Whoever waits for them waits for room."""
    let_go, running = threading.Event(), threading.Semaphore(0)

    def act(messages, context):
        running.release()
        let_go.wait(120)
        return Ack()

    member, seen = start_member(act, order="key", concurrency=2, **SETTINGS)
    sent = send_numbers(producer, topic, KEYS, 1)
    try:
        assert running.acquire(timeout=60)
        assert running.acquire(timeout=60)
        eventually(lambda: max(e.seconds or 0 for e in member.explain()) > 2.5 * TRUST)
        health = member.health()
        assert (health.live, health.ready) == (True, True), health.reasons
        assert len(member.assignment) == QUEUES
    finally:
        let_go.set()
    eventually(lambda: len(seen.deliveries) == len(sent))
    assert named(events, "engine.stands") == []
