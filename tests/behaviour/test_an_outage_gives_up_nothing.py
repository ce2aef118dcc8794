"""While everything fails a listener waits, whatever its policy; afterwards all is done in order."""

import threading

import pytest
import structlog
import tenacity

from orderly import Ack, Listener, PoisonRules, Retry
from tests.support.consuming import judged_by_key, send_numbers
from tests.support.topics import dead_letters
from tests.support.waiting import await_visible, eventually

KEYS = [f"k{i}" for i in range(20)]
COUNT = 3
RULES = PoisonRules(
    attempts=2,
    spacing=0.05,
    span=0.5,  # on a busy machine a key may be the only one that fails for a moment
    patience=1.0,
    first_wait=0.05,
    longest_wait=0.4,
    window=60.0,
)


class Database:
    """Keeps silent until it is down, and is down until it is up; everything needs it."""

    def __init__(self, error):
        self.down, self.up, self.error = threading.Event(), threading.Event(), error

    def __call__(self, message, attempt):
        assert self.down.wait(20)
        if not self.up.is_set():
            raise self.error
        return Ack()


@pytest.mark.parametrize("error", [OSError("no route"), ValueError("bad deploy")], ids=str)
def test_it_waits_probes_and_goes_on(error, producer, topic, group, client, start_group):
    database = Database(error)
    once = Retry(stop=tenacity.stop_after_attempt(1))
    listener = Listener(database, retry=once, poison=RULES, on_poison="dead_letter")
    with structlog.testing.capture_logs() as events:
        seen = start_group(listener, order="key").seen
        results = send_numbers(producer, topic, KEYS, COUNT)
        await_visible(client)  # whoever fails alone for long is poison
        database.down.set()
        eventually(lambda: [e for e in events if e["event"] == "circuit.opened"], within=20)
        tried = [e for e in events if e["event"] == "message.retry"]
        held = len(seen.deliveries)
        eventually(lambda: len(seen.deliveries) > held + 100, within=20)
        assert [e for e in events if e["event"] == "message.poison"] == []
        retried = [e for e in events if e["event"] == "message.retry"]
        assert len(retried) - len(tried) < 50, "the circuit holds the others back"
        database.up.set()
        eventually(lambda: seen.by_key().keys() >= set(KEYS) and done(seen), within=30)
        eventually(lambda: [e for e in events if e["event"] == "circuit.closed"], within=20)
    verdict = judged_by_key(KEYS, results, seen)
    assert verdict.ok, verdict
    assert dead_letters(client, group) == []


def done(seen):
    finished = {(d.key, d.number) for d in list(seen.deliveries) if d.success}
    return len(finished) == len(KEYS) * COUNT
