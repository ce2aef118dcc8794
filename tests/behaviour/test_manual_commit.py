"""Manual commit: what is kept in hand comes again unless it is committed."""

from orderly import ConsumeResult
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually


def manual(answers):
    """Answer by message number on its first attempt, COMMIT otherwise."""

    def act(messages, context):
        context.auto_commit = False
        number = int(messages[0].body)
        return answers.pop(number, ConsumeResult.COMMIT)

    return act


def test_rollback_delivers_everything_in_hand_again_in_order(producer, topic, start_member):
    send_numbers(producer, topic, ["a"], 5)
    answers = {
        0: ConsumeResult.SUCCESS,
        1: ConsumeResult.SUCCESS,
        2: ConsumeResult.ROLLBACK,
    }
    _, seen = start_member(manual(answers), suspend=0.05)
    eventually(lambda: 4 in seen.numbers("a"), within=20)
    assert seen.numbers("a") == [0, 1, 2, 0, 1, 2, 3, 4]


def test_what_was_never_committed_comes_again_to_the_next_member(producer, topic, start_member):
    send_numbers(producer, topic, ["a"], 4)
    answers = {1: ConsumeResult.SUCCESS, 2: ConsumeResult.SUCCESS, 3: ConsumeResult.SUCCESS}
    first, seen = start_member(manual(answers))
    eventually(lambda: 3 in seen.numbers("a"), within=20)
    first.close()
    _, again = start_member()
    eventually(lambda: 3 in again.numbers("a"), within=20)
    assert again.numbers("a") == [1, 2, 3]
