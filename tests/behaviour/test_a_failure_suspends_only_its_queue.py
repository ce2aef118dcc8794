"""A failing message comes again, before anything else of its queue; other queues go on."""

import sys

import pytest

from orderly import ConsumeResult
from tests.support.consuming import send_numbers
from tests.support.waiting import await_visible, eventually


def fail_first(times, answer):
    """Answer `answer()` on the first `times` attempts of number 1, then succeed."""

    def act(messages, context):
        if int(messages[0].body) == 1 and context.attempt <= times:
            return answer(context)
        return ConsumeResult.SUCCESS

    return act


def boom(context):
    raise ValueError("no")


ANSWERS = {
    "suspend": lambda context: ConsumeResult.SUSPEND,
    "suspend for": lambda context: context.suspend(0.05),
    "rollback under auto-commit": lambda context: ConsumeResult.ROLLBACK,
    "raise": boom,
    "exit": lambda context: sys.exit(1),
    "none": lambda context: None,
    "foreign value": lambda context: "SUCCESS",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_the_message_comes_again_in_its_place(answer, producer, topic, start_member):
    send_numbers(producer, topic, ["a"], 4)
    _, seen = start_member(fail_first(3, answer), suspend=0.05)
    eventually(lambda: 3 in seen.numbers("a"), within=20)
    assert seen.numbers("a") == [0, 1, 1, 1, 1, 2, 3]
    attempts = [d.attempt for d in seen.deliveries if d.number == 1]
    assert attempts == [1, 2, 3, 4]


def test_the_other_queues_go_on(producer, topic, start_member):
    queue_of = {}
    for key in "abcdefgh":
        queue_of[key] = send_numbers(producer, topic, [key], 1)[0].queue.queue_id
    stuck = "a"
    send_numbers(producer, topic, list(queue_of), 5, first=1)

    def act(messages, context):
        if messages[0].sharding_key == stuck and int(messages[0].body) == 0:
            return ConsumeResult.SUSPEND
        return ConsumeResult.SUCCESS

    _, seen = start_member(act, suspend=0.2)
    free = [key for key, queue_id in queue_of.items() if queue_id != queue_of[stuck]]
    assert free, "all keys fell into one queue"
    eventually(lambda: all(seen.numbers(key) == list(range(6)) for key in free), within=20)
    eventually(lambda: set(seen.numbers(stuck)) == {0}, within=20)
    behind = [k for k, q in queue_of.items() if q == queue_of[stuck] and k > stuck]
    assert not any(seen.numbers(key) for key in behind)


def test_suspension_lasts_as_long_as_asked(producer, topic, start_member):
    send_numbers(producer, topic, ["a"], 2)
    _, seen = start_member(fail_first(1, lambda context: context.suspend(0.7)))
    eventually(lambda: len(seen.numbers("a")) == 3, within=20)
    _, failed, again = sorted(seen.deliveries, key=lambda d: d.started)
    assert 0.65 <= again.started - failed.ended < 15


def test_a_handler_cannot_lose_a_message_by_changing_its_batch(
    producer, topic, client, start_member
):
    send_numbers(producer, topic, ["a"], 4)
    await_visible(client)  # or the first batch is smaller than the second
    calls = []

    def greedy(messages, context):
        calls.append([int(m.body) for m in messages])
        messages = messages.pop(0) if len(calls) == 1 else messages
        return ConsumeResult.SUCCESS

    start_member(greedy, batch_size=2, suspend=0.05)
    eventually(lambda: calls and calls[-1][-1] == 3, within=20)
    assert calls[0] == calls[1]


class Unshowable:
    def __repr__(self):
        raise ValueError("no")


def test_an_answer_that_cannot_even_be_shown_is_a_failure(producer, topic, start_member):
    send_numbers(producer, topic, ["a"], 3)
    _, seen = start_member(fail_first(2, lambda context: Unshowable()), suspend=0.05)
    eventually(lambda: 2 in seen.numbers("a"), within=20)
    assert seen.numbers("a") == [0, 1, 1, 1, 2]


def test_a_context_set_to_nonsense_is_a_failure(producer, topic, start_member):
    send_numbers(producer, topic, ["a"], 3)

    def nonsense(context):
        context.auto_commit = None
        return ConsumeResult.SUCCESS

    _, seen = start_member(fail_first(2, nonsense), suspend=0.05)
    eventually(lambda: 2 in seen.numbers("a"), within=20)
    assert seen.numbers("a") == [0, 1, 1, 1, 2]
