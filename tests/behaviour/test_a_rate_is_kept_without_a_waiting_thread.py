"""`max_rate` and `max_rate_per_key`: messages begin no faster, in order, and no thread sleeps."""

import itertools
import threading
import time

import pytest

from orderly import Ack, Message, Park
from orderly.clock import now
from orderly.consumer import handler_caller
from orderly.monitoring.parked import ParkedMessages
from orderly.ordering.explain import Why
from orderly.ordering.explain_keys import KeyWhy
from orderly.ordering.rate import AT_ONCE
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually
from tests.support.workers import clock_in

KEYS = ["a", "b", "c", "d"]
COUNT = 6
ROUNDING = 1e-6  # seconds


class Starts:
    """When which message began; as a plain handler or a coroutine.

    `begun` has when the calls with a key began, by the consumer's own clock. A machine that stands
    still lets the handler see that late, and the next one in its time.
    """

    def __init__(self):
        self.calls, self.begun, self._lock = [], {}, threading.Lock()
        self._looked = threading.local()

    def now(self):
        """The consumer's clock; the last look on a thread before its handler is the beginning."""
        self._looked.at = now()
        return self._looked.at

    def plain(self, messages, context):
        at = time.monotonic()
        with self._lock:
            self.calls += [(at, m.sharding_key, int(m.body)) for m in messages]
            self.begun.setdefault(messages[0].sharding_key, []).append(self._looked.at)
        return Ack()

    async def coroutine(self, messages, context):
        return self.plain(messages, context)

    def times(self, key=None):
        return sorted(at for at, of, _ in self.calls if key in (None, of))

    def numbers(self, key):
        return [number for _, of, number in self.calls if of == key]


@pytest.fixture
def starts(monkeypatch):
    found = Starts()
    monkeypatch.setattr(handler_caller, "now", found.now)
    return found


@pytest.fixture(params=["plain", "coroutine"])
def act(request, starts):
    return getattr(starts, request.param)


@pytest.fixture
def operator(client, group, topic, parks):
    return ParkedMessages(client, group, topic)


def all_came(starts):
    return lambda: all(starts.numbers(key) == list(range(COUNT)) for key in KEYS)


@pytest.mark.parametrize("order", ["queue", "key"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_of_a_consumer(act, starts, order, batch_size, producer, topic, start_member):
    rate = 20.0
    send_numbers(producer, topic, KEYS, COUNT)
    member, _ = start_member(act, order=order, batch_size=batch_size, max_rate=rate)
    eventually(lambda: Why.RATE_LIMITED in {e.why for e in member.explain()}, within=30)
    eventually(all_came(starts), within=30)
    times, together = starts.times(), rate * AT_ONCE
    late = together * len(KEYS)  # of each key what may, if the machine stands still, begin later
    for first, at in enumerate(times):
        for later, then in enumerate(times[first:], 1):
            assert later <= together + (then - at) * rate + late
    assert all(e.attempt in (None, 1) for e in member.explain())


def test_of_a_key(act, starts, producer, topic, start_member):
    member, _ = start_member(act, order="key", max_rate_per_key=5.0)
    send_numbers(producer, topic, KEYS, COUNT)
    eventually(lambda: KeyWhy.RATE_LIMITED in {e.why for e in member.explain_keys()}, within=30)
    eventually(lambda: member.health().ready)
    eventually(all_came(starts), within=30)
    for key in KEYS:
        assert len(starts.begun[key]) == COUNT
        assert min(b - a for a, b in itertools.pairwise(starts.begun[key])) >= 0.2 - ROUNDING
    spans = [starts.times(key) for key in KEYS]
    assert max(s[0] for s in spans) < min(s[-1] for s in spans), "side by side"


def test_of_a_key_that_is_released(starts, operator, producer, topic, start_member):
    """Before its first message, between the parked ones, and before what comes next."""
    bad = threading.Event()
    bad.set()

    def act(messages, context):
        starts.plain(messages, context)
        return Park("no such account") if bad.is_set() else Ack()

    start_member(act, order="key", max_rate_per_key=2.0)
    send_numbers(producer, topic, ["a"], 3)
    eventually(lambda: [key.messages for key in operator.list().keys] == [3], within=30)
    bad.clear()
    (outcome,) = operator.release("a")
    send_numbers(producer, topic, ["a"], 1, first=3)
    assert outcome.settled == 3
    eventually(lambda: starts.numbers("a") == [0, 0, 1, 2, 3], within=30)
    assert min(b - a for a, b in itertools.pairwise(starts.begun["a"])) >= 0.5 - ROUNDING


def test_a_key_that_comes_in_single_messages_keeps_its_rate(starts, producer, topic, start_member):
    start_member(starts.plain, order="key", max_rate_per_key=2.0)
    sent = []
    for number in range(3):
        sent.append(time.monotonic())
        send_numbers(producer, topic, ["a"], 1, first=number)
        eventually(lambda number=number: starts.numbers("a") == list(range(number + 1)), within=30)
    next_ones = starts.times("a")[1:]
    assert min(b - a for a, b in zip(sent, next_ones, strict=False)) >= 0.5


def test_few_threads_serve_many_queues_that_wait(starts, producer, topic, start_member):
    send_numbers(producer, topic, KEYS, COUNT)
    member, _ = start_member(starts.plain, order="key", max_rate=10.0, concurrency=2)
    eventually(lambda: Why.RATE_LIMITED in {e.why for e in member.explain()}, within=30)
    assert {e.why for e in member.explain()} & {Why.HANDLING, Why.HUNG} == set()
    eventually(all_came(starts), within=30)


def test_worker_processes(producer, topic, start_member, tmp_path):
    diary = tmp_path / "diary"

    def times(count):
        lines = diary.read_text().splitlines() if diary.exists() else []
        return [float(line) for line in lines] if len(lines) == count else None

    producer.send(Message(topic, str(diary), "first"))  # until a process is there
    start_member(recorder=clock_in, order="key", executor="process", concurrency=1, max_rate=5.0)
    eventually(lambda: times(1), within=60)
    sent = time.monotonic()
    for number in range(5):
        producer.send(Message(topic, str(diary), f"k{number}"))
    last = max(eventually(lambda: times(6), within=60))
    assert last - sent >= 4 / 5.0
