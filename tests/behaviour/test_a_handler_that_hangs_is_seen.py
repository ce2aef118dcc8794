"""With handler_timeout a call that hangs is told of, seen in health, and stopped if it can be."""

import asyncio
import sys
import threading
from collections import Counter

import pytest

from orderly import Ack
from orderly.errors import HandlerHung
from orderly.listening import AsyncListener, Listener
from orderly.ordering.explain import Why
from orderly.ordering.explain_keys import KeyWhy
from orderly.testing.oracle import Delivered, Sent, judge
from tests.support import workers
from tests.support.consuming import judged_by_key, named, send_numbers
from tests.support.waiting import eventually
from tests.support.workers import Diary

KEYS = ["a", "b", "c", "d"]
COUNT = 4
BAD = ("b", 1)
TIMEOUT = 2.0  # seconds; a busy machine takes less for what does not hang
SETTINGS = {"order": "key", "handler_timeout": TIMEOUT, "suspend": 0.05}


def is_bad(messages):
    return (messages[0].sharding_key, int(messages[0].body)) == BAD


def test_a_thread_is_told_of_and_the_consumer_is_not_live_while_it_hangs(
    events, producer, topic, start_group
):
    let_go = threading.Event()

    def act(messages, context):
        if is_bad(messages):
            let_go.wait(30)
        return Ack()

    group = start_group(act, **SETTINGS)
    results = send_numbers(producer, topic, KEYS, COUNT)
    queue = results[KEYS.index(BAD[0])].queue
    try:
        owner = next(c for c in group.consumers if queue in c.assignment)
        eventually(lambda: not owner.health().live, within=20)
        of_queue = next(e for e in owner.explain() if e.queue == queue)
        assert of_queue.why is Why.HUNG
        assert of_queue.seconds >= TIMEOUT
        of_key = next(e for e in owner.explain_keys() if e.key == BAD[0])
        assert of_key.why is KeyWhy.HUNG
        assert owner.health().reasons[0].endswith(f"(handler_timeout is {TIMEOUT:g} s)")
        assert all(c.health().live for c in group.consumers if c is not owner)
        eventually(lambda: len(named(events, "handler.hung")) >= 2)
    finally:
        let_go.set()
    eventually(lambda: len(group.seen.deliveries) == len(results), within=20)
    eventually(lambda: owner.health().live)
    assert judged_by_key(KEYS, results, group.seen).ok
    told = named(events, "handler.hung")
    first = told[0]
    assert (first["key"], first["offset"]) == (BAD[0], of_key.offset)
    for doublings, event in enumerate(told):  # the seconds are rounded
        assert event["seconds"] > TIMEOUT * 2**doublings - 0.1, "once, and when the time doubles"
    assert "let_go.wait" in first["stack"]


def test_a_coroutine_is_cancelled_and_its_message_comes_again(events, producer, topic, start_group):
    async def act(messages, context):
        if is_bad(messages) and context.attempt == 1:
            await asyncio.sleep(60)
        return Ack()

    group = start_group(act, **SETTINGS)
    results = send_numbers(producer, topic, KEYS, COUNT)
    eventually(lambda: sum(d.success for d in list(group.seen.deliveries)) == len(results), 20)
    assert judged_by_key(KEYS, results, group.seen).ok
    times = Counter((d.key, d.number) for d in group.seen.deliveries)
    assert {message for message, count in times.items() if count > 1} == {BAD}
    assert [d.attempt for d in group.seen.deliveries if (d.key, d.number) == BAD] == [1, 2]
    assert len(named(events, "handler.hung")) == 1
    (raised,) = named(events, "handler.raised")
    assert raised["error"].startswith("HandlerHung")
    assert all(consumer.health().live for consumer in group.consumers)


def test_a_listener_hears_of_its_coroutine_that_was_cancelled(
    events, producer, topic, start_member
):
    tries = []

    async def ship(message, attempt):
        tries.append(attempt.number)
        if attempt.number == 1:
            await asyncio.sleep(60)
        return Ack()

    start_member(recorder=AsyncListener(ship), **SETTINGS)
    send_numbers(producer, topic, ["a"], 1)
    eventually(lambda: tries == [1, 2], within=20)
    (retry,) = named(events, "message.retry")
    assert isinstance(retry["exc_info"], HandlerHung)


@pytest.mark.parametrize("handler", [workers.handle, Listener(workers.handle_one)])
def test_a_worker_process_is_killed_and_its_message_comes_again(
    handler, events, producer, topic, start_member, tmp_path, monkeypatch
):
    # Spares the worker process the import of pytest.
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    diary, sent = Diary(tmp_path / "diary"), []
    for number in range(COUNT):
        for key in KEYS:
            message = diary.message(topic, key, number, hang=(key, number) == BAD)
            place = producer.send(message)
            sent.append(Sent(key, (key, number), (place.queue.queue_id, key), place.queue_offset))
    settings = SETTINGS | {"executor": "process", "concurrency": 2}
    settings["handler_timeout"] = 15.0  # the start of a worker process counts
    member, _ = start_member(recorder=handler, **settings)
    done = len(KEYS) * COUNT
    eventually(lambda: sum(c.ended is not None for c in diary.calls()) >= done, within=30)
    calls = diary.calls()
    assert judge(sent, [as_delivered(call) for call in calls]).ok
    hung, again = [call for call in calls if (call.key, call.number) == BAD]
    assert (hung.attempt, hung.ended, again.attempt) == (1, None, 2)
    assert hung.pid != again.pid
    (told,) = named(events, "handler.hung")
    assert told["key"] == BAD[0]
    assert "stack" not in told, "that of the thread that waits says nothing"
    said = "message.retry" if isinstance(handler, Listener) else "handler.raised"
    (failed,) = named(events, said)
    assert isinstance(failed["exc_info"], HandlerHung)
    assert member.health().live


def as_delivered(call):
    lane, died = (call.queue_id, call.key), call.ended is None
    ended = call.started if died else call.ended
    message = (call.key, call.number)
    return Delivered(call.key, message, lane, call.offset, not died, call.started, ended)
