"""A consumer says of each queue why it is where it is, and of itself whether it is well."""

import json
import threading
import urllib.error
import urllib.request

import pytest
from structlog.testing import capture_logs

import orderly
from orderly import ConsumerConfig, ConsumeResult, Suspend
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.probe import Probe
from orderly.model import MessageQueue
from orderly.ordering.explain import Why
from orderly.ordering.poison import VerdictReason
from orderly.protocol.members import queue_reports
from orderly.sentences import sentence
from tests.support.brokers import take_lock_from
from tests.support.consuming import Recorder, send_numbers
from tests.support.waiting import PATIENCE, eventually, patient_consumer

KEY = "k"


class Held:
    """A handler that waits until it is let go."""

    def __init__(self):
        self.entered, self.let_go = threading.Event(), threading.Event()

    def __call__(self, messages, context):
        self.entered.set()
        self.let_go.wait(30)
        return ConsumeResult.SUCCESS


@pytest.fixture
def held():
    held = Held()
    yield held
    held.let_go.set()


def of(consumer, queue):
    return next((e for e in consumer.explain() if e.queue == queue), None)


def becomes(consumer, queue, why):
    """Wait until `why` is what holds the queue up; returns the explanation."""

    def explained():
        explanation = of(consumer, queue)
        return explanation if explanation and explanation.why is why else None

    return eventually(explained, within=20)


def test_what_runs_what_waits_and_what_is_empty(producer, topic, start_member):
    queue = send_numbers(producer, topic, [KEY], 2)[0].queue
    entered, go_on = threading.Event(), threading.Event()

    def act(messages, context):
        entered.set()
        go_on.wait(30)
        return context.suspend(20) if int(messages[0].body) == 1 else ConsumeResult.SUCCESS

    consumer, _ = start_member(act)
    assert entered.wait(20)
    eventually(lambda: of(consumer, queue).seconds > 0.05)
    running = of(consumer, queue)
    assert (running.why, running.offset, running.key) == (Why.HANDLING, 0, KEY)
    assert f"a handler is running ({running.seconds:.1f} s)" in str(running)
    go_on.set()
    waiting = becomes(consumer, queue, Why.SUSPENDED)
    assert 10 < waiting.seconds <= 20
    assert (waiting.offset, waiting.cached, waiting.attempt) == (1, 1, 2)

    def others():
        return [e.why for e in consumer.explain() if e.queue != queue]

    eventually(lambda: others() == [Why.EMPTY] * 3)


def raises(messages, context):
    raise KeyError(messages[0].body)


ANSWERS = {
    "Suspend": (lambda messages, context: Suspend(20), "answered Suspend"),
    "None": (lambda messages, context: None, "answered NoneType"),
    "an exception": (raises, "KeyError"),
}


@pytest.mark.parametrize("order", ["queue", "key"])
@pytest.mark.parametrize(("act", "said"), ANSWERS.values(), ids=ANSWERS)
def test_what_waits_says_how_its_last_try_ended(act, said, order, producer, topic, start_member):
    """By its key, too, with order by key. Nothing of the message is in it."""
    (sent,) = send_numbers(producer, topic, [KEY], 1)
    consumer, _ = start_member(act, order=order, suspend=20.0)
    waiting = becomes(consumer, sent.queue, Why.SUSPENDED)
    assert waiting.last_try.split(" (")[0] == said
    assert str(waiting).endswith(f" s), last try: {waiting.last_try}")
    assert "asked to wait" not in str(waiting)
    assert [e.last_try for e in consumer.explain_keys()] == [waiting.last_try] * (order == "key")


@orderly.listener(on_poison="park_key")
def fails(message, attempt):
    raise LookupError("no such account")


def test_why_a_key_is_not_parked_yet(producer, topic, start_member, client, group):
    """In the line of its failure, in `explain`, and in what members report to `orderly`."""
    (sent,) = send_numbers(producer, topic, [KEY], 1)
    with capture_logs() as logs:
        consumer, _ = start_member(fails, order="key", suspend=20.0)
        waiting = becomes(consumer, sent.queue, Why.SUSPENDED)
    because = VerdictReason.TOO_EARLY.value
    retry = next(e for e in logs if e["event"] == "message.retry")
    assert (retry["because"], retry["not_yet"]) == ("TOO_EARLY", because)
    assert because in sentence(retry)
    assert waiting.because == because
    assert str(waiting).endswith(f"not given up yet: {because}")
    (key,) = consumer.explain_keys()
    assert (key.because, key.last_try) == (because, waiting.last_try)
    info = client.groups.running_info(group, consumer.client_id)
    assert queue_reports(info)[sent.queue].because == because


def test_everything_consumed_is_empty(producer, topic, start_member):
    queue = send_numbers(producer, topic, [KEY], 2)[0].queue
    consumer, _ = start_member()
    assert becomes(consumer, queue, Why.EMPTY).offset == 2
    assert consumer.health().ready


def test_a_queue_without_a_free_thread_waits(producer, topic, start_member, held):
    sent = send_numbers(producer, topic, [f"k{i}" for i in range(8)], 1)
    consumer, _ = start_member(held, concurrency=1)

    def reasons():
        return sorted(e.why.name for e in consumer.explain() if e.cached)

    expected = ["HANDLING"] + ["WAITING"] * (len({r.queue for r in sent}) - 1)
    eventually(lambda: reasons() == expected, within=20)


def test_the_queues_of_another_member(start_member):
    first, _ = start_member()
    second, _ = start_member()
    eventually(lambda: len(first.assignment) == len(second.assignment) == 2, within=20)
    for member, other in [(first, second), (second, first)]:
        theirs = [e.queue for e in member.explain() if e.why is Why.NOT_OWNED]
        assert theirs == [*other.assignment]
        eventually(lambda m=member: m.health().ready)


def test_a_queue_that_somebody_else_locks(topic, client, group, start_member):
    queue = MessageQueue(topic, "broker-a", 2)
    assert client.brokers.lock_queues(group, "broker-a", [queue])
    consumer, _ = start_member(patient=True)
    eventually(lambda: len(consumer.assignment) == 3, within=20)
    assert of(consumer, queue).why is Why.NOT_LOCKED
    eventually(lambda: consumer.health().reasons == (str(of(consumer, queue)),))
    assert not consumer.health().ready
    client.brokers.unlock_queues(group, "broker-a", [queue])
    eventually(lambda: consumer.health().ready, within=20)


def test_a_lock_that_is_taken_away_is_lost_and_asked_for_again(
    producer, topic, client, group, start_member, held
):
    queue = send_numbers(producer, topic, [KEY], 3)[0].queue
    lost = []
    consumer, seen = start_member(
        held, lock_interval=0.2, commit_interval=0.1, hooks=ConsumerHooks(lost=lost.extend)
    )
    assert held.entered.wait(20)
    take_lock_from(client, consumer.client_id, group, queue)
    becomes(consumer, queue, Why.LOCK_LOST)
    eventually(lambda: lost == [queue])
    health = consumer.health()
    assert (health.live, health.ready) == (True, False)
    assert str(queue) in health.reasons[0]
    held.let_go.set()
    becomes(consumer, queue, Why.NOT_LOCKED)
    assert not consumer.health().ready
    assert client.brokers.query_offset(group, queue) == 0, "its result came too late to count"
    client.brokers.unlock_queues(group, queue.broker_name, [queue])
    becomes(consumer, queue, Why.EMPTY)
    assert seen.numbers(KEY) == [0, 0, 1, 2]
    assert consumer.health().ready


def test_a_queue_that_is_given_up_waits_for_its_handler(producer, topic, start_member, held):
    queue = send_numbers(producer, topic, [KEY], 1)[0].queue
    consumer, _ = start_member(held)
    assert held.entered.wait(20)
    consumer.unsubscribe(topic)
    assert becomes(consumer, queue, Why.LEAVING).seconds > 0
    assert queue not in consumer.assignment
    held.let_go.set()
    eventually(lambda: consumer.explain() == (), within=20)


def answer(probe, path):
    try:
        url = f"http://127.0.0.1:{probe.port}{path}"
        with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_the_probe_tells_the_consumers_life(producer, topic, orderly_namesrv, group, closing, held):
    config = ConsumerConfig(consume_from="first", consume_timeout=0.3)
    consumer = patient_consumer(group, Recorder(held), namesrv=orderly_namesrv, config=config)
    consumer.subscribe(topic)
    probe = closing(Probe(0, consumer.health))
    assert answer(probe, "/live")[0] == 200
    assert answer(probe, "/ready") == (
        503,
        {"ready": False, "reasons": ["the consumer is created"]},
    )
    closing(consumer)
    eventually(lambda: answer(probe, "/ready")[0] == 200, within=20)
    queue = send_numbers(producer, topic, [KEY], 1)[0].queue
    eventually(lambda: answer(probe, "/live")[0] == 503, within=20)
    _, body = answer(probe, "/live")
    assert body["reasons"][0].startswith(f"{queue}: a handler has been running for")
    held.let_go.set()
    eventually(lambda: answer(probe, "/live")[0] == 200, within=20)
    _, whole = answer(probe, "/health")
    assert whole["state"] == "running"
    assert [q["queue"]["queue_id"] for q in whole["queues"]] == [0, 1, 2, 3]
    consumer.close()
    assert answer(probe, "/live") == (503, {"live": False, "reasons": ["the consumer is closed"]})
