"""A queue with work without end keeps its thread only while no other queue waits for one."""

import itertools
import threading
import time

from orderly import ConsumeResult
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

KEYS = ["a", "b", "c", "d"]  # by hash: one of them in each queue
WORK = 0.004  # seconds a message takes


def slowly(messages, context):
    time.sleep(WORK)
    return ConsumeResult.SUCCESS


def turns(deliveries):
    """Queue ids in the order of their deliveries, repeats in a row left out."""
    order = [d.queue_id for d in sorted(deliveries, key=lambda d: d.started)]
    return [q for q, before in zip(order, [None, *order], strict=False) if q != before]


def test_queues_with_more_work_than_they_can_do_take_turns(producer, topic, start_member):
    results = send_numbers(producer, topic, KEYS, 150)
    assert len({r.queue.queue_id for r in results}) == 4
    _, seen = start_member(slowly, concurrency=1)
    eventually(lambda: len(turns(seen.deliveries)) >= 6, within=20)
    ran = sorted(seen.deliveries, key=lambda d: d.started)
    before_one_is_empty = list(itertools.takewhile(lambda d: d.number < 149, ran))
    assert len(turns(before_one_is_empty)) >= 6, "the others waited until a queue was empty"
    assert all(a.ended <= b.started for a, b in itertools.pairwise(ran)), "one thread"
    assert all(seen.numbers(key) == sorted(seen.numbers(key)) for key in KEYS)


def test_a_suspended_queue_needs_no_thread(producer, topic, start_member):
    send_numbers(producer, topic, KEYS, 3)

    def act(messages, context):
        stuck = messages[0].sharding_key == "a"
        return context.suspend(30) if stuck else ConsumeResult.SUCCESS

    _, seen = start_member(act, concurrency=1)
    expected = {"a": [0]} | {key: [0, 1, 2] for key in "bcd"}
    eventually(lambda: seen.by_key() == expected, within=20)


def test_as_many_handlers_run_side_by_side_as_there_are_threads(producer, topic, start_member):
    send_numbers(producer, topic, KEYS, 2)
    lock, running, together, release = threading.Lock(), set(), [], threading.Event()

    def act(messages, context):
        with lock:
            running.add(context.message_queue)
            together.append(len(running))
        release.wait(20)
        with lock:
            running.remove(context.message_queue)
        return ConsumeResult.SUCCESS

    member, seen = start_member(act, concurrency=3)
    eventually(lambda: len(together) == 3, within=20)
    # The fourth queue's messages are here; only a thread is missing.
    eventually(lambda: all(e.cached == 2 for e in member.explain()))
    assert len(together) == 3
    release.set()
    eventually(lambda: len(seen.deliveries) == 8)
    assert max(together) == 3
