"""With order="key" a key that fails waits, longer each time; the others of its queue go on."""

import itertools
import threading

import pytest
from structlog.testing import capture_logs

from orderly import Ack, Fail, Suspend
from tests.support.consuming import judged_by_key, send_numbers
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(10)]
STUCK = "k3"
COUNT = 10


class Failing:
    """Fails for one key until `repaired`; `answer()` says how."""

    def __init__(self, answer=lambda: Fail("down"), keys=(STUCK,)):
        self.answer, self.keys, self.repaired = answer, keys, threading.Event()

    def __call__(self, messages, context):
        failing = context.key in self.keys and not self.repaired.is_set()
        return self.answer() if failing else Ack()


def waits_of(seen, key):
    """Seconds between the end of each attempt of the key's first message and the next one."""
    attempts = sorted((d for d in seen.deliveries if d.key == key), key=lambda d: d.started)
    first = [d for d in attempts if d.number == attempts[0].number]
    return [after.started - before.ended for before, after in itertools.pairwise(first)]


def chosen_waits(events, key):
    """Seconds the consumer said it would wait, each time, rising; told by several threads."""
    told = [e for e in events if e["event"] == "key.suspended" and e["key"] == key]
    return sorted(event["seconds"] for event in told)


def test_the_others_are_all_done_and_it_follows_in_order(producer, topic, start_group):
    failing = Failing()
    group = start_group(failing, order="key", suspend=0.02, max_suspend=0.1)
    results = send_numbers(producer, topic, KEYS, COUNT)
    others = {key: list(range(COUNT)) for key in KEYS if key != STUCK}
    eventually(lambda: others.items() <= group.seen.by_key().items(), within=20)
    attempts = len(group.seen.numbers(STUCK))
    eventually(lambda: len(group.seen.numbers(STUCK)) > attempts + 3)
    assert set(group.seen.numbers(STUCK)) == {0}, "nothing of it before its first message is done"
    results += send_numbers(producer, topic, KEYS, COUNT, first=COUNT)
    others = {key: list(range(2 * COUNT)) for key in others}
    eventually(lambda: others.items() <= group.seen.by_key().items(), within=20)
    failing.repaired.set()
    eventually(lambda: group.seen.numbers(STUCK)[-1] == 2 * COUNT - 1, within=20)
    verdict = judged_by_key(KEYS, results, group.seen)
    assert verdict.ok, verdict
    assert verdict.duplicates == group.seen.numbers(STUCK).count(0) - 1


def test_however_long_it_waits(producer, topic, start_group):
    group = start_group(Failing(lambda: Suspend(60.0)), order="key")
    send_numbers(producer, topic, KEYS, COUNT)
    expected = {key: [0] if key == STUCK else list(range(COUNT)) for key in KEYS}
    eventually(lambda: group.seen.by_key() == expected, within=20)


@pytest.fixture
def one_queue(orderly_topic, start_member):
    """Start a member of a topic with one queue."""

    def start(act, **settings):
        topic = orderly_topic(queues=1)
        consumer, seen = start_member(act, order="key", **settings)
        consumer.subscribe(topic)
        return topic, seen

    return start


def test_each_key_waits_longer_with_each_failure_of_its_own(producer, one_queue):
    failing = Failing(keys=("a", "b"))
    with capture_logs() as events:
        topic, seen = one_queue(failing, suspend=0.1, max_suspend=0.4)
        send_numbers(producer, topic, ["a"], 1)
        eventually(lambda: len(waits_of(seen, "a")) >= 5, within=20)
        send_numbers(producer, topic, ["b"], 1)  # when the other one waits longest
        eventually(lambda: len(waits_of(seen, "b")) >= 3, within=20)
        waits = {key: waits_of(seen, key) for key in "ab"}  # of each it was told before
    for key, waited in waits.items():  # half of the full wait at least; the rest is by chance
        chosen = chosen_waits(events, key)
        for wait, full in zip(chosen, (0.1, 0.2, 0.4, 0.4, 0.4), strict=False):
            assert full / 2 <= wait <= full, (key, chosen)
        assert_waited_at_least(chosen, waited)


def assert_waited_at_least(chosen, waited):
    """How much longer is up to the machine; the event rounds to milliseconds."""
    pairs = zip(chosen, sorted(waited), strict=False)
    assert all(wait >= least - 0.001 for least, wait in pairs), (chosen, waited)


class Busy(Exception):
    def __init__(self, seconds):
        super().__init__(f"try again in {seconds} s")
        self.retry_after = seconds


def busy():
    raise Busy(0.5)


@pytest.mark.parametrize(
    "answer", [busy, lambda: Suspend(0.5)], ids=["its exception asks", "it says Suspend(0.5)"]
)
def test_it_waits_as_long_as_it_is_asked_to(answer, producer, one_queue):
    with capture_logs() as events:
        topic, seen = one_queue(Failing(answer), suspend=0.02)
        send_numbers(producer, topic, [STUCK, "other"], 1)
        eventually(lambda: len(waits_of(seen, STUCK)) >= 2, within=20)
    chosen = chosen_waits(events, STUCK)
    assert set(chosen) == {0.5}
    assert_waited_at_least(chosen, waits_of(seen, STUCK))
    assert seen.numbers("other") == [0]
