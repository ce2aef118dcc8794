"""However many messages a stuck key has, they take no room: only their offsets are kept."""

import threading

import pytest

from orderly import Ack, Suspend
from tests.support.consuming import judged_by_key, send_numbers, submit_numbers
from tests.support.waiting import eventually

HOT = "hot"
OTHERS = [f"k{i}" for i in range(12)]  # some share its queue
MANY = 3000
WINDOW = 200  # messages; far fewer than the hot key has


@pytest.fixture
def repaired(closing):
    """Asks for `closing` so that it is set before the members are closed."""
    repaired = threading.Event()
    yield repaired
    repaired.set()


@pytest.mark.parametrize("how", ["suspended", "in its handler"])
def test_the_others_go_on_and_it_follows_in_order(how, repaired, producer, topic, start_group):
    def act(messages, context):
        if context.key != HOT or repaired.is_set():
            return Ack()
        return Suspend(0.2) if how == "suspended" or not repaired.wait(60) else Ack()

    group = start_group(act, order="key", pull_threshold=WINDOW, concurrency=16)
    before = send_numbers(producer, topic, OTHERS, 5)
    hot = submit_numbers(producer, topic, HOT, MANY)
    after = send_numbers(producer, topic, OTHERS, 5, first=5)
    queue = hot[0].queue
    assert any(result.queue == queue for result in after), "nobody is behind it"
    eventually(lambda: all(group.seen.numbers(key)[-1:] == [9] for key in OTHERS), within=30)

    def state():
        return next(
            e for c in group.consumers for e in c.explain() if e.queue == queue and e.offset
        )

    suspended = int(how == "suspended")
    eventually(lambda: (state().keys, state().keys_suspended) == (1, suspended))
    assert state().span >= MANY
    eventually(lambda: state().cached <= WINDOW / 2)  # most bodies are not kept
    assert set(group.seen.numbers(HOT)) <= {0}
    repaired.set()
    eventually(lambda: group.seen.numbers(HOT)[-1:] == [MANY - 1], within=60)
    verdict = judged_by_key(OTHERS, before + after, Only(group.seen, OTHERS))
    assert verdict.ok, verdict
    assert verdict.duplicates == 0
    verdict = judged_by_key([HOT], hot, Only(group.seen, [HOT]))
    assert verdict.ok, verdict
    assert verdict.duplicates == group.seen.numbers(HOT).count(0) - 1


class Only:
    """What a recorder saw of some keys."""

    def __init__(self, seen, keys):
        self.deliveries = [d for d in seen.deliveries if d.key in keys]
