"""The broker refuses an offset, or an operator sets it: exactly there the queue goes on."""

import threading

import pytest

from orderly import ConsumeResult
from orderly.ordering.explain import Why
from tests.support.brokers import set_group
from tests.support.consuming import send_numbers
from tests.support.waiting import await_visible, eventually

KEY = "k"


def send(producer, topic, first, count):
    return send_numbers(producer, topic, [KEY], count, first=first)[0].queue


def test_an_offset_beyond_the_end_is_repaired_and_reported(
    producer, topic, client, group, start_group, caplog
):
    queue = send(producer, topic, 0, 5)
    await_visible(client)
    set_group(client, group)
    client.brokers.update_offset(group, queue, 1000)
    seen = start_group().seen
    eventually(lambda: client.brokers.query_offset(group, queue) == 5, within=20)
    send(producer, topic, 5, 3)
    eventually(lambda: 7 in seen.numbers(KEY), within=20)
    assert seen.numbers(KEY) == [5, 6, 7]
    (report,) = [r.message for r in caplog.records if "offset.illegal" in r.message]
    assert "refused=1000 correct=5 skipped=0" in report
    assert topic in report


def test_a_reset_to_where_the_queue_is_is_no_warning(
    producer, topic, client, group, start_group, caplog
):
    """As `mqadmin` and `orderly offsets reset` do it while members run and have nothing to do."""
    members = start_group(commit_interval=0.05)
    queue = send(producer, topic, 0, 3)
    eventually(lambda: client.brokers.query_offset(group, queue) == 3, within=20)
    client.groups.reset_queues(group, {queue: 3})
    for first in (3, 4):  # the next pull learns of it
        send(producer, topic, first, 1)
        eventually(lambda first=first: first in members.seen.numbers(KEY), within=30)
    assert members.seen.numbers(KEY) == [0, 1, 2, 3, 4]
    assert [r.message for r in caplog.records if "offset.illegal" in r.message] == []


class HeldBack:
    """A handler that keeps a message in hand, on one of its deliveries, until it shall go on."""

    def __init__(self, number=2, delivery=1):
        self.reached, self.go_on = threading.Event(), threading.Event()
        self._number, self._left = number, delivery

    def __call__(self, messages, context):
        self._left -= int(messages[0].body) == self._number
        if not self._left and not self.reached.is_set():
            self.reached.set()
            self.go_on.wait(30)
        return ConsumeResult.SUCCESS


@pytest.fixture
def held_back():
    held_back = HeldBack()
    yield held_back
    held_back.go_on.set()


@pytest.mark.parametrize("target", [1, 7], ids=["back", "forward"])
def test_after_a_reset_only_what_follows_it_comes_whatever_was_cached_or_in_hand(
    target, producer, topic, client, group, start_group, held_back
):
    members = start_group(held_back, commit_interval=0.05)
    queue = send(producer, topic, 0, 10)
    assert held_back.reached.wait(20)
    await_visible(client)
    client.groups.reset_queues(group, {queue: target})
    send(producer, topic, 10, 1)  # the members learn of a reset with their next pull…

    def told():  # …or from a commit in between, which finds an offset that is not its own
        learned = {Why.LEAVING, Why.LOCK_LOST}
        return any(e.why in learned for c in members.consumers for e in c.explain())

    eventually(told, within=20)
    held_back.go_on.set()
    eventually(lambda: 10 in members.seen.numbers(KEY), within=20)
    assert members.seen.numbers(KEY) == [0, 1, 2, *range(target, 11)]
    eventually(lambda: client.brokers.query_offset(group, queue) == 11)


@pytest.mark.parametrize("order", ["queue", "key"])
def test_a_reset_is_obeyed_while_the_queue_is_given_up_whichever_pull_is_told_of_it(
    order, orderly_topic, producer, client, group, start_member
):
    """The broker tells one pull: here it may be one of before a seek, which still waits there."""
    topic, again = orderly_topic(queues=1), HeldBack(number=1, delivery=2)
    leaving, _ = start_member(again, order=order, commit_interval=0.05)
    leaving.subscribe(topic)
    queue = send(producer, topic, 0, 2)
    eventually(lambda: client.brokers.query_offset(group, queue) == 2, within=20)
    leaving.seek(queue, 1)
    assert again.reached.wait(20)
    closing = threading.Thread(target=leaving.close)
    closing.start()
    eventually(lambda: any(e.why is Why.LEAVING for e in leaving.explain()), within=20)
    await_visible(client)
    client.groups.reset_queues(group, {queue: 0})
    send(producer, topic, 2, 1)  # whoever waits at the broker is answered
    await_visible(client)
    again.go_on.set()
    closing.join(30)
    assert client.brokers.query_offset(group, queue) == 0
    heir, seen = start_member(order=order)
    heir.subscribe(topic)
    eventually(lambda: seen.numbers(KEY) == [0, 1, 2], within=20)


def test_a_whole_topic_is_reset_to_its_end(producer, topic, client, group, start_group):
    keys = [f"k{i}" for i in range(8)]

    def stuck_at_the_first(messages, context):
        return context.suspend(0.02) if int(messages[0].body) == 0 else ConsumeResult.SUCCESS

    seen = start_group(stuck_at_the_first).seen
    first = send_numbers(producer, topic, keys, 3)
    eventually(lambda: {d.queue_id for d in seen.deliveries} == {r.queue.queue_id for r in first})
    await_visible(client)
    client.groups.reset_offsets(group, topic)
    send_numbers(producer, topic, keys, 2, first=3)
    eventually(lambda: all(4 in seen.numbers(key) for key in keys), within=20)
    assert all({1, 2}.isdisjoint(seen.numbers(key)) for key in keys)
    assert all(seen.numbers(key)[-2:] == [3, 4] for key in keys)
