"""In a batch each message has its own fate: what is dead or done never runs again."""

import pytest
from structlog.testing import capture_logs

from orderly import Ack, ConsumeResult, DeadLetter, Fail, Suspend
from tests.support.consuming import Batches, send_numbers
from tests.support.topics import dead_letters, dead_numbers, retried
from tests.support.waiting import eventually

FAST = {"batch_size": 4, "suspend": 0.02}


@pytest.fixture
def start(producer, topic, start_member, client):
    """Send numbers, and have `Batches` handle them once all of them can be pulled.

    It is called before this returns: what its `act` reads has to be there before.
    """

    def start(handler, count=4, **settings):
        queue = send_numbers(producer, topic, ["a"], count)[0].queue
        eventually(lambda: client.brokers.max_offset(queue) == count)
        start_member(recorder=handler, patient=True, **FAST | settings)

    return start


def test_each_message_of_a_batch_is_dead_lettered_once_and_in_order(start, group, client):
    def act(batch, context):
        return ConsumeResult.SUCCESS if 4 in batch else ConsumeResult.SUSPEND

    handler = Batches(act)
    start(handler, count=5, max_reconsume_times=1)
    eventually(lambda: handler.batches[-1:] == [[4]], within=20)
    assert handler.batches == [[0, 1, 2, 3], [0, 1, 2, 3], [4]]
    assert dead_numbers(client, group, 4) == [0, 1, 2, 3]
    assert retried(client, group) == []


@pytest.mark.parametrize(
    "answer", [ConsumeResult.SUSPEND, ConsumeResult.ROLLBACK, Suspend(), Fail("no"), None], ids=str
)
def test_a_dead_letter_does_not_run_again_because_a_sibling_is_suspended(
    answer, start, group, client
):
    def act(batch, context):
        if 1 in batch:
            context.dead_letter(batch[1], "no such account")
            return answer
        return ConsumeResult.SUCCESS if len(handler.calls) > 2 else ConsumeResult.SUSPEND

    handler = Batches(act)
    start(handler)
    eventually(lambda: len(handler.calls) == 3, within=20)
    assert handler.batches == [[0, 1, 2, 3], [0, 2, 3], [0, 2, 3]]
    assert handler.attempts(3) == [1, 2, 3]
    assert dead_numbers(client, group, 1) == [1]


def test_one_that_is_done_does_not_run_again_because_a_sibling_is_suspended(start, group, client):
    def act(batch, context):
        if 0 not in batch:
            return ConsumeResult.SUCCESS
        context.done(batch[0])
        context.done(batch[2])
        return ConsumeResult.SUSPEND

    handler = Batches(act)
    start(handler)
    eventually(lambda: len(handler.calls) == 2, within=20)
    assert handler.batches == [[0, 1, 2, 3], [1, 3]]
    assert dead_letters(client, group) == []


def test_an_attempt_at_what_was_not_tried_is_not_counted(start, group, client):
    def act(batch, context):
        if 1 not in batch:
            return ConsumeResult.SUCCESS
        context.done(batch[0]) if 0 in batch else None
        for number in (2, 3):
            context.not_tried(batch[number])
        return ConsumeResult.SUSPEND

    handler = Batches(act)
    start(handler, max_reconsume_times=2)
    eventually(lambda: handler.batches[-1:] == [[2, 3]], within=20)
    assert handler.batches == [[0, 1, 2, 3], [1, 2, 3], [1, 2, 3], [2, 3]]
    assert handler.attempts(1) == [1, 2, 3]
    assert handler.attempts(2) == [1, 1, 1, 1]
    assert dead_numbers(client, group, 1) == [1]


def test_a_manual_rollback_brings_no_dead_letter_and_nothing_done_back(start, group, client):
    def act(batch, context):
        context.auto_commit = False
        call = len(handler.calls)
        if call == 1:  # [0, 1]: in hand from now on
            return ConsumeResult.SUCCESS
        if call == 2:  # [2, 3]: one dead, one done; none is left to try
            context.done(batch[3])
            return context.dead_letter(batch[2], "no")
        return ConsumeResult.ROLLBACK if call == 3 else ConsumeResult.COMMIT

    handler = Batches(act)
    start(handler, count=5, batch_size=2)
    eventually(lambda: len(handler.calls) == 5, within=20)
    assert handler.batches == [[0, 1], [2, 3], [4], [0, 1], [4]]
    assert handler.attempts(0) == [1, 1], "a rollback counts no attempt, as in Java"
    assert dead_numbers(client, group, 1) == [2]


def test_one_named_in_a_manual_rollback_is_dead_lettered_and_all_else_comes_back(
    start, group, client
):
    def act(batch, context):
        context.auto_commit = False
        call = len(handler.calls)
        if call == 2:
            context.done(batch[2])  # what a rollback brings back all the same
            context.dead_letter(batch[3], "no such account")
            return ConsumeResult.ROLLBACK
        return ConsumeResult.SUCCESS if call == 1 else ConsumeResult.COMMIT

    handler = Batches(act)
    start(handler, count=6, batch_size=2, max_reconsume_times=0)
    eventually(lambda: handler.batches[-1:] == [[5]], within=20)
    assert handler.batches == [[0, 1], [2, 3], [0, 1], [2, 4], [5]]
    assert handler.attempts(2) == [1, 1], "a rollback counts no attempt, so none is one too many"
    assert dead_numbers(client, group, 1) == [3]


ACKNOWLEDGEMENTS = [ConsumeResult.SUCCESS, ConsumeResult.COMMIT, Ack(), ConsumeResult.ROLLBACK]


@pytest.mark.parametrize("answer", ACKNOWLEDGEMENTS, ids=str)
def test_one_named_and_then_acknowledged_with_its_batch_is_dead_lettered_all_the_same(
    answer, start, group, client
):
    def act(batch, context):
        if 1 in batch:
            context.dead_letter(batch[1], "no such account")
        return answer

    handler = Batches(act)
    start(handler, count=5, java_compat=answer is ConsumeResult.ROLLBACK)
    eventually(lambda: handler.batches[-1:] == [[4]], within=20)
    assert dead_numbers(client, group, 1) == [1]
    assert handler.batches == [[0, 1, 2, 3], [4]]


@pytest.mark.parametrize("answer", ACKNOWLEDGEMENTS[:3], ids=str)
def test_what_was_not_tried_is_not_acknowledged_with_its_batch(answer, start):
    def act(batch, context):
        if 0 in batch:
            context.not_tried(batch[1])
        return answer

    handler = Batches(act)
    start(handler, count=5)
    eventually(lambda: handler.batches[-1:] == [[1, 4]], within=20)
    assert handler.batches == [[0, 1, 2, 3], [1, 4]]


@pytest.mark.parametrize("answer", ACKNOWLEDGEMENTS[:3], ids=str)
@pytest.mark.parametrize("dead", [True, False])
def test_under_manual_commit_its_siblings_come_again_for_they_were_not_committed_alone(
    dead, answer, start, group, client
):
    def act(batch, context):
        context.auto_commit = False
        if len(handler.calls) > 1:
            return ConsumeResult.COMMIT
        context.dead_letter(batch[1], "no") if dead else context.not_tried(batch[1])
        return answer

    handler = Batches(act)
    start(handler)
    eventually(lambda: len(handler.batches) == 2, within=20)
    assert handler.batches == [[0, 1, 2, 3], [0, 2, 3] if dead else [0, 1, 2, 3]]
    if dead:
        assert dead_numbers(client, group, 1) == [1]


def test_the_outcome_rejects_all_that_was_neither_named_before_nor_untried(start, group, client):
    def act(batch, context):
        if 0 not in batch:
            return Ack()
        context.done(batch[0])
        context.dead_letter(batch[1], "its own reason")
        context.not_tried(batch[3])
        return DeadLetter("no such account")

    with capture_logs() as events:
        handler = Batches(act)
        start(handler)
        eventually(lambda: handler.batches[-1:] == [[3]], within=20)
    assert dead_numbers(client, group, 2) == [1, 2]
    reasons = [e["reason"] for e in events if e["event"] == "message.dead_lettered"]
    assert reasons == ["its own reason", "no such account"]
