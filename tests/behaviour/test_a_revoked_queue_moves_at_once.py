"""A queue given to another member goes there at once if idle, and otherwise says what holds it."""

import time

import pytest

from orderly import Ack
from tests.support.consuming import Blocking, Group, send_numbers
from tests.support.waiting import eventually

NEVER = 3600
AT_ONCE = 25.0  # seconds, on a busy machine; whoever is not told waits for a round or a lease
ORDER = pytest.mark.parametrize("order", ["queue", "key"])


@ORDER
def test_an_idle_one(order, producer, topic, start_group, start_member):
    group = start_group(order=order, rebalance_interval=NEVER)
    keys = [f"k{i}" for i in range(12)]
    send_numbers(producer, topic, keys, 2)
    eventually(lambda: len(group.seen.deliveries) == 24, within=20)
    members, took = list(group.consumers), []
    for _ in range(3):
        newcomer, _ = start_member(recorder=group.seen, order=order, rebalance_interval=NEVER)
        members.append(newcomer)
        joined = time.monotonic()
        eventually(lambda: Group(members, None).settled(4), within=20)
        took.append(time.monotonic() - joined)
        members.pop(0).close()
        eventually(lambda: Group(members, None).settled(4), within=20)
    assert max(took) < AT_ONCE, took
    send_numbers(producer, topic, keys, 1, first=2)
    eventually(lambda: len(group.seen.deliveries) == 36, within=20)
    assert group.seen.by_key() == {key: [0, 1, 2] for key in keys}


@pytest.fixture
def handler(closing):
    """Asks for `closing` so that it is released before the members are closed."""
    with Blocking(at=1) as handler:
        yield handler


class Chosen:
    """Allocates everything to one member: the first that joined, until another is chosen."""

    client_id = None

    def __call__(self, client_id, queues, members):
        self.client_id = self.client_id or client_id
        return queues if client_id == self.client_id else ()


@pytest.fixture
def held_up(events, handler, producer, orderly_topic, start_member):
    """Give the only queue to a newcomer while the handler runs for number 1 of key "a".

    Returns the queue, the recorder of both, and the newcomer.
    """

    def held_up(act=handler, **settings):
        def hold_up_a(messages, context):
            return act(messages, context) if context.key == "a" else Ack()

        topic, chosen = orderly_topic(queues=1), Chosen()
        settings |= {"order": "key", "commit_interval": NEVER, "rebalance_interval": 0.2}
        owner, seen = start_member(hold_up_a, allocate=chosen, **settings)
        owner.subscribe(topic)
        queue = send_numbers(producer, topic, ["a", "b"], 3)[0].queue
        eventually(lambda: handler.running, within=20)
        eventually(lambda: seen.numbers("b") == [0, 1, 2], within=20)
        newcomer, _ = start_member(recorder=seen, allocate=chosen, **settings)
        newcomer.subscribe(topic)
        chosen.client_id = newcomer.client_id
        return queue, seen, newcomer

    return held_up


def told(events, text):
    return [event for event in events if event["event"].startswith(text)]


def test_a_busy_one_stays_and_the_log_names_its_handler_at_the_deadline(
    held_up, events, handler, group, client
):
    queue, seen, newcomer = held_up(handover_timeout=0.5)
    (event,) = eventually(lambda: told(events, "queue.release_overdue"), within=20)
    assert (event["topic"], event["queue_id"]) == (queue.topic, queue.queue_id)
    assert (event["offset"], event["key"]) == (2, "a")
    assert event["handler_running_seconds"] >= 0.5
    eventually(lambda: client.brokers.query_offset(group, queue) == 2)
    assert not client.brokers.lock_queues(group, queue.broker_name, [queue])
    handler.release()
    eventually(lambda: queue in newcomer.assignment)
    eventually(lambda: seen.numbers("a") == [0, 1, 2], within=20)
    assert seen.numbers("b") == [0, 1, 2]


def test_force_unlock_after_lets_it_go_beside_its_handler_and_warns(held_up, events, handler):
    lost = []

    def act(messages, context):
        answer = handler(messages, context)
        lost.append(context.lost.is_set())
        return answer

    queue, seen, newcomer = held_up(act, force_unlock_after=0.5)
    (event,) = eventually(lambda: told(events, "queue.unlocked_while_running"), within=20)
    assert (event["key"], event["log_level"]) == ("a", "error")
    assert event["handler_running_seconds"] >= 0.5
    eventually(lambda: queue in newcomer.assignment, within=20)
    handler.release()
    eventually(lambda: sorted(seen.numbers("a")) == [0, 1, 1, 2], within=20)  # 1 is both owners'
    assert seen.by_key()["b"] == [0, 1, 2]
    assert sorted(lost) == [False] * (len(lost) - 1) + [True]
