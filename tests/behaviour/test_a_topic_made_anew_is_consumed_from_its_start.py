"""A topic that is deleted and made anew under its consumers: every message of the new one comes.

Their positions count messages that are no more. Nothing in the protocol says so: the new log may be
longer than the position, and the next pull just succeeds.
"""

import pytest

from orderly import ConsumeResult, Park
from orderly.consumer import offsets
from tests.support.brokers import delete_topic
from tests.support.consuming import send_numbers
from tests.support.waiting import await_visible, eventually

KEYS = ["a", "b", "c"]
OLD = 10  # messages of each key before
ANEW = 60  # seconds: a pull waits at the broker for 15 s, and nobody tells it


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    """An idle queue's offset is compared once a minute."""
    monkeypatch.setattr(offsets, "LOOK_AGAIN", 2.0)


def committed(client, group, topic):
    queues = client.routes.get(topic).read_queues()
    ask = client.brokers
    return all((ask.query_offset(group, q) or 0) == ask.max_offset(q) for q in queues)


def make_anew(client, topic):
    delete_topic(client, topic)
    client.admin.create_topic(topic, 4)


@pytest.fixture(params=["queue", "key"])
def order(request):
    return request.param


@pytest.mark.parametrize("count", [4, OLD, 3 * OLD], ids=["shorter", "as long", "longer"])
def test_each_message_of_the_new_topic_comes(
    count, order, producer, topic, client, group, start_group, caplog
):
    members = start_group(order=order, commit_interval=0.5, consume_from="last")
    send_numbers(producer, topic, KEYS, OLD)
    seen = members.seen
    eventually(lambda: all(OLD - 1 in seen.numbers(key) for key in KEYS), within=20)
    await_visible(client)
    eventually(lambda: committed(client, group, topic), within=20)
    make_anew(client, topic)
    send_numbers(producer, topic, KEYS, count, first=100)
    new = list(range(100, 100 + count))
    eventually(lambda: all(set(new) <= set(seen.numbers(key)) for key in KEYS), within=ANEW)
    for key in KEYS:
        first = list(dict.fromkeys(number for number in seen.numbers(key) if number >= 100))
        assert sorted(first) == new
    eventually(lambda: committed(client, group, topic), within=20)
    told = [r.message for r in caplog.records if "topic.recreated" in r.message]
    assert told
    assert all("former=" in message and "start=0" in message for message in told)


@pytest.mark.parametrize("count", [4, 3 * OLD], ids=["shorter", "longer"])
def test_each_message_comes_also_if_all_of_the_old_topic_was_filtered_out(
    count, order, producer, topic, client, group, start_group, caplog
):
    """Nothing of it was ever pulled, so nothing that was pulled can show that it is gone."""
    members = start_group(tags="paid", order=order, commit_interval=0.5)
    send_numbers(producer, topic, KEYS, OLD, tags="open")
    await_visible(client)
    eventually(lambda: committed(client, group, topic), within=20)
    make_anew(client, topic)
    send_numbers(producer, topic, KEYS, count, first=100, tags="paid")
    new, seen = list(range(100, 100 + count)), members.seen
    eventually(lambda: all(set(new) <= set(seen.numbers(key)) for key in KEYS), within=ANEW)
    eventually(lambda: committed(client, group, topic), within=20)
    assert any("topic.recreated" in r.message for r in caplog.records)


def test_what_is_in_hand_meanwhile_moves_no_offset_of_the_new_topic(
    order, producer, topic, client, group, start_group
):
    """By key much is finished above a message that waits: those offsets are other messages now."""

    def stuck(messages, context):
        if messages[0].sharding_key == KEYS[0] and int(messages[0].body) == 0:
            return context.suspend(0.1)
        return ConsumeResult.SUCCESS

    members = start_group(stuck, order=order, commit_interval=0.2, consume_from="first")
    send_numbers(producer, topic, KEYS, OLD)
    seen = members.seen
    others = KEYS[1:] if order == "key" else []
    eventually(lambda: all(OLD - 1 in seen.numbers(key) for key in others), within=20)
    eventually(lambda: 0 in seen.numbers(KEYS[0]), within=20)
    make_anew(client, topic)
    send_numbers(producer, topic, KEYS, 2 * OLD, first=100)
    new = list(range(100, 100 + 2 * OLD))
    eventually(lambda: all(set(new) <= set(seen.numbers(key)) for key in KEYS), within=ANEW)
    eventually(lambda: committed(client, group, topic), within=20)


class Account:
    """Parks one key until it is repaired; notes what it applied of it, and of which generation."""

    def __init__(self):
        self.applied, self.repaired = [], False

    def __call__(self, messages, context):
        if context.key != "bad":
            return ConsumeResult.SUCCESS
        if not self.repaired:
            return Park("no such account")
        self.applied += [(context.generation, int(message.body)) for message in messages]
        return ConsumeResult.SUCCESS


def test_what_was_parked_of_the_old_topic_comes_before_what_the_key_got_in_the_new_one(
    producer, topic, client, group, start_group, parks, caplog
):
    """Offsets of both count from 0: they are kept apart, and a key's new messages wait."""
    account = Account()
    members = start_group(account, order="key", commit_interval=0.2, max_suspend=1.0)
    send_numbers(producer, topic, KEYS, OLD)
    queue = send_numbers(producer, topic, ["bad"], 5)[0].queue
    eventually(lambda: len(parks.parked(queue, "bad")) == 5, within=20)
    eventually(lambda: committed(client, group, topic), within=20)
    make_anew(client, topic)
    send_numbers(producer, topic, ["bad", *KEYS], 8, first=100)
    new, seen = list(range(100, 108)), members.seen
    eventually(lambda: all(set(new) <= set(seen.numbers(key)) for key in KEYS), within=ANEW)
    waits = "older than the topic"
    eventually(lambda: any(waits in r.message for r in caplog.records), within=20)
    assert account.applied == []
    account.repaired = True
    assert parks.carried_out(queue, "release", "bad").reason is None
    eventually(lambda: len(account.applied) == 5 + 8, within=20)
    assert account.applied == [*((0, n) for n in range(5)), *((1, n) for n in new)]
    eventually(lambda: committed(client, group, topic), within=20)
