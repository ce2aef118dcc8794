"""However many messages a stuck key has, they take no room: only their offsets are kept."""

import threading

import pytest

from orderly import Ack, Suspend
from tests.support.consuming import judged_by_key, send_numbers, submit_numbers
from tests.support.waiting import eventually

HOT, OTHERS = "hot", ["a", "b", "c"]
MANY = 3000
WINDOW = 200  # messages; far fewer than the hot key has


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=1)


def test_the_others_go_on_and_it_follows_in_order(producer, topic, start_group):
    repaired = threading.Event()

    def act(messages, context):
        hot = context.key == HOT and not repaired.is_set()
        return Suspend(0.2) if hot else Ack()

    settings = {"order": "key", "pull_threshold": WINDOW, "concurrency": 8}
    before = send_numbers(producer, topic, OTHERS, 5)
    hot = submit_numbers(producer, topic, HOT, MANY)
    after = send_numbers(producer, topic, OTHERS, 5, first=5)
    group = start_group(act, queues=1, **settings)
    eventually(lambda: all(group.seen.numbers(key)[-1:] == [9] for key in OTHERS), within=30)
    (state,) = [e for c in group.consumers for e in c.explain() if e.span >= MANY]
    assert state.cached < WINDOW / 10, "bodies of a key that waits are not kept"
    assert (state.keys, state.keys_suspended) == (1, 1)
    assert set(group.seen.numbers(HOT)) == {0}
    repaired.set()
    eventually(lambda: group.seen.numbers(HOT)[-1] == MANY - 1, within=30)
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
