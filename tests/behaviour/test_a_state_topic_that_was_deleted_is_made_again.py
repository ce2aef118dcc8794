"""The state topic is deleted while members own queues: commits go on, tokens go on rising."""

from itertools import pairwise

import pytest

from orderly import ConsumeResult
from orderly.consumer import offsets
from orderly.ordering.topic_names import state_topic
from tests.support.brokers import delete_topic
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

KEYS = ["a", "b", "c"]


class Tokens:
    """A handler that notes the token of each queue, in order."""

    def __init__(self):
        self.seen = {}

    def __call__(self, messages, context):
        self.seen.setdefault(context.message_queue, []).append(context.token)
        return ConsumeResult.SUCCESS

    @property
    def falling(self):
        """Of each queue, the tokens on both sides of each fall."""
        return {
            queue: [pair for pair in pairwise(tokens) if pair[0] > pair[1]]
            for queue, tokens in self.seen.items()
            if tokens != sorted(tokens)
        }


def committed(client, group, topic):
    queues, ask = client.routes.get(topic).read_queues(), client.brokers
    return all((ask.query_offset(group, q) or 0) == ask.max_offset(q) for q in queues)


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    monkeypatch.setattr(offsets, "LOOK_AGAIN", 2.0)


@pytest.mark.parametrize("idle", [False, True], ids=["under traffic", "idle"])
def test_commits_go_on_and_tokens_rise(idle, producer, topic, client, group, start_group):
    tokens = Tokens()
    members = start_group(tokens, order="key", commit_interval=0.2, route_interval=1.0)
    seen = members.seen
    send_numbers(producer, topic, KEYS, 5)
    eventually(lambda: all(set(range(5)) <= set(seen.numbers(key)) for key in KEYS), within=20)
    eventually(lambda: committed(client, group, topic), within=20)
    delete_topic(client, state_topic(group, topic))
    if not idle:
        send_numbers(producer, topic, KEYS, 5, first=5)
        eventually(lambda: all(9 in seen.numbers(key) for key in KEYS), within=20)
        eventually(lambda: committed(client, group, topic), within=40)
    made = client.admin.topics
    eventually(lambda: state_topic(group, topic) in made(), within=40)
    send_numbers(producer, topic, KEYS, 5, first=10)
    eventually(lambda: all(14 in seen.numbers(key) for key in KEYS), within=40)
    eventually(lambda: committed(client, group, topic), within=40)
    assert not tokens.falling
    sent = [*range(5), *([] if idle else range(5, 10)), *range(10, 15)]
    assert all(list(dict.fromkeys(seen.numbers(key))) == sent for key in KEYS)


def test_a_clean_close_saves_the_offset_all_the_same(producer, topic, client, group, start_member):
    consumer, seen = start_member(order="key", commit_interval=3600)
    send_numbers(producer, topic, KEYS, 5)
    eventually(lambda: all(4 in seen.numbers(key) for key in KEYS), within=20)
    delete_topic(client, state_topic(group, topic))
    consumer.close()
    assert committed(client, group, topic)
