"""With order="key" what a handler keeps, commits or rolls back is of its own key alone."""

import pytest

from orderly import ConsumeResult
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

SUCCESS, SUSPEND = ConsumeResult.SUCCESS, ConsumeResult.SUSPEND
COMMIT, ROLLBACK = ConsumeResult.COMMIT, ConsumeResult.ROLLBACK


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=1)


class Answers:
    """Answers under manual commit, for each key its own ones call by call."""

    def __init__(self, **answers):
        self.left = {key: list(of_key) for key, of_key in answers.items()}

    def __call__(self, messages, context):
        context.auto_commit = False
        return self.left[context.key].pop(0)


def test_each_key_commits_and_rolls_back_for_itself(producer, topic, group, client, start_member):
    answers = Answers(a=[SUCCESS, SUCCESS, ROLLBACK, *[SUCCESS] * 3], b=[SUCCESS] * 3)

    def roll_back_once_b_has_kept(messages, context):
        if answers.left[context.key][:1] == [ROLLBACK]:
            eventually(lambda: not answers.left["b"])
        return answers(messages, context)

    settings = {"order": "key", "suspend": 0.02, "commit_interval": 0.05}
    _, seen = start_member(roll_back_once_b_has_kept, **settings)
    queue = send_numbers(producer, topic, ["a", "b"], 3)[0].queue
    eventually(lambda: len(seen.deliveries) == 9, within=20)
    assert seen.by_key() == {"a": [0, 1, 2, 0, 1, 2], "b": [0, 1, 2]}
    assert client.brokers.query_offset(group, queue) == 0, "all are in hand"
    answers.left = {"a": [COMMIT], "b": [COMMIT]}
    send_numbers(producer, topic, ["a", "b"], 1, first=3)
    eventually(lambda: client.brokers.query_offset(group, queue) == 8, within=20)


def test_what_a_key_keeps_comes_again_to_the_next_member_and_no_more(producer, topic, start_member):
    answers = Answers(a=[COMMIT, SUCCESS, SUCCESS], b=[SUCCESS, SUCCESS, COMMIT])
    first, seen = start_member(answers, order="key")
    send_numbers(producer, topic, ["a", "b"], 3)
    eventually(lambda: len(seen.deliveries) == 6, within=20)
    first.close()
    _, heir = start_member(order="key")
    eventually(lambda: heir.numbers("a") == [1, 2], within=20)
    assert heir.numbers("b") == []


def keeping(last, *, is_async):
    """A handler that keeps what is of key a, until its last message, and acknowledges all else.

    Args:
        last: what it answers to the last message of key a, call by call.
        is_async: whether it is to be an `async def`.
    """
    left = list(last)

    def act(messages, context):
        if context.key != "a":
            return SUCCESS
        context.auto_commit = False
        return left.pop(0) if int(messages[0].body) == COUNT - 1 else SUCCESS

    async def act_async(messages, context):
        return act(messages, context)

    return act_async if is_async else act


COUNT = 8
QUICK = {"order": "key", "concurrency": 1, "suspend": 0.02, "commit_interval": 0.05}
"""One run: the keys take turns, so a's next messages are taken right after b was quick."""


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("failure", [None, SUSPEND, ROLLBACK], ids=str)
def test_what_a_key_keeps_is_not_committed_because_another_key_is_quick(
    is_async, failure, producer, topic, group, client, start_member
):
    """All that is quick is taken for several calls at once; that must not count what is kept."""
    queue = send_numbers(producer, topic, ["a", "b"], COUNT)[0].queue
    eventually(lambda: client.brokers.max_offset(queue) == 2 * COUNT)
    answers = [failure, ROLLBACK, COMMIT] if failure is not ROLLBACK else [ROLLBACK, COMMIT]
    act = keeping(answers, is_async=is_async)
    _, seen = start_member(act, **QUICK)
    eventually(lambda: client.brokers.query_offset(group, queue) == 2 * COUNT, within=20)
    again = [] if failure is ROLLBACK else [COUNT - 1]
    assert seen.numbers("a") == [*range(COUNT), *again, *range(COUNT)]
    assert seen.numbers("b") == [*range(COUNT)]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_a_key_keeps_beside_quick_keys_comes_again_after_a_restart(
    is_async, producer, topic, group, client, start_member
):
    queue = send_numbers(producer, topic, ["a", "b"], COUNT)[0].queue
    eventually(lambda: client.brokers.max_offset(queue) == 2 * COUNT)
    first, seen = start_member(keeping([SUCCESS], is_async=is_async), **QUICK)
    eventually(lambda: len(seen.deliveries) == 2 * COUNT, within=20)
    first.close()
    assert client.brokers.query_offset(group, queue) == 0, "where a's first is"
    _, heir = start_member(keeping([COMMIT], is_async=is_async), **QUICK)
    eventually(lambda: client.brokers.query_offset(group, queue) == 2 * COUNT, within=20)
    assert heir.by_key() == {"a": [*range(COUNT)]}


def test_a_batch_holds_messages_of_one_key(producer, topic, start_member):
    batches = []

    def act(messages, context):
        assert {message.sharding_key for message in messages} == {context.key}
        batches.append((context.key, [int(message.body) for message in messages]))
        return SUCCESS

    send_numbers(producer, topic, ["a", "b", None], 12)
    start_member(act, order="key", batch_size=5)
    eventually(lambda: sum(len(numbers) for _, numbers in batches) == 36, within=20)
    assert max(len(numbers) for _, numbers in batches) == 5, "there were batches"
    for key in ("a", "b", None):
        assert [n for of, numbers in batches if of == key for n in numbers] == list(range(12))
