"""Manual commit: what is kept in hand comes again unless it is committed."""

import threading

import pytest

from orderly import ConsumeResult
from tests.support.consuming import Batches, send_numbers
from tests.support.waiting import eventually

SUCCESS, SUSPEND = ConsumeResult.SUCCESS, ConsumeResult.SUSPEND
COMMIT, ROLLBACK = ConsumeResult.COMMIT, ConsumeResult.ROLLBACK


@pytest.fixture
def handle(producer, topic, start_member, client, group):
    """Have numbers handled with these answers, call by call, until all are committed.

    Returns the handler and the lowest unfinished offset as it was at each call.
    """

    def run(count, *answers, batch_size=1):
        queue = send_numbers(producer, topic, ["a"], count)[0].queue
        eventually(lambda: client.brokers.max_offset(queue) == count)
        offsets, left, started = [], list(answers), threading.Event()

        def act(batch, context):
            assert started.wait(20)
            context.auto_commit = False
            offsets.append(next(e.offset for e in member.explain() if e.queue == queue))
            return left.pop(0)

        handler = Batches(act)
        member, _ = start_member(
            recorder=handler, batch_size=batch_size, suspend=0.02, commit_interval=0.05
        )
        started.set()
        eventually(lambda: client.brokers.query_offset(group, queue) == count, within=20)
        assert left == []
        return handler, offsets

    return run


def test_success_keeps_in_hand_and_commit_ends_all_of_it(handle):
    handler, offsets = handle(6, SUCCESS, SUCCESS, COMMIT, COMMIT, SUCCESS, COMMIT)
    assert handler.batches == [[0], [1], [2], [3], [4], [5]]
    assert offsets == [0, 0, 0, 3, 4, 4]


def test_rollback_delivers_everything_in_hand_again_in_order(handle):
    handler, offsets = handle(4, SUCCESS, SUCCESS, ROLLBACK, SUCCESS, SUCCESS, SUCCESS, COMMIT)
    assert handler.batches == [[0], [1], [2], [0], [1], [2], [3]]
    assert set(offsets) == {0}
    assert handler.attempts(2) == [1, 1], "a rollback is no failed attempt, as in Java"


def test_suspend_delivers_only_its_own_batch_again(handle):
    handler, offsets = handle(4, SUCCESS, SUCCESS, SUSPEND, SUSPEND, SUCCESS, COMMIT)
    assert handler.batches == [[0], [1], [2], [2], [2], [3]]
    assert set(offsets) == {0}
    assert handler.attempts(2) == [1, 2, 3]


def test_batches_are_kept_suspended_and_rolled_back_whole(handle):
    answers = (SUCCESS, SUSPEND, SUCCESS, ROLLBACK, SUCCESS, COMMIT, COMMIT)
    handler, offsets = handle(8, *answers, batch_size=3)
    kept, suspended, last = [0, 1, 2], [3, 4, 5], [6, 7]
    assert handler.batches == [kept, suspended, suspended, last, kept, suspended, last]
    assert offsets == [0, 0, 0, 0, 0, 0, 6]


@pytest.mark.parametrize("answer", [None, "COMMIT", True])
def test_what_is_no_result_commits_nothing(answer, handle):
    handler, offsets = handle(3, SUCCESS, answer, COMMIT, COMMIT)
    assert handler.batches == [[0], [1], [1], [2]]
    assert offsets == [0, 0, 0, 2]


def test_what_was_never_committed_comes_again_to_the_next_member(producer, topic, start_member):
    def keep_from_1_on(messages, context):
        context.auto_commit = int(messages[0].body) == 0
        return SUCCESS

    send_numbers(producer, topic, ["a"], 4)
    first, seen = start_member(keep_from_1_on)
    eventually(lambda: 3 in seen.numbers("a"), within=20)
    first.close()
    _, again = start_member()
    eventually(lambda: 3 in again.numbers("a"), within=20)
    assert again.numbers("a") == [1, 2, 3]
