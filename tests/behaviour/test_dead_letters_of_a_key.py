"""With order="key" a dead letter lets its own key go on; no other had to wait for it."""

import pytest

from orderly import Ack, DeadLetter, Fail
from tests.support.consuming import send_numbers
from tests.support.topics import dead_numbers, retried
from tests.support.waiting import eventually

BAD = 1
KEYS = list("abcdefgh")  # on 4 queues


@pytest.mark.parametrize(
    ("answer", "limit", "tries"),
    [(DeadLetter("no such account"), None, 1), (Fail("no such account"), 2, 3)],
    ids=["the handler says so", "failed too often"],
)
def test_its_key_goes_on(answer, limit, tries, producer, topic, group, client, start_group):
    def act(messages, context):
        return answer if (context.key, int(messages[0].body)) == ("a", BAD) else Ack()

    settings = {"order": "key", "max_reconsume_times": limit, "suspend": 0.02, "patient": True}
    seen = start_group(act, **settings, commit_interval=0.1).seen
    results = send_numbers(producer, topic, KEYS, 4)
    eventually(lambda: len(seen.deliveries) >= len(results) - 1 + tries, within=20)
    others = {key: [0, 1, 2, 3] for key in KEYS if key != "a"}
    assert seen.by_key() == others | {"a": [0, *[BAD] * tries, 2, 3]}
    assert dead_numbers(client, group, 1) == [BAD]
    assert retried(client, group) == []
    ends = {result.queue: result.queue_offset + 1 for result in results}
    eventually(lambda: all(client.brokers.query_offset(group, q) == ends[q] for q in ends))


async def refuse_in_a_coroutine(messages, context):
    return DeadLetter("no") if int(messages[0].body) == BAD else Ack()


def test_a_coroutine_may_say_so_too(producer, topic, group, client, start_member):
    _, seen = start_member(refuse_in_a_coroutine, order="key", patient=True)
    send_numbers(producer, topic, ["a"], 3)
    eventually(lambda: seen.numbers("a") == [0, 1, 2], within=20)
    assert dead_numbers(client, group, 1) == [BAD]
